// Package clock is the only place of the module that reads the time and waits for it.
//
// Everything else calls these functions, so that a search for time.Now, time.After, time.Sleep or
// time.NewTimer outside this package finds mistakes only. Tests need no fake: the functions are thin
// over package time, and testing/synctest replaces its clock.
//
// Instants keep their monotonic reading. Local deadlines (of a lease, of a pause) are therefore safe
// from steps of the wall clock as long as they are compared with Since, Until, Sub, Before and After,
// and not through their Unix values.
package clock

import (
	"context"
	"math"
	"math/rand/v2"
	"time"
)

// wrong is how far the clock of this process is set wrong.
var wrong time.Duration

// SetWrong makes this process one whose machine's clock is wrong, ahead by d or behind by -d. It is for
// processes that tests start, before anything else in them reads the clock.
func SetWrong(d time.Duration) { wrong = d }

// Now returns the current local time with its monotonic reading.
func Now() time.Time { return time.Now().Add(wrong) }

// Since returns the time passed since t, on the monotonic clock when t has such a reading.
func Since(t time.Time) time.Duration { return Now().Sub(t) }

// Until returns the time left until t, negative when t has passed, on the monotonic clock when t has
// such a reading.
func Until(t time.Time) time.Duration { return t.Sub(Now()) }

// NewTimer returns a timer that sends once on its channel after d. Stop and Reset leave no stale value
// in the channel.
func NewTimer(d time.Duration) *time.Timer { return time.NewTimer(d) }

// After returns a channel that receives once after d. A channel that nobody reads any more is collected
// before it fires.
func After(d time.Duration) <-chan time.Time { return time.After(d) }

// AfterFunc calls f in a goroutine of its own after d, unless the returned timer is stopped before.
func AfterFunc(d time.Duration, f func()) *time.Timer { return time.AfterFunc(d, f) }

// Sleep waits for d, or until ctx ends; it then returns ctx.Err(). A context that has ended already wins
// over any d, also over one that is zero or negative, so that a loop which sleeps always notices its end.
func Sleep(ctx context.Context, d time.Duration) error {
	if err := ctx.Err(); err != nil || d <= 0 {
		return err
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Jitter returns a random duration, uniform between d and d*(1+fraction): pauses get longer, never
// shorter, so that replicas which started together drift apart and no limit is undercut. A fraction that
// is zero, negative or not a number, or a d that is not positive, returns d. Results saturate at the
// largest duration.
func Jitter(d time.Duration, fraction float64) time.Duration {
	if d <= 0 || !(fraction > 0) {
		return d
	}
	extra := float64(d) * fraction * rand.Float64()
	// float64(math.MaxInt64) is 2^63, one above what fits. NaN (0 times infinity) is no extra at all.
	if !(extra > 0) {
		return d
	}
	if extra >= float64(math.MaxInt64-d) {
		return math.MaxInt64
	}
	return d + time.Duration(extra)
}
