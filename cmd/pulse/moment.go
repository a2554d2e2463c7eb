package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// moment is a point in time on a command line: a date, or how long ago.
type moment struct{ time.Time }

// UnmarshalText reads RFC 3339 text, a day, or a duration before now such as 90s, 2h or 7d.
func (m *moment) UnmarshalText(text []byte) error {
	s := string(text)
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05", "2006-01-02T15:04", time.DateOnly} {
		if t, err := time.Parse(layout, s); err == nil {
			m.Time = t.UTC()
			return nil
		}
	}
	ago, err := time.ParseDuration(s)
	if number, found := strings.CutSuffix(s, "d"); found {
		days, notNumber := strconv.ParseFloat(number, 64)
		ago, err = time.Duration(days*24*float64(time.Hour)), notNumber
	}
	if err != nil || ago < 0 {
		return fmt.Errorf("%q is no time: give a date in UTC (2026-01-31, 2026-01-31T12:00:00Z), or how long ago (90s, 2h, 7d)", s)
	}
	m.Time = time.Now().Add(-ago).UTC()
	return nil
}
