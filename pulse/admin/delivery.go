package admin

import (
	"context"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/orionjs/orion-go/pulse/internal/delivery"
	"github.com/orionjs/orion-go/pulse/internal/store"
)

// DeliveryDetail is a delivery with its attempts and events.
type DeliveryDetail struct {
	Delivery
	// Attempts are in their order: those that have ended, of version 2 the last ten, of version 1 the last 1,000, and
	// the one that is pending or runs.
	Attempts []Attempt
	// Events are the first MaxEvents of the delivery's events, in their order. Read the others with Events.
	Events []Event
}

// Attempt is one run of the handler, or one to come.
type Attempt struct {
	// Number counts from 1. State is Pending or Retrying before it was claimed, Processing while it runs,
	// Succeeded or Failed after it.
	Number int
	State  State
	// CreatedAt is when it was scheduled, NextAttemptAt when it was due.
	CreatedAt, NextAttemptAt, StartedAt, EndedAt time.Time
	Duration                                     time.Duration
	// Worker is whose lease it was or is, LockedUntil when that ends or would have ended.
	Worker      string
	LockedUntil time.Time
	Error       *Failure
	// ExpiredEvents counts events that were gone before the handler ran.
	ExpiredEvents int
}

// MaxEvents is how many events one call reads.
const MaxEvents = 100

// Event is a published event.
type Event struct {
	ID, Topic string
	// Data is the payload as it is stored.
	Data      bson.RawValue
	Headers   map[string]string
	Publisher string
	CreatedAt time.Time
	// NotBefore is the later time that it was published for, zero for one that was published at once. ExpiresAt is when
	// it is deleted, zero for never.
	NotBefore, ExpiresAt time.Time
	// Waiting tells that no group sees it yet: it waits for its NotBefore, or, a moment long, for its place in the order.
	Waiting bool
	// Gone tells that it is no longer stored: its ID is all that is left.
	Gone bool
}

// Delivery reads a delivery with its attempts and events: three or four commands. There is none: *NotFoundError.
func (a *Admin) Delivery(ctx context.Context, id string) (DeliveryDetail, error) {
	ctx, cancel, err := a.begin(ctx)
	if err != nil {
		return DeliveryDetail{}, err
	}
	defer cancel()
	r, ok, err := a.store.Record(ctx, id)
	if err != nil {
		return DeliveryDetail{}, err
	}
	if !ok {
		return DeliveryDetail{}, &NotFoundError{What: "delivery", Name: id}
	}
	attempts, err := a.store.AttemptsOf(ctx, r)
	if err != nil {
		return DeliveryDetail{}, err
	}
	detail := DeliveryDetail{Delivery: deliveryOf(r, a.store.Now())}
	for _, attempt := range attempts {
		detail.Attempts = append(detail.Attempts, attemptOf(attempt))
	}
	detail.Events, err = a.events(ctx, r.EventIDs[:min(len(r.EventIDs), MaxEvents)])
	return detail, err
}

// Events reads events by ID, in that order, at most MaxEvents. One that is not stored is Gone.
func (a *Admin) Events(ctx context.Context, ids ...string) ([]Event, error) {
	if len(ids) > MaxEvents {
		return nil, &QueryError{"Events: more than 100 IDs: read them in several calls"}
	}
	ctx, cancel, err := a.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer cancel()
	return a.events(ctx, ids)
}

func (a *Admin) events(ctx context.Context, ids []string) ([]Event, error) {
	found, err := a.store.Events(ctx, ids)
	if err != nil {
		return nil, err
	}
	events := make([]Event, len(ids))
	for i, id := range ids {
		e, ok := found[id]
		events[i] = eventOf(e)
		events[i].ID, events[i].Gone = id, !ok
	}
	return events, nil
}

func eventOf(e store.Event) Event {
	return Event{
		ID: e.ID, Topic: e.Topic, Data: e.Data, Headers: e.Headers, Publisher: e.Publisher,
		CreatedAt: e.CreatedAt, NotBefore: e.NotBefore, ExpiresAt: e.ExpiresAt, Waiting: e.Unstamped,
	}
}

func attemptOf(a store.Attempt) Attempt {
	out := Attempt{
		Number: a.Attempt, CreatedAt: a.CreatedAt, NextAttemptAt: a.NextAttemptAt, StartedAt: a.StartedAt, EndedAt: a.EndedAt,
		Duration: time.Duration(a.DurationMs * float64(time.Millisecond)), Worker: a.LockOwner, LockedUntil: a.LockedUntil,
		Error: failure(a.Failure), ExpiredEvents: a.Expired,
	}
	switch {
	case a.Status == delivery.StatusV1Success:
		out.State = Succeeded
	case a.Status == delivery.StatusV1Error:
		out.State = Failed
	case a.Status != delivery.StatusV1Pending:
		out.State = Unknown
	case a.Locked:
		out.State = Processing
	case a.Attempt > 1:
		out.State = Retrying
	default:
		out.State = Pending
	}
	return out
}
