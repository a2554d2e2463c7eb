package pulse_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/orionjs/orion-go/pulse"
	"github.com/orionjs/orion-go/pulse/pulsetest"
	"github.com/orionjs/orion-go/pulse/pulsetest/mongoserver"
)

func TestBatch_3_3_BacklogIsCutIntoBatchesOfExactlyTheSize(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ size, events int }{
		{1, 13}, {7, 73}, {100, 1103}, {600, 1205}, {1000, 2001}, {1500, 3002},
	} {
		t.Run(fmt.Sprint(c.size), func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			g := newGroup(t, setup{streams: true, clients: 2})
			want := publishMany(t, deliverOrders, g.clients[0], c.events)
			var got []string
			for _, es := range g.handleBatches(t, c.size).WaitFor(t, "all events", holds(c.events)) {
				got = append(got, eventIDsOf(es)...)
			}
			g.close(t)
			sameIDs(t, got, want)
			sizes := slices.Repeat([]int{c.size}, c.events/c.size)
			if rest := c.events % c.size; rest > 0 {
				sizes = append(sizes, rest)
			}
			is.Equal(batchSizes(t, g.db), sizes)
		})
	}
}

// It does not wait for a batch to fill: one event is a batch of one.
func TestBatch_3_3_DoesNotWaitToFillABatch(t *testing.T) {
	everySetup(t, func(t *testing.T, g *group) {
		is := is.New(t)
		received := g.handleBatches(t, 100)
		for i := range 3 {
			id := published(t, deliverOrders, g.clients[0], i)
			batches := received.Wait(t, i+1)
			is.Equal(eventIDsOf(batches[i]), []string{id})
		}
	})
}

// blob is a payload of some megabytes.
type blob struct{ Bytes []byte }

func TestBatch_3_3_CutsAtItsBoundOfBytes(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	db := pulsetest.Database(t)
	c := startClient(t, fast(db))
	topic := pulse.NewTopic[blob]("file.uploaded")
	for range 3 {
		_, err := topic.Publish(t.Context(), c, blob{make([]byte, 6<<20)})
		is.NoErr(err)
	}
	var sizes pulsetest.Recorder[int]
	_, err := topic.SubscribeBatch(t.Context(), c, 100, func(_ context.Context, es []*pulse.Event[blob]) error {
		sizes.Add(len(es))
		return nil
	}, pulse.OffsetReset(pulse.Earliest))
	is.NoErr(err)
	sizes.WaitFor(t, "all events", func(sizes []int) bool {
		sum := 0
		for _, n := range sizes {
			sum += n
		}
		return sum == 3
	})
	is.Equal(batchSizes(t, db), []int{2, 1}) // 16 MB hold two of them
}

func TestBatch_3_3_StandaloneServerServesSingleEventsOnly(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	_ = pulsetest.URI(t) // not under -short
	server, err := mongoserver.Start(t.Context(), mongoserver.Options{Standalone: true})
	is.NoErr(err)
	t.Cleanup(func() { is.NoErr(server.Stop()) })
	mc, err := mongo.Connect(options.Client().ApplyURI(server.URI()))
	is.NoErr(err)
	t.Cleanup(func() { _ = mc.Disconnect(context.WithoutCancel(t.Context())) })
	db := mc.Database("standalone")
	var reported pulsetest.Recorder[error]
	config := fast(db)
	config.OnError = func(err error) { reported.Add(err) }
	c := startOver(t, mc, config)

	_, err = pulse.NewTopic[order]("batched").SubscribeBatch(t.Context(), c, 10, func(context.Context, []*pulse.Event[order]) error { return nil })
	var wrong *pulse.ConfigurationError
	is.True(errors.As(err, &wrong))
	is.Equal(len(wrong.Problems), 1)
	for _, part := range []string{"batched", "standalone", "replica set", "single events"} {
		is.True(strings.Contains(err.Error(), part))
	}
	n, err := subscriptionsOf(db).CountDocuments(t.Context(), bson.D{})
	is.NoErr(err)
	is.Equal(n, int64(0)) // nothing was stored

	// Single events are found by polling, and each has one delivery, also those that a crash has left
	// without the cursor.
	g := &group{db: db, clients: []*pulse.Client{c, startOver(t, mc, config)}}
	want := publishMany(t, deliverOrders, c, 30)
	events, err := find(t.Context(), eventsOf(db), bson.D{})
	is.NoErr(err)
	for _, e := range events[:10] {
		_, err := deliveriesOf(db).InsertOne(t.Context(), nodeDelivery(e, "v2-pending"))
		is.NoErr(err)
	}
	received := g.handleAll(t)
	received.Wait(t, 30)
	want = append(want, published(t, deliverOrders, c, 30))
	received.Wait(t, 31)
	g.close(t)
	sameIDs(t, eventIDsOf(received.Values()), want)
	is.Equal(reported.Len(), 0)
}

func TestBatch_4_5_EventsInOrderWithTheirOwnHeadersAndTimes(t *testing.T) {
	everySetup(t, func(t *testing.T, g *group) {
		is := is.New(t)
		var want []*pulse.Event[order]
		for i := range 12 {
			e, err := deliverOrders.Publish(t.Context(), g.clients[0], order{Number: i}, pulse.WithHeaders(map[string]string{"n": fmt.Sprint(i)}))
			is.NoErr(err)
			e.ConsumerGroup, e.Attempt = "billing", 1
			want = append(want, e)
		}
		got := g.handleBatches(t, 12).Wait(t, 1)
		is.Equal(got[0], want)
	})
}

// A batch that fails is retried as the unit that it was, with all its events.
func TestBatch_4_5_RetriesTheWholeUnit(t *testing.T) {
	everySetup(t, func(t *testing.T, g *group) {
		is := is.New(t)
		publishMany(t, deliverOrders, g.clients[0], 40)
		var received pulsetest.Recorder[[]*pulse.Event[order]]
		for _, c := range g.clients {
			_, err := deliverOrders.SubscribeBatch(t.Context(), c, 10, func(_ context.Context, es []*pulse.Event[order]) error {
				received.Add(es)
				if es[0].Attempt < 3 {
					return errors.New("not yet")
				}
				return nil
			}, pulse.OffsetReset(pulse.Earliest), pulse.RetryDelay(10*time.Millisecond))
			is.NoErr(err)
		}
		received.Wait(t, 12)
		docs := eventually(t, 4, deliveriesOf(g.db), bson.D{{Key: "status", Value: "v2-success"}})
		g.close(t)
		is.Equal(received.Len(), 12)
		runs := map[string][]int{}
		for _, es := range received.Values() {
			key := strings.Join(eventIDsOf(es), " ")
			runs[key] = append(runs[key], es[0].Attempt)
		}
		is.Equal(len(runs), 4)
		for _, d := range docs {
			is.Equal(runs[strings.Join(eventsIn(d), " ")], []int{1, 2, 3})
			is.Equal(len(attemptsIn(d)), 3)
		}
	})
}

// Two batches run side by side; the later one finishes first.
func TestBatch_4_5_BatchesRunConcurrentlyAndFinishInAnyOrder(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	g := newGroup(t, setup{streams: true, clients: 1})
	publishMany(t, deliverOrders, g.clients[0], 20)
	begun, release := make(chan *pulse.Event[order], 2), make(map[int]chan struct{})
	release[0], release[10] = make(chan struct{}), make(chan struct{})
	_, err := deliverOrders.SubscribeBatch(t.Context(), g.clients[0], 10, func(_ context.Context, es []*pulse.Event[order]) error {
		begun <- es[0]
		<-release[es[0].Data.Number]
		return nil
	}, pulse.OffsetReset(pulse.Earliest), pulse.MaxConcurrency(2))
	is.NoErr(err)
	one, two := <-begun, <-begun // both run
	is.True(one.Data.Number != two.Data.Number)
	close(release[10])
	done := eventually(t, 1, deliveriesOf(g.db), bson.D{{Key: "status", Value: "v2-success"}})
	is.Equal(len(eventsIn(done[0])), 10)
	eventually(t, 1, deliveriesOf(g.db), processing)
	close(release[0])
	eventually(t, 2, deliveriesOf(g.db), bson.D{{Key: "status", Value: "v2-success"}})
}

// A batch is materialized, and the handler is a normal one by the time it runs.
func TestBatch_4_12_NormalHandlerRunsABatchSequentially(t *testing.T) {
	everySetup(t, func(t *testing.T, g *group) {
		is := is.New(t)
		want := publishMany(t, deliverOrders, g.clients[0], 10)
		storeBatch(t, g.db, want)
		var received pulsetest.Recorder[*pulse.Event[order]]
		running := make(chan struct{}, 1) // one at a time
		for _, c := range g.clients {
			_, err := deliverOrders.Subscribe(t.Context(), c, func(_ context.Context, e *pulse.Event[order]) error {
				select {
				case running <- struct{}{}:
				default:
					t.Error("events of one delivery ran at once")
				}
				received.Add(e)
				<-running
				switch n := e.Data.Number; {
				case e.Attempt == 1 && n == 3:
					panic("three")
				case e.Attempt == 1 && n == 5:
					runtime.Goexit()
				case e.Attempt == 1 && n == 7:
					return errors.New("seven")
				}
				return nil
			}, unordered(pulse.RetryDelay(time.Millisecond))...) // latest: it has no deliveries of its own
			is.NoErr(err)
		}
		d := eventually(t, 1, deliveriesOf(g.db), bson.D{{Key: "status", Value: "v2-success"}})[0]
		g.close(t)
		// All of them in order, whatever fails, and all of them again.
		is.Equal(eventIDsOf(received.Values()), append(slices.Clone(want), want...))
		attempts := attemptsIn(d)
		is.Equal(len(attempts), 2)
		is.Equal(codeOf(attempts[0]), "handler_error")
		message := attempts[0].Lookup("error", "message").StringValue() // one error that names all three
		for _, part := range []string{want[3], "three", want[5], "runtime.Goexit", want[7], "seven"} {
			is.True(strings.Contains(message, part))
		}
	})
}

// storeBatch inserts a pending batch of the events, as a leader with a batch receiver would have.
func storeBatch(t *testing.T, db *mongo.Database, events []string) bson.D {
	t.Helper()
	last := only(t, eventsOf(db), bson.D{{Key: "_id", Value: events[len(events)-1]}})
	now := time.Now().UTC()
	doc := bson.D{
		{Key: "_id", Value: "batch of " + events[0]},
		{Key: "eventId", Value: events[len(events)-1]},
		{Key: "eventIds", Value: events},
		{Key: "consumerGroup", Value: "billing"},
		{Key: "topic", Value: deliverOrders.Name()},
		{Key: "eventCreatedAt", Value: now},
		{Key: "eventSequence", Value: last.Lookup("sequence")},
		{Key: "status", Value: "v2-pending"},
		{Key: "attempt", Value: int32(0)},
		{Key: "attemptId", Value: "first of " + events[0]},
		{Key: "attemptCreatedAt", Value: now},
		{Key: "nextAttemptAt", Value: now},
		{Key: "attempts", Value: bson.A{}},
		{Key: "createdAt", Value: now},
		{Key: "updatedAt", Value: now},
	}
	_, err := deliveriesOf(db).InsertOne(t.Context(), doc)
	is.New(t).NoErr(err)
	return doc
}

// A delivery of one event is a slice of one to a batch handler.
func TestBatch_4_12_BatchHandlerGetsASingleDeliveryAsASliceOfOne(t *testing.T) {
	everySetup(t, func(t *testing.T, g *group) {
		is := is.New(t)
		id := published(t, deliverOrders, g.clients[0], 1)
		_, err := deliveriesOf(g.db).InsertOne(t.Context(), nodeDelivery(only(t, eventsOf(g.db), bson.D{}), "v2-pending"))
		is.NoErr(err)
		got := g.handleBatches(t, 10).Wait(t, 1)
		is.Equal(eventIDsOf(got[0]), []string{id})
	})
}

func TestBatch_3_6_EventsThatAreGone(t *testing.T) {
	everySetup(t, func(t *testing.T, g *group) {
		is := is.New(t)
		ids := publishMany(t, deliverOrders, g.clients[0], 9)
		storeBatch(t, g.db, ids[0:3]) // loses one
		storeBatch(t, g.db, ids[3:6]) // loses all
		single := nodeDelivery(only(t, eventsOf(g.db), bson.D{{Key: "_id", Value: ids[6]}}), "v2-pending")
		_, err := deliveriesOf(g.db).InsertOne(t.Context(), single)
		is.NoErr(err)
		_, err = eventsOf(g.db).DeleteMany(t.Context(), bson.D{{Key: "_id", Value: bson.D{{Key: "$in", Value: append([]string{ids[1]}, ids[3:7]...)}}}})
		is.NoErr(err)

		var received pulsetest.Recorder[[]*pulse.Event[order]]
		for _, c := range g.clients {
			_, err := deliverOrders.SubscribeBatch(t.Context(), c, 3, func(_ context.Context, es []*pulse.Event[order]) error {
				received.Add(es)
				if es[0].Attempt == 1 {
					return errors.New("again")
				}
				return nil
			}, pulse.RetryDelay(time.Millisecond))
			is.NoErr(err)
		}
		eventually(t, 3, deliveriesOf(g.db), bson.D{{Key: "endedAt", Value: bson.D{{Key: "$type", Value: "date"}}}})
		g.close(t)
		for _, es := range received.Values() {
			is.Equal(eventIDsOf(es), []string{ids[0], ids[2]}) // what remains, at each attempt
		}
		is.Equal(received.Len(), 2)

		some := only(t, deliveriesOf(g.db), bson.D{{Key: "_id", Value: "batch of " + ids[0]}})
		is.Equal(some.Lookup("status").StringValue(), "v2-success")
		is.Equal(some.Lookup("expiredEventCount").AsInt64(), int64(1))
		is.Equal(len(eventsIn(some)), 3)
		for _, a := range attemptsIn(some) {
			is.Equal(a.Lookup("expiredEventCount").AsInt64(), int64(1))
		}
		for id, expired := range map[any]int64{"batch of " + ids[3]: 3, single[0].Value: 1} {
			none := only(t, deliveriesOf(g.db), bson.D{{Key: "_id", Value: id}})
			is.Equal(none.Lookup("status").StringValue(), "v2-error")
			is.Equal(codeOf(none), "event_expired")
			is.Equal(len(attemptsIn(none)), 1) // no retry
			is.Equal(none.Lookup("finalAttempt").AsInt64(), int64(1))
			is.Equal(none.Lookup("expiredEventCount").AsInt64(), expired)
		}
	})
}
