package delivery

import (
	"time"

	"github.com/orionjs/orion-go/pulse/internal/backoff"
)

// Policy is the part of a subscription's durable settings that decides what follows a failure.
type Policy struct {
	// MaxRetries counts retries after the first attempt.
	MaxRetries int
	// RetryDelay is the pause after the first failed attempt.
	RetryDelay time.Duration
	// Multiplier scales the pause from one failed attempt to the next.
	Multiplier float64
	// MaxDelay is the longest pause; 0 sets no bound but that of package backoff.
	MaxDelay time.Duration
	// Jitter is the part of each pause that is left to chance, from 0 to 1.
	Jitter float64
	// AtMostOnce forbids every retry, whatever MaxRetries says (spec 2.5).
	AtMostOnce bool
}

// Retries returns how many retries the policy really grants.
func (p Policy) Retries() int {
	if p.AtMostOnce {
		return 0
	}
	return max(p.MaxRetries, 0)
}

// Outcome is how one attempt ended.
type Outcome struct {
	// Failure is nil for a success.
	Failure *Failure
	// Permanent ends the delivery whatever the policy grants (spec 4.6).
	Permanent bool
	// RetryAfter, when not nil, replaces the policy's next pause (spec 4.6).
	RetryAfter *time.Duration
	// Expired counts the events of the delivery that were gone before the handler ran (spec 3.6).
	Expired int
}

// Verdict is what an outcome makes of the delivery.
type Verdict int

// The three ways an attempt can leave a delivery.
const (
	Succeeded Verdict = iota
	Retried
	Failed
)

// Decide returns what becomes of a delivery whose attempt (counted from 1) ended with the outcome,
// and, when it is Retried, how long after the attempt's end the next one is due.
func Decide(attempt int, o Outcome, p Policy) (Verdict, time.Duration) {
	switch {
	case o.Failure == nil:
		return Succeeded, 0
	case o.Permanent, o.Failure.Code == CodeEventExpired, attempt > p.Retries():
		return Failed, 0
	case o.RetryAfter != nil:
		return Retried, min(max(*o.RetryAfter, 0), backoff.MaxDelay)
	default:
		return Retried, p.pause(attempt)
	}
}

// pause is how long the delivery rests after that failed attempt. The bound comes before the chance: deliveries
// that fail together and have reached the bound would come back together otherwise.
func (p Policy) pause(attempt int) time.Duration {
	delay := backoff.Delay(p.RetryDelay, p.Multiplier, attempt)
	if p.MaxDelay > 0 {
		delay = min(delay, p.MaxDelay)
	}
	return backoff.Spread(delay, p.Jitter)
}

// MayClaimAhead tells whether a pending delivery with that many attempts behind it may be claimed
// before a worker is free for it (spec 4.7). A claim that is lost with its process costs one
// attempt, so only a first attempt that has retries behind it may be risked: a lost one is never
// terminal, and an event that kills processes is never buffered beside innocent ones twice.
func MayClaimAhead(attempts int, p Policy) bool {
	return attempts == 0 && p.Retries() > 0
}
