package pulse

import (
	"context"
	"fmt"
	"math"
	"time"

	"golang.org/x/time/rate"

	"github.com/orionjs/orion-go/pulse/internal/backoff"
	"github.com/orionjs/orion-go/pulse/internal/clock"
	"github.com/orionjs/orion-go/pulse/internal/delivery"
	"github.com/orionjs/orion-go/pulse/internal/receiver"
	"github.com/orionjs/orion-go/pulse/internal/store"
)

// localOptions are the settings of a subscription that are not stored: each replica has its own, other clients of
// the group, Node's among them, see nothing of them, and changing one needs no ConfigVersion.
type localOptions struct {
	maxConcurrency *int
	maxRetryDelay  *time.Duration
	jitter         *float64
	timeout        *time.Duration
	limit          *rateLimit
}

type rateLimit struct {
	perSecond float64
	burst     int
}

// MaxConcurrency sets how many handlers (or batches) of the topic run at once in this client, within its
// WorkerCount. It is not stored; replicas may differ. Default: the WorkerCount; ordered: 1, and more is
// an error.
func MaxConcurrency(n int) SubscribeOption {
	return func(o *subscribeOptions) { o.local.maxConcurrency = &n }
}

// MaxRetryDelay bounds the pauses that RetryDelay and RetryBackoffMultiplier make: none is longer. A pause that
// RetryAfter asks for is not bounded. It is not stored: it holds for the attempts that end in this client, so give
// it to all replicas; Node's clients do not have it. With it MaxRetries may be so large that the pauses would pass
// the last date otherwise; Node's clients refuse such settings. Default: no bound.
func MaxRetryDelay(d time.Duration) SubscribeOption {
	return func(o *subscribeOptions) { o.local.maxRetryDelay = &d }
}

// RetryJitter leaves a part of each pause before a retry to chance, so that deliveries which failed together do
// not come back together: with 0.2 a pause of 10 s becomes one between 8 and 10 s, with 1 any up to 10 s. A pause
// never gets longer; one that RetryAfter asks for stays as it is. It is not stored, like MaxRetryDelay. Default 0.
func RetryJitter(fraction float64) SubscribeOption {
	return func(o *subscribeOptions) { o.local.jitter = &fraction }
}

// HandlerTimeout bounds each call of the handler: then its context ends, with a cause that is ErrHandlerTimeout and
// names the limit. An error that the handler returns afterwards is a failure like others, is recorded with the code
// handler_timeout, and is retried as the settings say; a nil is a success. A handler that does not heed its
// context runs on, and keeps its worker and its lease. A batch is one call. It is not stored; replicas may differ.
// Default: no limit, since leases are renewed however long a handler runs.
func HandlerTimeout(d time.Duration) SubscribeOption {
	return func(o *subscribeOptions) { o.local.timeout = &d }
}

// RateLimit lets at most perSecond calls of the topic's handler begin in a second in this client, on average, and
// up to burst at once after a quieter time; perSecond may be a fraction. A batch is one call, and a retry is one
// more. While a topic waits for its limit it claims nothing and holds no worker: other topics, and other replicas,
// go on. It is not stored, and each process counts for itself: with n replicas the group runs n times as many.
// Default: no limit.
func RateLimit(perSecond float64, burst int) SubscribeOption {
	return func(o *subscribeOptions) { o.local.limit = &rateLimit{perSecond, burst} }
}

// apply sets the receiver's local limits and says what is wrong with them.
func (o *subscribeOptions) apply(r *receiver.Receiver) (problems []string) {
	wrong := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	l := o.local
	if n := l.maxConcurrency; n != nil {
		switch r.Limit = *n; {
		case *n < 1 || int64(*n) > store.MaxNumber:
			wrong("MaxConcurrency(%d): must be from 1 to %d; WorkerCount bounds it as well", *n, int64(store.MaxNumber))
		case o.settings.Ordered && *n > 1:
			wrong("MaxConcurrency(%d): ordered delivery runs one handler at a time; add Unordered(), or remove it", *n)
		}
	}
	if d := l.maxRetryDelay; d != nil {
		switch r.MaxDelay = *d; {
		case *d < time.Millisecond || *d > backoff.MaxDelay:
			wrong("MaxRetryDelay(%v): must be from 1ms to %v, or left out for no bound; for retries at once use RetryDelay(0)", *d, backoff.MaxDelay)
		case *d < o.settings.RetryDelay:
			wrong("MaxRetryDelay(%v): is less than the first pause, RetryDelay(%v); lower that, or raise the bound", *d, o.settings.RetryDelay)
		}
	}
	if f := l.jitter; f != nil {
		if r.Jitter = *f; !(*f >= 0 && *f <= 1) {
			wrong("RetryJitter(%v): must be from 0, no jitter, to 1, any pause up to the full one", *f)
		}
	}
	if d := l.timeout; d != nil {
		if r.Timeout = *d; *d < time.Millisecond || *d > backoff.MaxDelay {
			wrong("HandlerTimeout(%v): must be from 1ms to %v, or left out for no limit", *d, backoff.MaxDelay)
		}
	}
	if limit := l.limit; limit != nil {
		switch {
		case !(limit.perSecond > 0) || math.IsInf(limit.perSecond, 1):
			wrong("RateLimit(%v, %d): the calls per second must be a finite number above 0, or the option left out for no limit; Unsubscribe stops a topic", limit.perSecond, limit.burst)
		case limit.burst < 1 || limit.burst > math.MaxInt32: // counted in floating point by the limiter
			wrong("RateLimit(%v, %d): the burst, the calls that may begin at once, must be from 1 to %d", limit.perSecond, limit.burst, math.MaxInt32)
		default:
			r.Rate = rate.NewLimiter(rate.Limit(limit.perSecond), limit.burst)
		}
	}
	return problems
}

// retryRange refuses pauses that would pass the last date that can be stored (spec 2.4). With a bound none is longer
// than that, or than the first.
func (o *subscribeOptions) retryRange() error {
	s := o.settings
	if o.local.maxRetryDelay != nil {
		s.MaxRetries = min(s.MaxRetries, 1)
	}
	return backoff.CheckRange(s.RetryDelay, s.Multiplier, s.MaxRetries, clock.Now())
}

// timed bounds each call of a handler.
func timed(handle func(context.Context, receiver.Call) error, limit time.Duration) func(context.Context, receiver.Call) error {
	return func(ctx context.Context, call receiver.Call) error {
		cause := &delivery.TimeoutError{Limit: limit}
		ctx, cancel := context.WithTimeoutCause(ctx, limit, cause)
		defer cancel()
		err := handle(ctx, call)
		if err != nil && context.Cause(ctx) == error(cause) { // not what ended the attempt's own context
			return &delivery.TimeoutError{Limit: limit, Err: err}
		}
		return err
	}
}
