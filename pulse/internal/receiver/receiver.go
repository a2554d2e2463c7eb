// Package receiver describes one local subscription: its handler, its local limit, and the durable
// settings in force. Discovery, workers and maintenance share it.
package receiver

import (
	"context"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/orionjs/orion-go/pulse/internal/delivery"
	"github.com/orionjs/orion-go/pulse/internal/store"
)

// Call is one invocation of a handler.
type Call struct {
	// Events are the events of the delivery that still exist, in sequence order, never empty.
	Events []store.Event
	// Attempt counts from 1.
	Attempt int
}

// Receiver is one topic's local subscription. Its fields do not change after it was registered;
// the settings do, when a replica with a higher configVersion raises them.
type Receiver struct {
	Topic          string
	SubscriptionID string
	// Batch receivers get all events of a delivery in one call, others one call an event.
	Batch bool
	// Limit is how many invocations may run at once in this client; 0 if none was asked for.
	Limit int
	// MaxDelay and Jitter bound and spread the pauses before retries; see delivery.Policy. Like Limit they are
	// not stored.
	MaxDelay time.Duration
	Jitter   float64
	// Timeout is how long a call may take, which Handle sees to; 0 is no limit.
	Timeout time.Duration
	// Rate limits how many calls may begin; nil does not.
	Rate *rate.Limiter
	// Handle runs the user's handler; its error is the attempt's outcome.
	Handle func(ctx context.Context, call Call) error

	settings atomic.Pointer[store.Settings]
	paused   atomic.Bool
}

// Settings returns the durable settings in force.
func (r *Receiver) Settings() store.Settings { return *r.settings.Load() }

// Policy is what follows a failure: the durable settings in force, within the bounds of this client.
func (r *Receiver) Policy() delivery.Policy {
	p := r.Settings().Policy()
	p.MaxDelay, p.Jitter = r.MaxDelay, r.Jitter
	return p
}

// Adopt makes s the settings in force.
func (r *Receiver) Adopt(s store.Settings) { r.settings.Store(&s) }

// Paused tells whether an operator has paused the subscription, as of the last poll.
func (r *Receiver) Paused() bool { return r.paused.Load() }

// SetPaused takes over whether the subscription is paused, and tells whether that is news.
func (r *Receiver) SetPaused(paused bool) (news bool) { return r.paused.Swap(paused) != paused }

// Most is how many invocations may run at once in a client with so many workers, which is a bound of its own, by
// the settings in force.
func (r *Receiver) Most(workers int) int {
	switch {
	case r.Settings().InOrder():
		return 1
	case r.Limit == 0:
		return workers
	default:
		return r.Limit
	}
}
