package terminal

import (
	"fmt"
	"time"
)

// Exact is a time in UTC to the millisecond, as it is stored; empty for none.
func Exact(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02T15:04:05.000Z07:00")
}

// Relative tells how far a time is from now: 4s ago, in 3m; empty for none.
func Relative(t, now time.Time) string {
	switch d := now.Sub(t); {
	case t.IsZero():
		return ""
	case d < 0:
		return "in " + Span(-d)
	default:
		return Span(d) + " ago"
	}
}

// Both is the exact time with the distance from now behind it.
func Both(t, now time.Time) string {
	if t.IsZero() {
		return ""
	}
	return Exact(t) + " (" + Relative(t, now) + ")"
}

// Span is a length of time in its one or two largest units: 850ms, 12s, 3m20s, 2h5m, 4d3h.
func Span(d time.Duration) string {
	two := func(big, small time.Duration, bigUnit, smallUnit string) string {
		d = d.Round(small)
		if rest := d % big / small; rest > 0 {
			return fmt.Sprintf("%d%s%d%s", d/big, bigUnit, rest, smallUnit)
		}
		return fmt.Sprintf("%d%s", d/big, bigUnit)
	}
	const day = 24 * time.Hour
	switch {
	case d < 0:
		return "-" + Span(-d)
	case d < time.Second-time.Millisecond/2:
		return fmt.Sprintf("%dms", d.Round(time.Millisecond)/time.Millisecond)
	case d < 10*time.Second:
		return d.Round(100 * time.Millisecond).String()
	case d < time.Minute-time.Second/2:
		return fmt.Sprintf("%ds", d.Round(time.Second)/time.Second)
	case d < time.Hour-time.Second/2:
		return two(time.Minute, time.Second, "m", "s")
	case d < day-time.Minute/2:
		return two(time.Hour, time.Minute, "h", "m")
	default:
		return two(day, time.Hour, "d", "h")
	}
}
