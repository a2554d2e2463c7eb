// Package backoff computes how long to wait before trying again: the delay of a failed delivery by its
// subscription's policy (spec 2.4), and the growing pause of a loop that meets errors.
//
// The arithmetic never overflows and never panics: policies come from stored documents too, and a
// document with an absurd number must not stop a client (spec 6.3).
package backoff

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/orionjs/orion-go/pulse/internal/clock"
)

// MaxDelay is the longest delay that Delay returns: 100 years of 365.25 days. It is far beyond every
// retention, and far enough below the largest time.Duration (292 years) that adding delays to each other
// or to the current time stays in range.
const MaxDelay = 36525 * 24 * time.Hour

// maxDateMillis is the last millisecond, counted from the Unix epoch, that a JavaScript date can hold.
// Other clients of the group read nextAttemptAt as such a date.
const maxDateMillis = 8.64e15

// Delay returns the pause after the failed attempt of that number, counted from 1:
// base x multiplier^(failedAttempt-1), as spec 2.4 defines it. It lies between 0 and MaxDelay whatever
// the arguments: a negative base is 0, a multiplier that is not a number is 1, a negative one is 0, and
// an attempt below 1 is the first.
func Delay(base time.Duration, multiplier float64, failedAttempt int) time.Duration {
	if base <= 0 {
		return 0
	}
	n := max(failedAttempt, 1) - 1
	if n == 0 || multiplier == 1 || math.IsNaN(multiplier) {
		return min(base, MaxDelay) // exact: no detour over floating point
	}
	delay := float64(base) * math.Pow(max(multiplier, 0), float64(n))
	if !(delay < float64(MaxDelay)) {
		return MaxDelay
	}
	return time.Duration(delay)
}

// Spread returns a pause at random, uniform between delay x (1 - fraction) and delay: what failed together is not
// tried again together, and no pause is longer than it was. A fraction that is zero, negative or not a number leaves
// the delay, one above 1 counts as 1.
func Spread(delay time.Duration, fraction float64) time.Duration {
	if delay <= 0 || !(fraction > 0) {
		return delay
	}
	return delay - time.Duration(rand.Float64()*min(fraction, 1)*float64(delay))
}

// Largest returns the longest delay, in milliseconds, that the policy can ask for: the one after the last
// attempt that is retried, or the first delay if the multiplier shrinks it. It does not saturate, so that
// CheckRange sees what the policy means; an overflow is +Inf. Without retries there is no delay: 0.
func Largest(base time.Duration, multiplier float64, maxRetries int) float64 {
	if maxRetries < 1 || base <= 0 {
		return 0
	}
	first := float64(base) / float64(time.Millisecond)
	if math.IsNaN(multiplier) {
		return math.NaN()
	}
	return first * math.Max(1, math.Pow(max(multiplier, 0), float64(maxRetries-1)))
}

// CheckRange refuses a policy that could schedule an attempt, counted from now, after the last date that
// every client of the group can represent (8.64e15 ms from the epoch, the year 275760). Such a policy is a
// slip of units or of the multiplier, and is refused at start (spec 2.4) and not found after days of
// retrying. A negative base, and a multiplier that is negative, infinite or not a number, are refused for
// the same reason. It returns nil for a policy without retries whose numbers are sound.
func CheckRange(base time.Duration, multiplier float64, maxRetries int, now time.Time) error {
	if base < 0 {
		return fmt.Errorf("retry delay %v is negative: use zero or more", base)
	}
	if math.IsNaN(multiplier) || math.IsInf(multiplier, 0) || multiplier < 0 {
		return fmt.Errorf("retry backoff multiplier %v is not usable: use a finite number that is zero or more", multiplier)
	}
	largest := Largest(base, multiplier, maxRetries)
	if float64(now.UnixMilli())+largest <= maxDateMillis {
		return nil
	}
	return fmt.Errorf("the delay before retry %d would be %.3g ms (%v x %v^%d), beyond the last date that can be stored: use fewer retries, a smaller multiplier or a shorter delay",
		maxRetries, largest, base, multiplier, maxRetries-1)
}

// Exponential is the pause of one loop that meets errors: it doubles from a minimum to a maximum, with
// jitter, until the loop works again. It belongs to one goroutine.
type Exponential struct {
	least, most time.Duration
	failures    int
}

// jitterFraction spreads the pauses of replicas that fail together over half a pause more.
const jitterFraction = 0.5

// NewExponential returns a backoff whose first pause is least and whose longest is most, each lengthened
// by up to half of it at random. A least that is not positive is one millisecond, so that a failing loop
// never spins; a most below least is least.
func NewExponential(least, most time.Duration) *Exponential {
	least = max(least, time.Millisecond)
	return &Exponential{least: least, most: max(least, most)}
}

// Next counts one more failure and returns the pause before the next try.
func (e *Exponential) Next() time.Duration {
	e.failures++
	return clock.Jitter(min(Delay(e.least, 2, e.failures), e.most), jitterFraction)
}

// Failures returns the number of failures since the last Reset, for logging the first and not the rest.
func (e *Exponential) Failures() int { return e.failures }

// Reset makes the next pause the shortest again. Call it after a success.
func (e *Exponential) Reset() { e.failures = 0 }
