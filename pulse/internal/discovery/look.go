package discovery

import (
	"context"
	"errors"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/orionjs/orion-go/pulse/internal/clock"
	"github.com/orionjs/orion-go/pulse/internal/store"
)

// How much one look takes. A batch is cut before its size only at these bounds, so that its IDs fit
// into a document and its payloads into memory, whatever batchSize says (spec 3.3).
const (
	pageEvents    = 1000
	pageOfBatches = 5000
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
	overdue := clock.Until(t.deadline) <= 0
	if overdue {
		l.drop(topic, t)
	}
	l.mu.Unlock()
	if overdue {
		return nil
	}
	fresh := t.uncertain
	if fresh {
		if err := l.resync(ctx, t); err != nil {
			return err
		}
	}
	s, err := l.lookBehind(ctx, t, fresh)
	if err != nil {
		t.uncertain = true
		return err
	}
	t.uncertain = false
	settings := t.receiver.Settings()
	batch, size := settings.Batch(), 1
	if batch {
		size = settings.BatchSize
	}
	l.mu.Lock()
	cursor := t.cursor
	caughtUp := t.settled.upTo.Compare(cursor.Sequence) >= 0
	asked := t.asked
	page, read := t.next(batch)
	l.mu.Unlock()
	at, more := l.Store.Now(), false
	if read {
		if page, more, err = l.Store.EventsAfter(ctx, topic, cursor, pageLimit(size), batch); err != nil {
			t.uncertain = true
			return err
		}
	}
	if len(page) == 0 && len(s.late) == 0 {
		if read {
			l.answer(t, asked)
		}
		return l.close(ctx, t, s)
	}
	format := settings.Format()
	deliveries, to, rest := l.cut(topic, append(s.late, page...), t.settled.delivered, format, batch, size, more && len(s.late) == 0)
	if cursor.After(to) {
		to = cursor
	}
	if caughtUp && read {
		// With all before it settled the page continues the scan: a backlog older than the window is
		// settled while it is read.
		s.done, s.at, s.to = true, at, to.Sequence
	}
	if stored, err := l.store(ctx, t, deliveries, to, page, s); err != nil || !stored {
		return err
	}
	if n := unnamed(page); n > 0 {
		l.Report(fmt.Errorf("pulse: consumer group %s, topic %s: %d events are passed over: their _id is no text, and no client of Pulse writes such", l.Group, topic, n))
	}
	switch {
	case more || rest:
		l.queue.Add(topic)
	case read:
		l.answer(t, asked)
	}
	return nil
}

// answer remembers that the topic was read to its end after it was asked for so many times.
func (l *Leader) answer(t *term, asked int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t.answered = asked
}

// store stores the deliveries with the cursor, and draws the conclusions. It stores nothing when the lease is
// another's, or some of the events have a delivery that was not known.
func (l *Leader) store(ctx context.Context, t *term, deliveries []store.NewDelivery, to store.Position, page []store.EventKey, s scan) (stored bool, err error) {
	l.mu.Lock()
	upTo := t.settled.upTo
	l.mu.Unlock()
	err = l.Born(ctx, t.receiver.Topic, deliveries, func() error {
		return l.Store.Materialize(ctx, t.lease, deliveries, to, upTo)
	})
	switch {
	case errors.Is(err, store.ErrLeaseLost):
		l.mu.Lock()
		l.drop(t.receiver.Topic, t)
		l.mu.Unlock()
		return false, nil
	case errors.Is(err, store.ErrDelivered):
		// Another client, or an earlier try whose answer was lost, stored some: learn which, and repeat.
		if err := l.resync(ctx, t); err != nil {
			return false, err
		}
		l.mu.Lock()
		from := t.cursor.Sequence
		l.mu.Unlock()
		if err := l.learn(ctx, t, from, append(eventIDs(s.late), eventIDs(page)...)); err != nil {
			t.uncertain = true
			return false, err
		}
		l.queue.Add(t.receiver.Topic)
		return false, nil
	case err != nil:
		t.uncertain = true
		return false, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	t.cursor, t.settled.stored = to, later(t.settled.stored, upTo)
	for _, d := range deliveries {
		for _, e := range d.Events {
			t.settled.delivered[e.EventID] = e.Sequence
		}
	}
	t.settle(s, l.Window)
	if len(t.overtaken()) > 0 {
		l.queue.Add(t.receiver.Topic)
	}
	return true, nil
}

// close ends a look that found nothing. When it settled all of the topic, that is stored, so that nobody
// reads it again.
func (l *Leader) close(ctx context.Context, t *term, s scan) error {
	l.mu.Lock()
	t.settle(s, l.Window)
	cursor, upTo, stored := t.cursor, t.settled.upTo, t.settled.stored
	l.mu.Unlock()
	if upTo.Compare(cursor.Sequence) < 0 || stored.Compare(upTo) >= 0 {
		return nil
	}
	_, err := l.store(ctx, t, nil, cursor, nil, scan{})
	return err
}

// resync reads the subscription again: the cursor, and what is settled.
func (l *Leader) resync(ctx context.Context, t *term) error {
	subs, err := l.Store.Subscriptions(ctx, l.Group, []string{t.receiver.Topic})
	t.uncertain = err != nil
	if err != nil || len(subs) == 0 {
		return err
	}
	l.mu.Lock()
	t.begin(subs[0])
	l.mu.Unlock()
	return nil
}

// pageLimit is how many events one look reads. Those of single deliveries are as many documents to be stored in
// one transaction, which should be short; batches are few.
func pageLimit(size int) int {
	page := pageEvents
	if size > 1 {
		page = pageOfBatches
	}
	if size > page {
		return min(size, maxPageEvents)
	}
	return page / size * size
}

// cut makes deliveries of the page and returns them with the position of the last event that is dealt
// with, and whether that leaves a rest. While there are more events than the page shows, a last batch that
// is not full waits for them.
func (l *Leader) cut(topic string, page []store.EventKey, known map[string]bson.Timestamp, format store.Format, batch bool, size int, more bool) (deliveries []store.NewDelivery, to store.Position, rest bool) {
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
		if _, delivered := known[key.EventID]; delivered || key.EventID == "" {
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
