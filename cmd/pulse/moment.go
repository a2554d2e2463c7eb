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
func (m *moment) UnmarshalText(text []byte) (err error) {
	m.Time, err = parseTime(string(text), -1, "how long ago")
	return err
}

// later is a moment to come: a date, or in how long.
type later struct{ time.Time }

// UnmarshalText reads what moment reads, but durations from now on.
func (l *later) UnmarshalText(text []byte) (err error) {
	l.Time, err = parseTime(string(text), 1, "in how long")
	return err
}

func parseTime(s string, direction time.Duration, relative string) (time.Time, error) {
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05", "2006-01-02T15:04", time.DateOnly} {
		if t, err := time.Parse(layout, s); err == nil {
			return t.UTC(), nil
		}
	}
	d, err := time.ParseDuration(s)
	if number, found := strings.CutSuffix(s, "d"); found {
		days, notNumber := strconv.ParseFloat(number, 64)
		d, err = time.Duration(days*24*float64(time.Hour)), notNumber
	}
	if err != nil || d < 0 {
		return time.Time{}, fmt.Errorf("%q is no time: give a date in UTC (2026-01-31, 2026-01-31T12:00:00Z), or %s (90s, 2h, 7d)", s, relative)
	}
	return time.Now().Add(direction * d).UTC(), nil
}
