package pulse

import (
	"context"
	"fmt"

	"github.com/orionjs/orion-go/pulse/internal/store"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// publishWithin stores events in the caller's transaction (spec 1.4). A duplicate key would abort it, so events
// whose ID was given are looked for before they are stored; another transaction that stores one of them in
// between is a write conflict, after which the caller's whole transaction is tried again.
func (t Topic[T]) publishWithin(ctx context.Context, c *Client, all []prepared[T]) ([]Published[T], error) {
	fail := func(err error) ([]Published[T], error) {
		return nil, fmt.Errorf("pulse: topic %s: publish %d events in the caller's transaction, which cannot be committed now: %w", t.name, len(all), err)
	}
	var given []string
	for _, p := range all {
		if p.idGiven {
			given = append(given, p.stored.ID)
		}
	}
	stored := map[string]store.Event{}
	if len(given) > 0 {
		var err error
		if stored, err = c.store.EventsWithin(ctx, given); err != nil {
			return fail(err)
		}
	}
	results := make([]Published[T], len(all))
	refused := map[int]error{}
	var docs []bson.Raw
	var ids []string
	for i, p := range all {
		if _, there := stored[p.stored.ID]; there {
			refused[i] = nil
			continue
		}
		stored[p.stored.ID] = p.stored // for another one of the same ID in this call
		docs = append(docs, p.doc)
		if p.stored.NotBefore.IsZero() {
			ids = append(ids, p.stored.ID)
		} else {
			c.scheduled(p.stored.NotBefore)
		}
		results[i].Event = p.event
	}
	if len(docs) > 0 {
		if err := c.store.InsertPending(ctx, docs); err != nil {
			return fail(err)
		}
	}
	for i, r := range t.compare(all, refused, stored, false) {
		results[i] = r
	}
	if e := c.running(); e != nil && len(ids) > 0 {
		e.Published(ids)
	}
	return results, nil
}
