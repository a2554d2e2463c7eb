package pulse_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/matryer/is"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/orionjs/orion-go/pulse"
	"github.com/orionjs/orion-go/pulse/pulsetest"
)

// closing closes the client in the background and returns where the result arrives.
func closing(ctx context.Context, c *pulse.Client) <-chan error {
	done := make(chan error, 1)
	go func() { done <- c.Close(ctx) }()
	return done
}

// await receives from a channel, or fails the test.
func await[T any](t *testing.T, what string, from <-chan T) T {
	t.Helper()
	select {
	case value := <-from:
		return value
	case <-time.After(pulsetest.Patience):
		t.Fatalf("not within %v: %s", pulsetest.Patience, what)
		panic("unreachable")
	}
}

// isClosed waits until the client refuses work: Close has begun.
func isClosed(t *testing.T, c *pulse.Client) {
	t.Helper()
	pulsetest.Eventually(t, "the close", func(ctx context.Context) error {
		if _, err := pulse.NewTopic[int]("sign of life").Publish(ctx, c, 1); !errors.Is(err, pulse.ErrClosed) {
			return fmt.Errorf("Publish returns %v", err)
		}
		return nil
	})
}

func TestClose_2_9_RunningHandlersFinishAndTheirOutcomesAreStored(t *testing.T) {
	everySetup(t, func(t *testing.T, g *group) {
		is := is.New(t)
		c, topic, wait := g.clients[0], pulse.NewTopic[int]("t"), newBarrier()
		_, err := topic.Subscribe(t.Context(), c, wait.handle, unordered()...)
		is.NoErr(err)
		_, err = topic.PublishMany(t.Context(), c, numbers(4))
		is.NoErr(err)
		wait.entered.Wait(t, 4) // all workers
		done := closing(t.Context(), c)
		isClosed(t, c)
		close(wait.open)
		is.NoErr(await(t, "the end of Close", done))
		for _, doc := range deliveries(t, g.db, "billing", "t") { // stored when Close returns, not some time later
			is.Equal(doc.Lookup("status").StringValue(), "v2-success")
			is.Equal(doc.Lookup("finalAttempt").AsInt64(), int64(1))
		}
		is.Equal(wait.entered.Len(), 4)
	})
}

// Under load: what has begun ends, what was claimed ahead goes to the others, and each event runs once.
func TestClose_2_9_UnderLoad(t *testing.T) {
	t.Parallel()
	for _, streams := range []bool{true, false} {
		t.Run(setup{streams, 2}.String(), func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			g := newGroup(t, setup{streams, 2})
			topic := pulse.NewTopic[int]("t")
			seen := pulsetest.Recorder[int]{}
			for _, c := range g.clients {
				is.NoErr(second(topic.Subscribe(t.Context(), c, func(_ context.Context, e *pulse.Event[int]) error {
					seen.Add(e.Data)
					return nil
				}, unordered()...)))
			}
			_, err := topic.PublishMany(t.Context(), g.clients[1], numbers(200))
			is.NoErr(err)
			seen.Wait(t, 50)
			is.NoErr(g.clients[0].Close(t.Context()))
			for _, doc := range ended(t, g.db, "billing", "t", "v2-success", 200) {
				is.Equal(doc.Lookup("finalAttempt").AsInt64(), int64(1)) // no attempt was lost on the way
			}
			times := map[int]int{}
			for _, n := range seen.Values() {
				times[n]++
			}
			is.Equal(len(times), 200)
			is.Equal(seen.Len(), 200)
		})
	}
}

// When the patience of Close ends, handlers are cancelled: at-least-once hands the delivery back, and the
// attempt does not count; at-most-once records what happened. Whoever succeeds all the same has succeeded.
func TestClose_2_9_CancelsHandlersWhenItsContextEnds(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	c, db := publisher(t)
	again, once, stubborn := pulse.NewTopic[int]("again"), pulse.NewTopic[int]("once"), pulse.NewTopic[int]("stubborn")
	waiting := newBarrier()
	is.NoErr(second(again.Subscribe(t.Context(), c, waiting.handle, unordered()...)))
	is.NoErr(second(once.Subscribe(t.Context(), c, waiting.handle, unordered(pulse.DeliveryMode(pulse.AtMostOnce))...)))
	is.NoErr(second(stubborn.Subscribe(t.Context(), c, func(ctx context.Context, e *pulse.Event[int]) error {
		_ = waiting.handle(ctx, e)
		return nil
	}, unordered()...)))
	for _, topic := range []pulse.Topic[int]{again, once, stubborn} {
		is.NoErr(second(topic.Publish(t.Context(), c, 1)))
	}
	waiting.entered.Wait(t, 3)
	is.NoErr(c.Close(over())) // everything could be finished

	doc := deliveries(t, db, "billing", "again")[0]
	is.Equal(doc.Lookup("status").StringValue(), "v2-pending")
	is.Equal(doc.Lookup("attempt").AsInt64(), int64(0))
	_, err := doc.LookupErr("lockToken")
	is.True(err != nil)
	doc = deliveries(t, db, "billing", "once")[0]
	is.Equal(doc.Lookup("status").StringValue(), "v2-error")
	is.Equal(doc.Lookup("attempt").AsInt64(), int64(1))
	is.Equal(doc.Lookup("error", "code").StringValue(), "cancelled")
	is.Equal(deliveries(t, db, "billing", "stubborn")[0].Lookup("status").StringValue(), "v2-success")

	// The next client runs what was handed back, as its first attempt.
	next := newClient(t, db, fast(db))
	attempts := pulsetest.Recorder[int]{}
	is.NoErr(second(again.Subscribe(t.Context(), next, func(_ context.Context, e *pulse.Event[int]) error {
		attempts.Add(e.Attempt)
		return nil
	}, unordered()...)))
	is.Equal(attempts.Wait(t, 1), []int{1})
}

// A handler that ignores its context is left behind after a while; what it returns then changes nothing.
func TestClose_2_9_LeavesAHandlerThatIgnoresItsContext(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	c, db := publisher(t, func(c *pulse.Config) { c.ManualStart = true })
	is.NoErr(c.Start(t.Context()))
	topic := pulse.NewTopic[int]("t")
	entered, release, returned := make(chan struct{}), make(chan struct{}), make(chan struct{})
	is.NoErr(second(topic.Subscribe(t.Context(), c, func(context.Context, *pulse.Event[int]) error {
		defer close(returned)
		close(entered)
		<-release
		return nil
	}, unordered()...)))
	is.NoErr(second(topic.Publish(t.Context(), c, 1)))
	await(t, "the handler", entered)
	err := await(t, "the end of Close", closing(over(), c))
	is.True(err != nil)
	is.Equal(err.Error(), "pulse: 1 handlers did not return although their context ended 5s ago; their deliveries run again once their leases expire")
	held := deliveries(t, db, "billing", "t")[0]
	is.Equal(held.Lookup("status").StringValue(), "v2-processing")
	close(release)
	await(t, "the handler's end", returned)
	is.NoErr(c.Close(t.Context())) // nothing is left to be done
	is.Equal(deliveries(t, db, "billing", "t")[0], held)
}

// Without MongoDB there is nothing to be stored: Close says so, in a bounded time, and another client does the
// work again when the lease is over.
func TestClose_2_9_WithoutTheServer(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	db := pulsetest.Database(t)
	wire := pulsetest.NewProxy(t)
	config := fast(db)
	config.LockTimeout, config.DiscoveryLockTimeout = 3*time.Second, 2*time.Second
	c, err := pulse.New(t.Context(), pulsetest.Client(t, wire.Use), config)
	is.NoErr(err)
	topic, wait := pulse.NewTopic[int]("t"), newBarrier()
	is.NoErr(second(topic.Subscribe(t.Context(), c, wait.handle, unordered()...)))
	is.NoErr(second(topic.Publish(t.Context(), c, 1)))
	wait.entered.Wait(t, 1)
	wire.BlackHole()
	err = await(t, "the end of Close", closing(over(), c))
	is.Equal(err.Error(), "pulse: 1 outcomes could not be stored within 5s; their deliveries run again once their leases expire")
	wire.Restore()
	next := newClient(t, db, config)
	is.NoErr(second(topic.Subscribe(t.Context(), next, ignore[int], unordered(pulse.RetryDelay(time.Second))...)))
	ended(t, db, "billing", "t", "v2-success", 1)
}

func TestClose_2_9_TwiceAndAtOnce(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	c, _ := publisher(t)
	topic, wait := pulse.NewTopic[int]("t"), newBarrier()
	is.NoErr(second(topic.Subscribe(t.Context(), c, wait.handle, unordered()...)))
	is.NoErr(second(topic.Publish(t.Context(), c, 1)))
	wait.entered.Wait(t, 1)
	first := closing(t.Context(), c)
	isClosed(t, c)
	// Beside the first one: waits for it, within its own context.
	is.Equal(c.Close(over()).Error(), "pulse: close: an earlier Close is still at work: context canceled")
	more := closing(t.Context(), c)
	select {
	case err := <-more:
		t.Fatalf("the second Close returned %v while a handler was running", err)
	default:
	}
	close(wait.open)
	is.NoErr(await(t, "the first Close", first))
	is.NoErr(await(t, "the second Close", more))
	is.NoErr(c.Close(t.Context()))
	is.NoErr(c.Close(over()))
}

func TestClose_2_9_NeverStarted(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	c := offline(t)
	is.NoErr(second(pulse.NewTopic[int]("t").Subscribe(t.Context(), c, ignore[int], unordered()...)))
	is.NoErr(c.Close(t.Context()))
	is.True(errors.Is(c.Start(t.Context()), pulse.ErrClosed))
}

// Close does not wait for a Start, or a Subscribe, that waits for MongoDB.
func TestClose_2_9_DuringStartAndSubscribe(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		manual bool
		call   func(context.Context, *pulse.Client) error
	}{
		"start": {true, func(ctx context.Context, c *pulse.Client) error { return c.Start(ctx) }},
		"subscribe": {false, func(ctx context.Context, c *pulse.Client) error {
			return second(pulse.NewTopic[int]("t").Subscribe(ctx, c, ignore[int], unordered()...))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			db := pulsetest.Database(t)
			wire := pulsetest.NewProxy(t)
			var sent, failed pulsetest.Recorder[string]
			shared := pulsetest.Client(t, wire.Use, func(o *options.ClientOptions) {
				o.SetMonitor(&event.CommandMonitor{
					Started: func(_ context.Context, e *event.CommandStartedEvent) { sent.Add(e.CommandName) },
					Failed:  func(_ context.Context, e *event.CommandFailedEvent) { failed.Add(e.Failure.Error()) },
				})
			})
			is.NoErr(shared.Ping(t.Context(), nil))
			config := fast(db)
			config.ManualStart, config.DisableChangeStreams = test.manual, true
			c, err := pulse.New(t.Context(), shared, config)
			is.NoErr(err)
			wire.BlackHole() // nothing is refused, nothing is answered
			before := sent.Len()
			called := make(chan error, 1)
			go func() { called <- test.call(context.Background(), c) }()
			sent.Wait(t, before+1)
			is.NoErr(await(t, "the end of Close", closing(t.Context(), c)))
			is.True(errors.Is(await(t, "the interrupted call", called), pulse.ErrClosed))
			failures := failed.Values()
			wire.Restore()
			is.True(strings.Contains(failures[len(failures)-1], context.Canceled.Error())) // it did not end by its own deadline
			is.Equal(len(c.Subscriptions()), 0)
		})
	}
}

// From inside a handler Close only begins: it would wait for its caller.
func TestClose_2_9_FromInsideAHandler(t *testing.T) {
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
			results := make(chan []error, 1)
			is.NoErr(second(topic.Subscribe(t.Context(), c, func(ctx context.Context, e *pulse.Event[int]) error {
				first := c.Close(use(ctx))
				results <- []error{
					first, c.Close(use(ctx)),
					second(topic.Publish(use(ctx), c, 2)),
					second(pulse.NewTopic[int]("u").Subscribe(use(ctx), c, ignore[int], unordered()...)),
					ctx.Err(), // it may finish in peace
				}
				return nil
			}, unordered()...)))
			is.NoErr(second(topic.Publish(t.Context(), c, 1)))
			got := await(t, "the handler", results)
			is.Equal(got, []error{nil, nil, pulse.ErrClosed, pulse.ErrClosed, nil})
			is.NoErr(c.Close(t.Context())) // waits for the one that the handler began
			doc := deliveries(t, db, "billing", "t")[0]
			is.Equal(doc.Lookup("status").StringValue(), "v2-success")
		})
	}
}

// A handler that waits for its turn, while Close waits for the handler, is told.
func TestClose_2_9_WhileAHandlerSubscribes(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	c, _ := publisher(t)
	topic, wait := pulse.NewTopic[int]("t"), newBarrier()
	result := make(chan error, 1)
	is.NoErr(second(topic.Subscribe(t.Context(), c, func(ctx context.Context, e *pulse.Event[int]) error {
		_ = wait.handle(ctx, e)
		result <- second(pulse.NewTopic[int]("u").Subscribe(ctx, c, ignore[int], unordered()...))
		return nil
	}, unordered()...)))
	is.NoErr(second(topic.Publish(t.Context(), c, 1)))
	wait.entered.Wait(t, 1)
	done := closing(t.Context(), c)
	isClosed(t, c)
	close(wait.open)
	is.True(errors.Is(await(t, "the handler's Subscribe", result), pulse.ErrClosed))
	is.NoErr(await(t, "the end of Close", done))
}

func TestClose_2_9_EveryMethodSaysSo(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	c, db := publisher(t)
	topic := pulse.NewTopic[int]("t")
	is.NoErr(c.Close(t.Context()))
	event, err := topic.Publish(t.Context(), c, 1)
	is.True(event == nil && errors.Is(err, pulse.ErrClosed))
	results, err := topic.PublishMany(t.Context(), c, numbers(3))
	is.True(results == nil && errors.Is(err, pulse.ErrClosed))
	sub, err := topic.Subscribe(t.Context(), c, ignore[int], unordered()...)
	is.True(sub == nil && errors.Is(err, pulse.ErrClosed))
	sub, err = topic.SubscribeBatch(t.Context(), c, 10, ignoreBatch[int])
	is.True(sub == nil && errors.Is(err, pulse.ErrClosed))
	is.True(errors.Is(c.Start(t.Context()), pulse.ErrClosed))
	is.Equal(len(events(t, db)), 0)
}

// The leases go back, so that others take over at once; the owner's name stays (3.1).
func TestClose_2_9_ReleasesDiscovery(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	c, db := publisher(t)
	is.NoErr(second(pulse.NewTopic[int]("t").Subscribe(t.Context(), c, ignore[int], unordered()...)))
	pulsetest.Eventually(t, "a leader", func(context.Context) error {
		_, err := storedSubscription(t, db, "billing", "t").LookupErr("discoveryLockToken")
		return err
	})
	is.NoErr(c.Close(t.Context()))
	doc := storedSubscription(t, db, "billing", "t")
	_, err := doc.LookupErr("discoveryLockToken")
	is.True(err != nil)
	is.True(!doc.Lookup("discoveryLockedUntil").Time().After(time.Now().Add(time.Second)))
	is.True(strings.HasPrefix(doc.Lookup("discoveryLockOwner").StringValue(), "go:"))
}

func TestClose_2_9_LeavesTheCallersMongoClientOpen(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	db := pulsetest.Database(t)
	c, err := pulse.New(t.Context(), db.Client(), fast(db))
	is.NoErr(err)
	is.NoErr(c.Close(t.Context()))
	is.NoErr(db.Client().Ping(t.Context(), nil))
	_, err = db.Collection("own").InsertOne(t.Context(), bson.D{})
	is.NoErr(err)
}

func TestClose_2_9_DisconnectsWhatConnectOpened(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	db := pulsetest.Database(t)
	wire := newLossy(t, "nothing", 0)
	uri := "mongodb://" + wire.addr + "/" + db.Name() + "?directConnection=true"
	c, err := pulse.Connect(t.Context(), uri, pulse.Config{ConsumerGroup: "billing"})
	is.NoErr(err)
	topic, seen := pulse.NewTopic[int]("t"), newBarrier()
	close(seen.open)
	is.NoErr(second(topic.Subscribe(t.Context(), c, seen.handle, unordered()...)))
	is.NoErr(second(topic.Publish(t.Context(), c, 1)))
	seen.entered.Wait(t, 1)
	is.True(wire.open.Load() > 0)
	is.NoErr(c.Close(t.Context()))
	pulsetest.Eventually(t, "the end of all connections", func(context.Context) error {
		if n := wire.open.Load(); n > 0 {
			return fmt.Errorf("%d are open", n)
		}
		return nil
	})
	// One that could not start is disconnected too.
	_, err = pulse.Connect(over(), uri, pulse.Config{ConsumerGroup: "billing"})
	is.True(err != nil)
	pulsetest.Eventually(t, "the end of all connections", func(context.Context) error {
		if n := wire.open.Load(); n > 0 {
			return fmt.Errorf("%d are open", n)
		}
		return nil
	})
}

// Everything at once, many times: nothing hangs, nothing is left behind (TestMain looks for goroutines), and
// whatever was published before the close is stored.
func TestClose_2_9_BesideEverything(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	db := pulsetest.Database(t)
	shared := pulsetest.Client(t)
	topic := pulse.NewTopic[int]("t")
	stored := pulsetest.Recorder[string]{}
	for round := range 10 {
		config := fast(db)
		config.ManualStart = round%2 == 0
		c, err := pulse.New(t.Context(), shared, config)
		is.NoErr(err)
		var all sync.WaitGroup
		allowed := func(err error) {
			if err != nil && !errors.Is(err, pulse.ErrClosed) && !strings.Contains(err.Error(), "already") {
				t.Error(err)
			}
		}
		for range 3 {
			all.Go(func() { allowed(c.Start(t.Context())) })
			all.Go(func() {
				sub, err := topic.Subscribe(t.Context(), c, ignore[int], unordered(pulse.OffsetReset(pulse.Earliest))...)
				allowed(err)
				if err == nil {
					allowed(sub.Unsubscribe(t.Context()))
				}
			})
			all.Go(func() {
				event, err := topic.Publish(t.Context(), c, round)
				if allowed(err); err == nil {
					stored.Add(event.ID)
				}
			})
			all.Go(func() { c.Subscriptions() })
		}
		all.Go(func() { allowed(c.Close(t.Context())) })
		all.Wait()
	}
	is.Equal(len(events(t, db)), stored.Len())
	// The next client finds everything in order.
	c := newClient(t, db, fast(db))
	is.NoErr(second(topic.Subscribe(t.Context(), c, ignore[int], unordered(pulse.OffsetReset(pulse.Earliest))...)))
	ended(t, db, "billing", "t", "v2-success", stored.Len())
}
