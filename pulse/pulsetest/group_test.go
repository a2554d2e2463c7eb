package pulsetest_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/matryer/is"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/orionjs/orion-go/pulse"
	"github.com/orionjs/orion-go/pulse/pulsetest"
)

type order struct{ Number int }

var (
	placed  = pulse.NewTopic[order]("order.placed")
	shipped = pulse.NewTopic[order]("order.shipped")
)

// start starts a client of the group "shop".
func start(t testing.TB, db *mongo.Database, change ...func(*pulse.Config)) *pulse.Client {
	t.Helper()
	config := pulse.Config{ConsumerGroup: "shop", Database: db.Name(), Logger: slog.New(slog.NewTextHandler(io.Discard, nil))}
	for _, f := range change {
		f(&config)
	}
	client, err := pulse.New(t.Context(), db.Client(), config)
	is.New(t).NoErr(err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		is.New(t).NoErr(client.Close(ctx))
	})
	return client
}

// formats are the kinds of subscriptions that store and run attempts in ways of their own.
var formats = map[string][]pulse.SubscribeOption{
	"ordered":   {pulse.Ordered()},
	"unordered": {pulse.Unordered()},
	"version 2": {pulse.Unordered(), pulse.ExecutionVersion(2)},
}

func everyFormat(t *testing.T, test func(t *testing.T, opts []pulse.SubscribeOption)) {
	t.Parallel()
	for name, opts := range formats {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, opts)
		})
	}
}

func publish(t testing.TB, client *pulse.Client, n int) {
	t.Helper()
	for i := range n {
		_, err := placed.Publish(t.Context(), client, order{Number: i})
		is.New(t).NoErr(err)
	}
}

// A handler publishes to a topic of its own group, whose handler does so again: there is no moment of quiet between.
// Without change streams most of the time nothing is active, and events wait to be discovered.
func TestGroup_WaitQuietWaitsForWhatHandlersPublish(t *testing.T) {
	everyFormat(t, func(t *testing.T, opts []pulse.SubscribeOption) {
		for name, change := range map[string]func(*pulse.Config){
			"streams": func(*pulse.Config) {},
			"polling": func(c *pulse.Config) { c.DisableChangeStreams, c.PollInterval = true, 300*time.Millisecond },
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				db := pulsetest.Database(t)
				chain(t, db, start(t, db, change), opts)
			})
		}
	})
}

func chain(t *testing.T, db *mongo.Database, client *pulse.Client, opts []pulse.SubscribeOption) {
	is := is.New(t)
	const orders, legs = 20, 3
	var left atomic.Int64
	_, err := placed.Subscribe(t.Context(), client, func(ctx context.Context, e *pulse.Event[order]) error {
		_, err := shipped.Publish(ctx, client, order{Number: 1})
		return err
	}, opts...)
	is.NoErr(err)
	_, err = shipped.Subscribe(t.Context(), client, func(ctx context.Context, e *pulse.Event[order]) error {
		left.Add(1)
		if e.Data.Number == legs {
			return nil
		}
		_, err := shipped.Publish(ctx, client, order{Number: e.Data.Number + 1})
		return err
	}, opts...)
	is.NoErr(err)
	publish(t, client, orders)
	pulsetest.Group{DB: db, Name: "shop"}.WaitQuiet(t)
	is.Equal(left.Load(), int64(orders*legs))
	is.Equal(len(pulsetest.Published[order]{DB: db, Topic: "order.shipped"}.Values(t)), orders*legs)
}

// Delays of hours pass at once, and each retry is made: the third attempt succeeds.
func TestGroup_RetryNowMakesRetriesDue(t *testing.T) {
	everyFormat(t, func(t *testing.T, opts []pulse.SubscribeOption) {
		is := is.New(t)
		db := pulsetest.Database(t)
		client := start(t, db)
		var handled pulsetest.Recorder[int]
		_, err := placed.Subscribe(t.Context(), client, func(ctx context.Context, e *pulse.Event[order]) error {
			if e.Attempt < 3 && e.Data.Number == 0 {
				return errors.New("not yet")
			}
			handled.Add(e.Data.Number)
			return nil
		}, append(opts, pulse.RetryDelay(time.Hour))...)
		is.NoErr(err)
		shop := pulsetest.Group{DB: db, Name: "shop"}
		publish(t, client, 2)
		rounds := 0
		for shop.RetryNow(t) > 0 {
			rounds++
		}
		is.Equal(rounds, 2)
		is.Equal(handled.Len(), 2)
		shop.WaitQuiet(t)
	})
}

// The attempt of a crashed handler is recovered at once, and what the handler returns changes nothing.
func TestGroup_CrashLosesTheLease(t *testing.T) {
	everyFormat(t, func(t *testing.T, opts []pulse.SubscribeOption) {
		is := is.New(t)
		db := pulsetest.Database(t)
		var reported pulsetest.Recorder[error]
		client := start(t, db, func(c *pulse.Config) { c.LockTimeout, c.OnError = 2*time.Second, func(err error) { reported.Add(err) } })
		var running, handled pulsetest.Recorder[int]
		_, err := placed.Subscribe(t.Context(), client, func(ctx context.Context, e *pulse.Event[order]) error {
			if e.Attempt == 1 && e.Data.Number == 0 {
				running.Add(e.Data.Number)
				<-ctx.Done()
				is.Equal(context.Cause(ctx), pulse.ErrLockLost)
				return nil
			}
			handled.Add(e.Data.Number)
			return nil
		}, append(opts, pulse.RetryDelay(0))...)
		is.NoErr(err)
		publish(t, client, 1)
		running.Wait(t, 1)
		shop := pulsetest.Group{DB: db, Name: "shop"}
		is.Equal(shop.Crash(t), 1)
		handled.Wait(t, 1)
		publish(t, client, 1)
		running.Wait(t, 2)
		is.Equal(shop.Crash(t), 1)
		shop.WaitQuiet(t)
		is.Equal(handled.Len(), 2)
		reported.WaitFor(t, "a lost lease", func(errs []error) bool {
			for _, err := range errs {
				if errors.Is(err, pulse.ErrLockLost) {
					return true
				}
			}
			return false
		})
		page, err := client.History().Find(t.Context(), pulse.HistoryQuery{Status: pulse.AttemptFailed})
		is.NoErr(err)
		is.Equal(len(page.Attempts), 2)
		is.Equal(page.Attempts[0].Error.Code, "worker_lost")
	})
}

func TestGroup_CrashWithoutRetriesEndsTheDelivery(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	db := pulsetest.Database(t)
	client := start(t, db)
	var running pulsetest.Recorder[int]
	release := make(chan struct{})
	_, err := placed.Subscribe(t.Context(), client, func(context.Context, *pulse.Event[order]) error {
		running.Add(1)
		<-release
		return nil
	}, pulse.Unordered(), pulse.DeliveryMode(pulse.AtMostOnce))
	is.NoErr(err)
	publish(t, client, 1)
	running.Wait(t, 1)
	shop := pulsetest.Group{DB: db, Name: "shop"}
	is.Equal(shop.Crash(t), 1)
	shop.WaitQuiet(t) // although the handler runs on
	close(release)
}

// Events of transactions count from the commit on, and those of other groups and topics never.
func TestGroup_WaitQuietWaitsForCommittedTransactions(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	db := pulsetest.Database(t)
	client := start(t, db)
	var handled atomic.Int64
	_, err := placed.Subscribe(t.Context(), client, func(context.Context, *pulse.Event[order]) error {
		handled.Add(1)
		return nil
	})
	is.NoErr(err)
	session, err := db.Client().StartSession()
	is.NoErr(err)
	defer session.EndSession(context.Background())
	_, err = session.WithTransaction(t.Context(), func(ctx context.Context) (any, error) {
		return placed.Publish(ctx, client, order{Number: 7}, pulse.WithHeaders(map[string]string{"tenant": "a"}))
	})
	is.NoErr(err)
	events := pulsetest.Published[order]{DB: db, Topic: "order.placed"}.Values(t)
	is.Equal(len(events), 1)
	is.Equal(events[0].Data, order{Number: 7})
	is.Equal(events[0].Headers, map[string]string{"tenant": "a"})
	is.Equal(events[0].Publisher, "shop")
	pulsetest.Group{DB: db, Name: "shop"}.WaitQuiet(t)
	is.Equal(handled.Load(), int64(1))
}

func TestPublished_WaitsForAnEvent(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	db := pulsetest.Database(t)
	client := start(t, db)
	go publish(t, client, 10)
	events := pulsetest.Published[order]{DB: db, Topic: "order.placed"}.WaitFor(t, "number 9", func(events []pulsetest.Event[order]) bool {
		return len(events) > 0 && events[len(events)-1].Data.Number == 9
	})
	for i, e := range events {
		is.Equal(e.Data.Number, i)
	}
	is.Equal(len(pulsetest.Published[bson.RawValue]{DB: db, Topic: "order.placed"}.Wait(t, 10)), 10)
}

// What cannot become quiet is told by topic.
func TestGroup_SaysWhatIsLeft(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	db := pulsetest.Database(t)
	client := start(t, db)
	_, err := placed.Subscribe(t.Context(), client, func(context.Context, *pulse.Event[order]) error { return errors.New("no") }, pulse.Unordered(), pulse.RetryDelay(time.Hour))
	is.NoErr(err)
	_, err = shipped.Subscribe(t.Context(), client, func(context.Context, *pulse.Event[order]) error { return nil })
	is.NoErr(err)
	publish(t, client, 2)
	shop := pulsetest.Group{DB: db, Name: "shop"}
	pulsetest.Eventually(t, "both have failed", func(ctx context.Context) error {
		page, err := client.History().Find(ctx, pulse.HistoryQuery{Status: pulse.AttemptFailed})
		if err == nil && len(page.Attempts) < 2 {
			err = errors.New("not yet")
		}
		return err
	})
	says := func(text string, parts ...string) {
		t.Helper()
		for _, part := range parts {
			if !strings.Contains(text, part) {
				t.Errorf("%q does not say %q", text, part)
			}
		}
	}
	text := failure(t, shop.WaitQuiet)
	says(text, "group shop has nothing left to do", "topic order.placed: 2 deliveries waiting for a retry, the first at 20")
	is.True(!strings.Contains(text, "order.shipped")) // it is quiet
	says(failure(t, pulsetest.Group{DB: db, Name: "shopping"}.WaitQuiet), `no subscription of the group "shopping"`)
	says(failure(t, pulsetest.Group{Name: "shop"}.WaitQuiet), "needs the DB and the Name")
}

// impatient is a test that has hardly any time left, and may fail.
type impatient struct {
	testing.TB
	text string
}

func (i *impatient) Helper()                     {}
func (i *impatient) Deadline() (time.Time, bool) { return time.Now().Add(8 * time.Second), true }

func (i *impatient) Fatal(args ...any)                 { i.text = fmt.Sprint(args...); runtime.Goexit() }
func (i *impatient) Fatalf(format string, args ...any) { i.Fatal(fmt.Sprintf(format, args...)) }

// failure returns what the helper fails its test with.
func failure(t *testing.T, helper func(testing.TB)) string {
	t.Helper()
	i := &impatient{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		helper(i)
	}()
	<-done
	return i.text
}

// An event that is published for later is published, and no work yet.
func TestGroup_9_1_WhatIsPublishedLaterIsNotOwedYet(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	db := pulsetest.Database(t)
	client := start(t, db)
	_, err := placed.Subscribe(t.Context(), client, func(context.Context, *pulse.Event[order]) error { return nil })
	is.NoErr(err)
	_, err = placed.Publish(t.Context(), client, order{Number: 9}, pulse.NotBefore(time.Now().Add(time.Hour)))
	is.NoErr(err)
	pulsetest.Group{DB: db, Name: "shop"}.WaitQuiet(t)
	is.Equal(pulsetest.Published[order]{DB: db, Topic: "order.placed"}.Values(t)[0].Data.Number, 9)

	// Its time has come, and it has its place in the order since: it is owed until it was handled.
	_, err = placed.Publish(t.Context(), client, order{Number: 10}, pulse.NotBefore(time.Now().Add(time.Second)))
	is.NoErr(err)
	pulsetest.Published[order]{DB: db, Topic: "order.placed"}.Wait(t, 2)
	pulsetest.Eventually(t, "number 10 is handled", func(ctx context.Context) error {
		page, err := client.History().Find(ctx, pulse.HistoryQuery{Status: pulse.AttemptSucceeded})
		if err == nil && len(page.Attempts) != 1 {
			err = errors.New("not yet")
		}
		return err
	})
	pulsetest.Group{DB: db, Name: "shop"}.WaitQuiet(t)
}
