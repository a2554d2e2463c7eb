package admin

import (
	"context"
	"slices"
	"strings"

	"github.com/orionjs/orion-go/pulse/internal/store"
)

// Change is what became of a delivery.
type Change struct {
	Delivery, Group, Topic string
	From, To               State
	// Attempt is the number of the attempt that Retry has granted.
	Attempt int
}

// Retry grants one more attempt to a delivery that has ended, as success or error (spec 9.2). It is due at once, under the next
// number. When it fails, the delivery ends as an error again, however many retries the subscription has: each further
// attempt needs another Retry. A batch is granted as the whole that it is. Who granted it, and why, stays with the
// delivery; its retention begins anew when it ends.
//
// In an ordered subscription the attempt runs out of its order: before all events that still wait, but behind those
// that were handled since.
//
// Clients of this module honour the grant. A Node client that claims the attempt applies its subscription's maxRetries
// to it: a delivery that ended before they were used up, by pulse.Permanent, may be retried by itself there.
//
// Errors that change nothing: *NotFoundError; *StateError for a delivery that has not ended, or that ended anew since it
// was read; *ExpiredError when none of its events is stored any more.
func (a *Admin) Retry(ctx context.Context, id string, by By) (Change, error) {
	return a.change(ctx, id, by, ended, func(ctx context.Context, r store.Record, c *Change) (bool, error) {
		stored, err := a.store.AnyEvent(ctx, r.EventIDs)
		if err != nil {
			return false, err
		}
		if !stored {
			return false, &ExpiredError{Delivery: r.ID, Events: len(r.EventIDs)}
		}
		attempt, granted, err := a.store.Grant(ctx, r, store.By(by))
		c.Attempt, c.To = attempt, Retrying
		if attempt == 1 {
			c.To = Pending
		}
		return granted, err
	})
}

// ended are the states of a delivery that has ended.
var ended = []State{Succeeded, Failed}

// change reads a delivery, which must be in one of the states, and changes it. Do completes the Change, and tells
// whether the delivery was still as it was read.
func (a *Admin) change(ctx context.Context, id string, by By, states []State, do func(context.Context, store.Record, *Change) (bool, error)) (Change, error) {
	if err := by.check(); err != nil {
		return Change{}, err
	}
	ctx, cancel, err := a.begin(ctx)
	if err != nil {
		return Change{}, err
	}
	defer cancel()
	r, err := a.record(ctx, id)
	if err != nil {
		return Change{}, err
	}
	c := Change{Delivery: r.ID, Group: r.ConsumerGroup, Topic: r.Topic, From: stateOf(r)}
	if !slices.Contains(states, c.From) {
		return Change{}, &StateError{Delivery: r.ID, Is: c.From, Want: states}
	}
	changed, err := do(ctx, r, &c)
	a.store.Close(ctx)
	if err == nil && !changed {
		err = a.moved(ctx, r.ID, states)
	}
	if err != nil {
		return Change{}, err
	}
	return c, nil
}

func (b By) check() error {
	if strings.TrimSpace(b.Name) == "" {
		return &QueryError{"By.Name is empty: say who does this, it is stored with what is done"}
	}
	return nil
}

func (a *Admin) record(ctx context.Context, id string) (store.Record, error) {
	r, ok, err := a.store.Record(ctx, id)
	if err == nil && !ok {
		err = &NotFoundError{What: "delivery", Name: id}
	}
	return r, err
}

// moved is the error of a change that met a delivery which has changed since it was read.
func (a *Admin) moved(ctx context.Context, id string, want []State) error {
	r, err := a.record(ctx, id)
	if err != nil {
		return err
	}
	return &StateError{Delivery: id, Is: stateOf(r), Want: want}
}
