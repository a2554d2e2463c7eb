package echoes

import (
	"context"
	"time"
)

// EventContext says where the event in hand comes from.
type EventContext struct {
	// EventID identifies the event on every transport and at every attempt. It
	// is the key that makes a handler's writes idempotent.
	EventID string
	Topic   string
	// Headers are the publisher's, nil when there are none.
	Headers map[string]string
	// CreatedAt is when the event was published, in UTC.
	CreatedAt time.Time
	// Attempt counts from 1.
	Attempt int
	// ConsumerGroup is the group that the event was delivered to.
	ConsumerGroup string
	// Transport is "pulse" or "kafka".
	Transport string
}

// Item is an event as a handler receives it: its decoded parameters and its own
// context (spec 7.1).
//
//	func (s *Orders) Created(ctx context.Context, order echoes.Item[Order]) error {
//		return s.store(ctx, order.EventID, order.Params)
//	}
type Item[P any] struct {
	// Params holds the decoded parameters.
	Params P
	EventContext
}

type contextKey struct{}

// FromContext returns the context of the event that a handler was called for.
// It gives handlers that take plain parameters, and middleware, what an Item
// carries. It reports false outside of a handler, and for a batch, whose items
// each have their own.
func FromContext(ctx context.Context) (EventContext, bool) {
	ec, ok := ctx.Value(contextKey{}).(EventContext)
	return ec, ok
}

func withEvent(ctx context.Context, ec EventContext) context.Context {
	return context.WithValue(ctx, contextKey{}, ec)
}
