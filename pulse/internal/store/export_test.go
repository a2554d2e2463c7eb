package store

import "time"

// MoveClock makes the store's idea of the server's clock wrong.
func MoveClock(s *Store, by time.Duration) { s.offset.Add(int64(by)) }

// SetStampPage bounds how many events one round of stamping looks at.
func SetStampPage(s *Store, n int) { s.stampPage = n }
