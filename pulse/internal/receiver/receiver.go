// Package receiver describes one local subscription: its handler, its local limit, and the durable
// settings in force. Discovery, workers and maintenance share it.
package receiver

import (
	"context"
	"sync/atomic"

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
	// Handle runs the user's handler; its error is the attempt's outcome.
	Handle func(ctx context.Context, call Call) error

	settings atomic.Pointer[store.Settings]
}

// Settings returns the durable settings in force.
func (r *Receiver) Settings() store.Settings { return *r.settings.Load() }

// Adopt makes s the settings in force.
func (r *Receiver) Adopt(s store.Settings) { r.settings.Store(&s) }

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
