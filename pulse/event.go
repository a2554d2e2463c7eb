package pulse

import (
	"time"

	"github.com/orionjs/orion-go/pulse/internal/store"
)

// Event is a published fact: what Publish returns and what handlers get, both decoded from the stored
// bytes (spec 1.5, 2.2): times have milliseconds and are UTC, nil and empty differ as BSON keeps them
// apart. Handlers of several groups get their own copies.
type Event[T any] struct {
	// ID is unique among retained events: the key for idempotent side effects.
	ID string
	// Topic is what the event was published to.
	Topic string
	// Data is the decoded payload.
	Data T
	// Headers are the publisher's, nil if it gave none.
	Headers map[string]string
	// CreatedAt is when the event was published, by the publisher's clock. It does not decide the order.
	CreatedAt time.Time
	// NotBefore is the time that the event was published for; zero if it was published at once.
	NotBefore time.Time
	// ExpiresAt is when the event may be deleted; zero if it is kept for ever.
	ExpiresAt time.Time
	// Publisher is the consumer group of the client that published the event.
	Publisher string
	// ConsumerGroup is the group that handles this delivery; empty on a published event.
	ConsumerGroup string
	// Attempt counts the runs of the handler for this delivery, from 1; 0 on a published event.
	Attempt int
	// Duplicate tells, on a published event, that it was stored already, under the ID that the caller
	// gave; nothing was stored now, and the other fields are the stored event's.
	Duplicate bool
}

// newEvent decodes a stored event.
func newEvent[T any](e store.Event) (*Event[T], error) {
	out := &Event[T]{
		ID: e.ID, Topic: e.Topic, Headers: e.Headers, Publisher: e.Publisher,
		CreatedAt: e.CreatedAt, NotBefore: e.NotBefore, ExpiresAt: e.ExpiresAt,
	}
	if err := decode(e.Data, &out.Data); err != nil {
		return nil, &DecodeError{Topic: e.Topic, EventID: e.ID, Err: err}
	}
	return out, nil
}
