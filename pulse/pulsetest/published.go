package pulsetest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/orionjs/orion-go/pulse/internal/clock"
	"github.com/orionjs/orion-go/pulse/internal/store"
)

// Published is what a test's database has of a topic: every event that was published, in order, those of
// committed transactions included, and those that wait for the time that they are to be published at. It asks the
// database; no client needs to run. T is decoded as by the handlers of a pulse.Topic[T].
//
//	shipped := pulsetest.Published[Shipment]{DB: db, Topic: "order.shipped"}
//	is.Equal(shipped.Wait(t, 1)[0].Data.Order, "order-7")
//
// The methods belong to the goroutine of the test. An event that cannot be decoded fails it.
type Published[T any] struct {
	// DB is the database of the publisher, Topic the topic. Required.
	DB    *mongo.Database
	Topic string
	// Prefix is the publisher's pulse.Config.CollectionPrefix. Default: the default of that.
	Prefix string
}

// Event is a published event, decoded from the stored bytes.
type Event[T any] struct {
	ID, Topic string
	Data      T
	// Headers is nil when none were published.
	Headers map[string]string
	// Publisher is the consumer group of the client that published the event.
	Publisher string
	CreatedAt time.Time
}

// Values returns all events so far.
func (p Published[T]) Values(t testing.TB) []Event[T] {
	t.Helper()
	ctx, cancel := waitContext(t, clock.Now())
	defer cancel()
	events, err := p.read(ctx, p.open(t))
	if err != nil {
		t.Fatal(err)
	}
	return events
}

// Wait returns all events as soon as there are at least n, and fails the test with those that were published
// if nothing happens for as long as Patience. Further ones may follow: where none is wanted, wait for the quiet of the
// group that would publish it, and ask Values.
func (p Published[T]) Wait(t testing.TB, n int) []Event[T] {
	t.Helper()
	return p.WaitFor(t, fmt.Sprintf("%d events", n), func(events []Event[T]) bool { return len(events) >= n })
}

// WaitFor returns all events as soon as arrived says yes to them, and fails the test with those that were
// published if nothing happens for as long as Patience. What is the condition in words.
func (p Published[T]) WaitFor(t testing.TB, what string, arrived func(events []Event[T]) bool) []Event[T] {
	t.Helper()
	s := p.open(t)
	var events []Event[T]
	Eventually(t, what+" of topic "+p.Topic, func(ctx context.Context) error {
		var err error
		if events, err = p.read(ctx, s); err == nil && !arrived(events) {
			err = errors.New(describe(events))
		}
		return err
	})
	return events
}

func (p Published[T]) open(t testing.TB) *store.Store {
	t.Helper()
	if p.DB == nil || p.Topic == "" {
		t.Fatal("a pulsetest.Published needs the DB and the Topic")
	}
	return open(t, p.DB, p.Prefix)
}

func (p Published[T]) read(ctx context.Context, s *store.Store) ([]Event[T], error) {
	stored, err := s.AllEvents(ctx, p.Topic)
	if err != nil {
		return nil, err
	}
	events := make([]Event[T], len(stored))
	for i, e := range stored {
		events[i] = Event[T]{ID: e.ID, Topic: e.Topic, Headers: e.Headers, Publisher: e.Publisher, CreatedAt: e.CreatedAt}
		if e.Data.IsZero() || e.Data.Type == 0 {
			continue
		}
		if err := e.Data.Unmarshal(&events[i].Data); err != nil {
			return nil, fmt.Errorf("topic %s, event %s: the data is no %T: %w", e.Topic, e.ID, events[i].Data, err)
		}
	}
	return events, nil
}
