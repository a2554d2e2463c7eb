package admin

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/orionjs/orion-go/pulse/internal/clock"
	"github.com/orionjs/orion-go/pulse/internal/store"
	"github.com/orionjs/orion-go/pulse/internal/wakeup"
)

const (
	// tailPage is how many events are read at once.
	tailPage = 200
	// tailPoll is the pause between two looks without a change stream, or beside a silent one.
	tailPoll = time.Second
	// tailLookBack is how far behind the last event others are found that become visible late, as for subscriptions
	// by default.
	tailLookBack = 10 * time.Second
)

// Scan calls f with the stored events of a topic in their order: those that the server stored at or after a time, to
// the second; all of them if it is zero. It ends with the last one, or with the first error, f's or MongoDB's.
func (a *Admin) Scan(ctx context.Context, topic string, from time.Time, f func(Event) error) error {
	t, err := a.newTail(ctx, topic)
	if err != nil {
		return err
	}
	if !from.IsZero() {
		t.start = store.Position{Sequence: sequenceAt(from)}
	}
	t.last = t.start
	return t.look(ctx, f)
}

// Tail calls f with the events of a topic as they come, in their order as observed: an event that becomes visible late
// comes after later ones. It begins with those that the server stored at or after a time, to the second; a zero time
// leaves out all that are stored already. It takes no part in any group, and changes nothing.
//
// It ends when the context does, with its cause, or with an error of f; MongoDB may be out of reach for
// Config.Timeout before it gives up. A change stream wakes it where there is one; it looks each second besides.
func (a *Admin) Tail(ctx context.Context, topic string, from time.Time, f func(Event) error) error {
	t, err := a.newTail(ctx, topic)
	if err != nil {
		return err
	}
	if from.IsZero() {
		t.start, err = t.store.NewestEvent(ctx, topic)
	} else {
		t.start = store.Position{Sequence: sequenceAt(from)}
	}
	if err != nil {
		return fmt.Errorf("pulse: topic %s: read its last event: %w", topic, err)
	}
	t.last = t.start

	ctx, cancel := context.WithCancel(ctx)
	var watching sync.WaitGroup
	defer func() {
		cancel()
		watching.Wait()
	}()
	woken := make(chan struct{}, 1)
	wake := func() {
		select {
		case woken <- struct{}{}:
		default:
		}
	}
	watcher := &wakeup.Watcher{
		Store: a.store, Reopened: wake,
		Notice: func(n store.Notice) {
			if n.Kind == store.EventPublished && n.Topic == topic {
				wake()
			}
		},
		Report: func(error) {}, // the looks go on without it
	}
	if a.store.Transactions() { // as for change streams, it takes a replica set
		watching.Go(func() { watcher.Run(ctx) })
	}
	return t.follow(ctx, woken, a.config.Timeout, f)
}

// tail is a walk along a topic's events.
type tail struct {
	store *store.Store
	topic string
	// start is where it begins, and how far it ever looks back; last is the last event in the order so far.
	start, last store.Position
	// news is when the last event was found, by the local clock.
	news time.Time
	// seen are the events within tailLookBack of last, which a look back meets again.
	seen map[string]bson.Timestamp
}

func (a *Admin) newTail(ctx context.Context, topic string) (*tail, error) {
	if topic == "" {
		return nil, &QueryError{"the topic is empty"}
	}
	_, cancel, err := a.begin(ctx)
	if err != nil {
		return nil, err
	}
	cancel()
	return &tail{store: a.store, topic: topic, start: store.Beginning, seen: map[string]bson.Timestamp{}}, nil
}

// follow looks again and again.
func (t *tail) follow(ctx context.Context, woken <-chan struct{}, patience time.Duration, f func(Event) error) error {
	worked := clock.Now()
	for {
		// An error of f ends the walk; one of the database only when it lasts.
		var failed error
		err := t.look(ctx, func(e Event) error {
			failed = f(e)
			return failed
		})
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case failed != nil:
			return failed
		case err == nil:
			worked = clock.Now()
		case clock.Since(worked) > patience:
			return err
		}
		timer := clock.NewTimer(clock.Jitter(tailPoll, 0.1))
		select {
		case <-woken:
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// look passes on what is stored behind the last event, and what has become visible late since.
func (t *tail) look(ctx context.Context, f func(Event) error) error {
	after := t.last
	if back := t.windowStart(); clock.Since(t.news) <= tailLookBack && back.After(t.start) {
		after = back
	} else if clock.Since(t.news) <= tailLookBack {
		after = t.start
	}
	for {
		keys, more, err := t.store.EventsAfter(ctx, t.topic, after, tailPage, false)
		if err != nil {
			return fmt.Errorf("pulse: topic %s: read its events: %w", t.topic, err)
		}
		if err := t.pass(ctx, keys, f); err != nil {
			return err
		}
		window := t.windowStart().Sequence
		maps.DeleteFunc(t.seen, func(_ string, sequence bson.Timestamp) bool { return sequence.Compare(window) < 0 })
		if !more || len(keys) == 0 {
			return nil
		}
		after = keys[len(keys)-1].Position
	}
}

// windowStart is the place from which an event may still come that is late.
func (t *tail) windowStart() store.Position {
	back := uint32(tailLookBack / time.Second)
	return store.Position{Sequence: bson.Timestamp{T: max(t.last.Sequence.T, back) - back}}
}

// pass gives the events to f that it has not seen.
func (t *tail) pass(ctx context.Context, keys []store.EventKey, f func(Event) error) error {
	var ids []string
	for _, k := range keys {
		if _, known := t.seen[k.EventID]; !known {
			ids = append(ids, k.EventID)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	found, err := t.store.Events(ctx, ids)
	if err != nil {
		return err
	}
	for _, k := range keys {
		if _, known := t.seen[k.EventID]; known {
			continue
		}
		if e, ok := found[k.EventID]; ok { // else it has expired meanwhile
			if err := f(eventOf(e)); err != nil {
				return err
			}
		}
		t.seen[k.EventID] = k.Sequence
		t.news = clock.Now()
		if k.Position.After(t.last) {
			t.last = k.Position
		}
	}
	return nil
}
