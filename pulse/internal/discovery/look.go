package discovery

import (
	"context"
	"errors"
	"fmt"

	"github.com/orionjs/orion-go/pulse/internal/clock"
	"github.com/orionjs/orion-go/pulse/internal/store"
)

// How much one look takes. A batch is cut before its size only at these bounds, so that its IDs fit
// into a document and its payloads into memory, whatever batchSize says (spec 3.3).
const (
	pageEvents    = 1000
	maxPageEvents = 200_000
	maxBatchBytes = 16 << 20
	maxIDBytes    = 8 << 20
	idOverhead    = 16 // of an array element in BSON
)

// look stores the deliveries of one page of the topic's events. A full page asks for the next look.
func (l *Leader) look(ctx context.Context, topic string) error {
	t := l.term(topic)
	if t == nil {
		return nil
	}
	l.mu.Lock()
	overdue, cursor := clock.Until(t.deadline) <= 0, t.cursor
	if overdue {
		l.drop(topic, t)
	}
	l.mu.Unlock()
	if overdue {
		return nil
	}
	if t.uncertain {
		var err error
		if cursor, err = l.resync(ctx, t, nil); err != nil {
			return err
		}
	}

	settings := t.receiver.Settings()
	batch, size := settings.Batch(), 1
	if batch {
		size = settings.BatchSize
	}
	keys, more, err := l.Store.EventsAfter(ctx, topic, cursor, pageLimit(size), batch)
	if err != nil {
		return err
	}
	if len(keys) == 0 {
		t.known = nil // all of it lay before what is there now
		return nil
	}
	format := settings.Format()
	deliveries, to, rest := l.cut(topic, keys, t.known, format, batch, size, more)
	switch err := l.Store.Materialize(ctx, t.lease, deliveries, to); {
	case errors.Is(err, store.ErrLeaseLost):
		l.mu.Lock()
		l.drop(topic, t)
		l.mu.Unlock()
		return nil
	case errors.Is(err, store.ErrDelivered):
		// Another client, or an earlier try whose answer was lost, stored some: learn which, and repeat.
		if _, err := l.resync(ctx, t, eventIDs(keys)); err != nil {
			return err
		}
		l.queue.Add(topic)
		return nil
	case err != nil:
		t.uncertain = true
		return err
	}
	l.mu.Lock()
	t.cursor = to
	l.mu.Unlock()
	if len(deliveries) > 0 {
		l.Materialized(topic, format)
	}
	if n := unnamed(keys); n > 0 {
		l.Report(fmt.Errorf("pulse: consumer group %s, topic %s: %d events are passed over: their _id is no text, and no client of Pulse writes such", l.Group, topic, n))
	}
	if more || rest {
		l.queue.Add(topic)
	}
	return nil
}

// resync reads the cursor again, and which events behind it have a delivery already.
func (l *Leader) resync(ctx context.Context, t *term, candidates []string) (store.Position, error) {
	topic := t.receiver.Topic
	subs, err := l.Store.Subscriptions(ctx, l.Group, []string{topic})
	if err != nil {
		return store.Position{}, err
	}
	l.mu.Lock()
	if len(subs) == 1 {
		t.cursor = subs[0].Cursor
	}
	cursor := t.cursor
	l.mu.Unlock()
	t.known, err = l.Store.Delivered(ctx, l.Group, topic, cursor.Sequence, candidates)
	t.uncertain = err != nil
	return cursor, err
}

func pageLimit(size int) int {
	if size > pageEvents {
		return min(size, maxPageEvents)
	}
	return pageEvents / size * size
}

// cut makes deliveries of the page and returns them with the position of the last event that is dealt
// with, and whether that leaves a rest. While there are more events than the page shows, a last batch that
// is not full waits for them.
func (l *Leader) cut(topic string, page []store.EventKey, known map[string]bool, format store.Format, batch bool, size int, more bool) (deliveries []store.NewDelivery, to store.Position, rest bool) {
	var open []store.EventKey
	var payload, ids int
	flush := func() {
		deliveries = append(deliveries, store.NewDelivery{ConsumerGroup: l.Group, Topic: topic, Events: open, Batch: batch, Format: format})
		open, payload, ids = nil, 0, 0
	}
	for _, key := range page {
		if key.After(to) {
			// Not simply the last one: an ID that is no string comes behind the strings of its sequence in
			// the server's order, and reads as the empty string here.
			to = key.Position
		}
		if key.EventID == "" || known[key.EventID] {
			continue // an ID that is no string cannot be delivered; the cursor passes it
		}
		idBytes := len(key.EventID) + idOverhead
		if len(open) > 0 && (payload+key.Size > maxBatchBytes || ids+idBytes > maxIDBytes) {
			flush()
		}
		open, payload, ids = append(open, key), payload+key.Size, ids+idBytes
		if len(open) == size {
			flush()
		}
	}
	switch {
	case len(open) == 0:
	case more && len(deliveries) > 0:
		last := deliveries[len(deliveries)-1].Events
		to, rest = last[len(last)-1].Position, true
	default:
		flush()
	}
	return deliveries, to, rest
}

// unnamed counts the events whose ID is no string.
func unnamed(keys []store.EventKey) int {
	n := 0
	for _, k := range keys {
		if k.EventID == "" {
			n++
		}
	}
	return n
}

func eventIDs(keys []store.EventKey) []string {
	ids := make([]string, len(keys))
	for i, k := range keys {
		ids[i] = k.EventID
	}
	return ids
}
