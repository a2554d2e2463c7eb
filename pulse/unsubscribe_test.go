package pulse_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/matryer/is"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/orionjs/orion-go/pulse"
	"github.com/orionjs/orion-go/pulse/pulsetest"
)

// barrier is a handler that waits, for the barrier to be opened or its context to end.
type barrier struct {
	entered pulsetest.Recorder[int]
	open    chan struct{}
}

func newBarrier() *barrier { return &barrier{open: make(chan struct{})} }

func (b *barrier) handle(ctx context.Context, e *pulse.Event[int]) error {
	b.entered.Add(e.Data)
	select {
	case <-b.open:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// over returns a context that has ended.
func over() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

func TestUnsubscribe_2_9_WaitsForRunningHandlers(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	c, db := publisher(t)
	topic, g := pulse.NewTopic[int]("t"), newBarrier()
	sub, err := topic.Subscribe(t.Context(), c, g.handle, unordered()...)
	is.NoErr(err)
	is.NoErr(second(topic.Publish(t.Context(), c, 1)))
	g.entered.Wait(t, 1)

	// Bounded by the context; the subscription is gone all the same.
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("no patience"))
	is.Equal(sub.Unsubscribe(ctx).Error(), "pulse: topic t: 1 handlers still run: no patience")
	is.Equal(len(c.Subscriptions()), 0)

	// A further call waits again, until the handler has returned; its outcome counts.
	waiting := make(chan error)
	go func() { waiting <- sub.Unsubscribe(context.Background()) }()
	is.NoErr(second(topic.Publish(t.Context(), c, 2))) // nobody's any more
	close(g.open)
	is.NoErr(<-waiting)
	is.NoErr(sub.Unsubscribe(over())) // nothing is left to wait for
	ended(t, db, "billing", "t", "v2-success", 1)
	is.Equal(g.entered.Values(), []int{1})
}

func TestUnsubscribe_2_9_EventsWaitForTheNextSubscribe(t *testing.T) {
	everySetup(t, func(t *testing.T, g *group) {
		is := is.New(t)
		topic := pulse.NewTopic[int]("t")
		seen := pulsetest.Recorder[int]{}
		handle := func(_ context.Context, e *pulse.Event[int]) error {
			seen.Add(e.Data)
			return nil
		}
		var subs []*pulse.Subscription
		for _, c := range g.clients {
			sub, err := topic.Subscribe(t.Context(), c, handle, unordered()...)
			is.NoErr(err)
			subs = append(subs, sub)
		}
		is.NoErr(second(topic.Publish(t.Context(), g.clients[0], 1)))
		seen.Wait(t, 1)
		for _, sub := range subs {
			is.NoErr(sub.Unsubscribe(t.Context()))
		}
		ended(t, g.db, "billing", "t", "v2-success", 1)
		_, err := topic.PublishMany(t.Context(), g.clients[0], []pulse.Message[int]{{Data: 2}, {Data: 3}})
		is.NoErr(err)
		before := storedSubscription(t, g.db, "billing", "t").Lookup("_id")

		_, err = topic.Subscribe(t.Context(), g.clients[len(g.clients)-1], handle, unordered()...)
		is.NoErr(err)
		got := seen.Wait(t, 3)
		is.Equal(got[1]+got[2], 5)
		is.True(storedSubscription(t, g.db, "billing", "t").Lookup("_id").Equal(before)) // the durable one stayed
		ended(t, g.db, "billing", "t", "v2-success", 3)
		is.Equal(seen.Len(), 3)
	})
}

// Claims that wait for a worker are handed back as if they had never been claimed.
func TestUnsubscribe_2_9_HandsBufferedClaimsBack(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	c, db := publisher(t, func(c *pulse.Config) { c.WorkerCount = 1 })
	topic, stuck := pulse.NewTopic[int]("t"), newBarrier()
	seen := pulsetest.Recorder[int]{}
	handle := func(ctx context.Context, e *pulse.Event[int]) error {
		if seen.Add(e.Data); seen.Len() == 21 { // the twenty before it showed how fast the handlers are
			return stuck.handle(ctx, e)
		}
		return nil
	}
	sub, err := topic.Subscribe(t.Context(), c, handle, unordered()...)
	is.NoErr(err)
	_, err = topic.PublishMany(t.Context(), c, numbers(100))
	is.NoErr(err)
	stuck.entered.Wait(t, 1)
	processing := func() (n int) {
		for _, doc := range deliveries(t, db, "billing", "t") {
			if doc.Lookup("status").StringValue() == "v2-processing" {
				n++
			}
		}
		return n
	}
	pulsetest.Eventually(t, "claims that wait for the worker", func(context.Context) error {
		if n := processing(); n < 2 {
			return fmt.Errorf("%d claims are held", n)
		}
		return nil
	})
	waiting := make(chan error)
	go func() { waiting <- sub.Unsubscribe(t.Context()) }()
	pulsetest.Eventually(t, "the hand-back", func(context.Context) error {
		if n := processing(); n != 1 {
			return fmt.Errorf("%d claims are held", n)
		}
		return nil
	})
	for _, doc := range deliveries(t, db, "billing", "t") {
		if doc.Lookup("status").StringValue() == "v2-pending" {
			is.Equal(doc.Lookup("attempt").AsInt64(), int64(0)) // not consumed
			for _, field := range []string{"startedAt", "lockOwner", "lockToken", "lockedAt", "lockedUntil", "heartbeatAt"} {
				_, err := doc.LookupErr(field)
				is.True(err != nil)
			}
		}
	}
	close(stuck.open)
	is.NoErr(<-waiting)

	_, err = topic.Subscribe(t.Context(), c, handle, unordered()...)
	is.NoErr(err)
	for _, doc := range ended(t, db, "billing", "t", "v2-success", 100) {
		is.Equal(doc.Lookup("finalAttempt").AsInt64(), int64(1))
	}
	is.Equal(seen.Len(), 100)
}

func TestUnsubscribe_2_9_FromInsideAHandler(t *testing.T) {
	t.Parallel()
	for name, use := range map[string]func(context.Context) context.Context{
		"its context":     func(ctx context.Context) context.Context { return ctx },
		"another context": func(context.Context) context.Context { return context.Background() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			c, db := publisher(t)
			topic := pulse.NewTopic[int]("t")
			var sub *pulse.Subscription
			ready := make(chan struct{})
			sub, err := topic.Subscribe(t.Context(), c, func(ctx context.Context, e *pulse.Event[int]) error {
				<-ready
				return sub.Unsubscribe(use(ctx))
			}, unordered()...)
			is.NoErr(err)
			close(ready)
			is.NoErr(second(topic.Publish(t.Context(), c, 1)))
			ended(t, db, "billing", "t", "v2-success", 1)
			is.Equal(len(c.Subscriptions()), 0)
			is.NoErr(sub.Unsubscribe(t.Context()))
		})
	}
}

func TestUnsubscribe_2_9_BeforeStartAndAfterClose(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	c, db := manual(t)
	topic, other := pulse.NewTopic[int]("t"), pulse.NewTopic[int]("u")
	sub, err := topic.Subscribe(t.Context(), c, ignore[int], unordered()...)
	is.NoErr(err)
	kept, err := other.Subscribe(t.Context(), c, ignore[int], unordered()...)
	is.NoErr(err)
	is.NoErr(sub.Unsubscribe(t.Context()))
	is.NoErr(sub.Unsubscribe(t.Context()))
	is.NoErr(c.Start(t.Context()))
	n, err := db.Collection("orionjs.pulse.subscriptions").CountDocuments(t.Context(), bson.D{})
	is.NoErr(err)
	is.Equal(n, int64(1)) // only u
	is.NoErr(c.Close(t.Context()))
	is.NoErr(kept.Unsubscribe(t.Context()))
	is.NoErr(kept.Unsubscribe(over()))
}

// An old Subscription value does not take the handler away that came after it.
func TestUnsubscribe_2_9_LeavesALaterSubscriptionAlone(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	c, db := publisher(t)
	topic := pulse.NewTopic[int]("t")
	first, err := topic.Subscribe(t.Context(), c, ignore[int], unordered()...)
	is.NoErr(err)
	is.NoErr(first.Unsubscribe(t.Context()))
	is.NoErr(second(topic.Subscribe(t.Context(), c, ignore[int], unordered()...)))
	is.NoErr(first.Unsubscribe(t.Context()))
	is.Equal(len(c.Subscriptions()), 1)
	is.NoErr(second(topic.Publish(t.Context(), c, 1)))
	ended(t, db, "billing", "t", "v2-success", 1)
}
