package store

import "time"

// MoveClock makes the store's idea of the server's clock wrong.
func MoveClock(s *Store, by time.Duration) { s.offset.Add(int64(by)) }
