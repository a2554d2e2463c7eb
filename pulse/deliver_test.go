package pulse_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/matryer/is"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/orionjs/orion-go/pulse"
	"github.com/orionjs/orion-go/pulse/pulsetest"
)

var deliverOrders = pulse.NewTopic[order]("order.created")

// handleAll subscribes all clients, from the first event on, and records what they receive.
func (g *group) handleAll(t *testing.T, opts ...pulse.SubscribeOption) *pulsetest.Recorder[*pulse.Event[order]] {
	t.Helper()
	var received pulsetest.Recorder[*pulse.Event[order]]
	for _, c := range g.clients {
		_, err := deliverOrders.Subscribe(t.Context(), c, func(_ context.Context, e *pulse.Event[order]) error {
			received.Add(e)
			return nil
		}, unordered(append([]pulse.SubscribeOption{pulse.OffsetReset(pulse.Earliest)}, opts...)...)...)
		is.New(t).NoErr(err)
	}
	return &received
}

// handleBatches is handleAll for batches.
func (g *group) handleBatches(t *testing.T, size int, opts ...pulse.SubscribeOption) *pulsetest.Recorder[[]*pulse.Event[order]] {
	t.Helper()
	var received pulsetest.Recorder[[]*pulse.Event[order]]
	for _, c := range g.clients {
		_, err := deliverOrders.SubscribeBatch(t.Context(), c, size, func(_ context.Context, es []*pulse.Event[order]) error {
			received.Add(es)
			return nil
		}, append([]pulse.SubscribeOption{pulse.OffsetReset(pulse.Earliest)}, opts...)...)
		is.New(t).NoErr(err)
	}
	return &received
}

// holds tells whether batches hold n events together.
func holds(n int) func([][]*pulse.Event[order]) bool {
	return func(batches [][]*pulse.Event[order]) bool {
		sum := 0
		for _, es := range batches {
			sum += len(es)
		}
		return sum >= n
	}
}

// batchSizes returns the sizes of the stored batches, in the order of their events.
func batchSizes(t *testing.T, db *mongo.Database) []int {
	t.Helper()
	cursor, err := deliveriesOf(db).Find(t.Context(), bson.D{{Key: "eventIds", Value: bson.D{{Key: "$exists", Value: true}}}},
		options.Find().SetSort(bson.D{{Key: "eventSequence", Value: 1}, {Key: "eventId", Value: 1}}))
	is := is.New(t)
	is.NoErr(err)
	var docs []bson.Raw
	is.NoErr(cursor.All(t.Context(), &docs))
	sizes := make([]int, len(docs))
	for i, d := range docs {
		sizes[i] = len(eventsIn(d))
	}
	return sizes
}

func (g *group) close(t *testing.T) {
	t.Helper()
	for _, c := range g.clients {
		closeClient(t, c)
	}
}

// eventIDsOf returns the IDs in the order of arrival.
func eventIDsOf(events []*pulse.Event[order]) []string {
	ids := make([]string, len(events))
	for i, e := range events {
		ids[i] = e.ID
	}
	return ids
}

// sameIDs checks that both hold the same IDs, each once.
func sameIDs(t *testing.T, got, want []string) {
	t.Helper()
	got, want = slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))
	if !slices.Equal(got, want) {
		missing, surplus := 0, 0
		for _, id := range want {
			if _, ok := slices.BinarySearch(got, id); !ok {
				missing++
			}
		}
		for _, id := range got {
			if _, ok := slices.BinarySearch(want, id); !ok {
				surplus++
			}
		}
		t.Fatalf("%d IDs instead of %d: %d missing, %d unknown", len(got), len(want), missing, surplus)
	}
}

// storeEvents inserts events with given sequences, as a server might have assigned them.
func storeEvents(t *testing.T, db *mongo.Database, sequences []bson.Timestamp) []string {
	t.Helper()
	ids := make([]string, len(sequences))
	docs := make([]bson.D, len(sequences))
	for i, sequence := range sequences {
		ids[i] = uuid.NewString() // not in the order of insertion
		docs[i] = bson.D{
			{Key: "_id", Value: ids[i]},
			{Key: "topic", Value: deliverOrders.Name()},
			{Key: "data", Value: order{Number: i}},
			{Key: "createdAt", Value: time.Now()},
			{Key: "sequence", Value: sequence},
		}
	}
	_, err := eventsOf(db).InsertMany(t.Context(), docs)
	is.New(t).NoErr(err)
	return ids
}

// sequenceAt is the sequence of the n-th of many events, all of the same instant or each of its own.
func sequenceAt(n int) bson.Timestamp { return bson.Timestamp{T: uint32(1_700_000_000 + n), I: 1} }

func TestDeliver_3_1_OneLeaderThatReleasesOnClose(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	db := pulsetest.Database(t)
	var received pulsetest.Recorder[string]
	start := func() *pulse.Client {
		config := fast(db)
		config.DiscoveryLockTimeout = time.Hour // only a released lease can be taken over here
		c := startClient(t, config)
		_, err := deliverOrders.Subscribe(t.Context(), c, func(_ context.Context, e *pulse.Event[order]) error {
			received.Add(e.ID)
			return nil
		}, unordered(pulse.OffsetReset(pulse.Earliest))...)
		is.NoErr(err)
		return c
	}
	led := bson.D{{Key: "discoveryLockToken", Value: bson.D{{Key: "$exists", Value: true}}}}
	first := start()
	leader := eventually(t, 1, subscriptionsOf(db), led)[0]
	is.True(strings.HasPrefix(leader.Lookup("discoveryLockOwner").StringValue(), "go:"))
	second := start()
	for i := range 5 {
		published(t, deliverOrders, second, i)
		received.Wait(t, i+1)
	}
	is.Equal(only(t, subscriptionsOf(db), bson.D{}).Lookup("discoveryLockToken"), leader.Lookup("discoveryLockToken"))

	closeClient(t, first)
	next := eventually(t, 1, subscriptionsOf(db), led)[0]
	is.True(strings.HasPrefix(next.Lookup("discoveryLockOwner").StringValue(), "go:"))
	is.True(!next.Lookup("discoveryLockOwner").Equal(leader.Lookup("discoveryLockOwner")))
	published(t, deliverOrders, second, 5)
	received.Wait(t, 6)

	before := time.Now()
	closeClient(t, second)
	released := only(t, subscriptionsOf(db), bson.D{})
	is.Equal(released.Lookup("discoveryLockOwner"), next.Lookup("discoveryLockOwner")) // who led last stays readable
	_, err := released.LookupErr("discoveryLockToken")
	is.True(err != nil)
	until := released.Lookup("discoveryLockedUntil").Time()
	is.True(until.After(before.Add(-time.Second)) && until.Before(time.Now().Add(time.Second))) // over since the close

	published(t, deliverOrders, start(), 6)
	received.Wait(t, 7)
}

func TestDeliver_3_2_EveryEventOnceInOrder(t *testing.T) {
	everySetup(t, func(t *testing.T, g *group) {
		is := is.New(t)
		want := publishMany(t, deliverOrders, g.clients[0], 150)
		received := g.handleAll(t)
		received.Wait(t, len(want))
		g.close(t)
		sameIDs(t, eventIDsOf(received.Values()), want)
		docs, err := find(t.Context(), deliveriesOf(g.db), bson.D{})
		is.NoErr(err)
		is.Equal(len(docs), len(want))
		sub := only(t, subscriptionsOf(g.db), bson.D{})
		newest := only(t, eventsOf(g.db), bson.D{{Key: "_id", Value: want[len(want)-1]}})
		is.Equal(sub.Lookup("cursorSequence"), newest.Lookup("sequence"))
		is.Equal(sub.Lookup("cursorSequenceEventId").StringValue(), want[len(want)-1])
	})
}

// More events than a page holds, and more of one sequence than a page holds, between others.
func TestDeliver_3_2_TiesInTheSequence(t *testing.T) {
	t.Parallel()
	var sequences []bson.Timestamp
	for i := range 5 {
		sequences = append(sequences, sequenceAt(i))
	}
	for range 1100 {
		sequences = append(sequences, sequenceAt(5))
	}
	for i := range 5 {
		sequences = append(sequences, sequenceAt(6+i/2)) // small ties
	}
	for _, batch := range []bool{false, true} {
		t.Run(fmt.Sprint("batch=", batch), func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			g := newGroup(t, setup{streams: true, clients: 2})
			want := storeEvents(t, g.db, sequences)
			var got []string
			if batch {
				for _, es := range g.handleBatches(t, 100).WaitFor(t, "all events", holds(len(want))) {
					got = append(got, eventIDsOf(es)...)
					is.True(inOrder(es))
				}
				is.Equal(batchSizes(t, g.db), append(slices.Repeat([]int{100}, 11), 10))
			} else {
				got = eventIDsOf(g.handleAll(t).Wait(t, len(want)))
			}
			g.close(t)
			sameIDs(t, got, want)
			n, err := deliveriesOf(g.db).CountDocuments(t.Context(), bson.D{})
			is.NoErr(err)
			is.Equal(int(n), map[bool]int{false: len(want), true: 12}[batch])
		})
	}
}

// inOrder tells whether the events of storeEvents are in (sequence, ID) order: their numbers are in the order
// of their sequences but for ties.
func inOrder(es []*pulse.Event[order]) bool {
	key := func(e *pulse.Event[order]) string {
		n := e.Data.Number
		switch {
		case n >= 5 && n < 1105:
			n = 5
		case n >= 1105:
			n = 1105 + (n-1105)/2
		}
		return fmt.Sprintf("%08d %s", n, e.ID)
	}
	return slices.IsSortedFunc(es, func(a, b *pulse.Event[order]) int { return strings.Compare(key(a), key(b)) })
}

// nodeDelivery is a single delivery as Node 4.5.18 stores it, with nulls where it has nothing to say.
func nodeDelivery(e bson.Raw, status string) bson.D {
	now := time.Now().UTC()
	doc := bson.D{
		{Key: "_id", Value: uuid.NewString()},
		{Key: "eventId", Value: e.Lookup("_id").StringValue()},
		{Key: "consumerGroup", Value: "billing"},
		{Key: "topic", Value: e.Lookup("topic").StringValue()},
		{Key: "eventCreatedAt", Value: now},
		{Key: "eventSequence", Value: e.Lookup("sequence")},
		{Key: "status", Value: status},
		{Key: "executionVersion", Value: 2.0},
		{Key: "attempts", Value: bson.A{}},
		{Key: "error", Value: nil},
		{Key: "createdAt", Value: now},
		{Key: "updatedAt", Value: now},
	}
	if status == "v2-pending" {
		return append(doc, bson.D{
			{Key: "attempt", Value: 0.0},
			{Key: "attemptId", Value: uuid.NewString()},
			{Key: "attemptCreatedAt", Value: now},
			{Key: "nextAttemptAt", Value: now},
			{Key: "lockOwner", Value: nil},
			{Key: "lockToken", Value: nil},
			{Key: "lockedUntil", Value: nil},
			{Key: "endedAt", Value: nil},
			{Key: "expiresAt", Value: nil},
		}...)
	}
	return append(doc, bson.E{Key: "attempt", Value: 1}, bson.E{Key: "endedAt", Value: now}, bson.E{Key: "finalAttempt", Value: 1})
}

// A leader died between its deliveries and its cursor, as one without transactions may, or one of the Node
// implementation stored some: those events have their delivery.
func TestDeliver_3_2_WhatHasADeliveryGetsNoOther(t *testing.T) {
	t.Parallel()
	for _, batch := range []bool{false, true} {
		t.Run(fmt.Sprint("batch=", batch), func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			g := newGroup(t, setup{streams: true, clients: 2})
			want := publishMany(t, deliverOrders, g.clients[0], 30)
			events, err := find(t.Context(), eventsOf(g.db), bson.D{})
			is.NoErr(err)
			ended := []string{"v2-success", "v2-error", "success", "error"} // of both formats
			var pending, done []string
			for i := range 8 {
				_, err = deliveriesOf(g.db).InsertOne(t.Context(), nodeDelivery(events[2*i], "v2-pending"))
				is.NoErr(err)
				pending = append(pending, events[2*i].Lookup("_id").StringValue())
				_, err = deliveriesOf(g.db).InsertOne(t.Context(), nodeDelivery(events[2*i+1], ended[i%4]))
				is.NoErr(err)
				done = append(done, events[2*i+1].Lookup("_id").StringValue())
			}
			left := slices.DeleteFunc(slices.Clone(want), func(id string) bool { return slices.Contains(done, id) })
			var got []string
			if batch {
				for _, es := range g.handleBatches(t, 5).WaitFor(t, "all events", holds(len(left))) {
					got = append(got, eventIDsOf(es)...)
				}
			} else {
				got = eventIDsOf(g.handleAll(t).Wait(t, len(left)))
			}
			g.close(t)
			sameIDs(t, got, left)
			is.Equal(len(pending), 8)
			n, err := deliveriesOf(g.db).CountDocuments(t.Context(), bson.D{})
			is.NoErr(err)
			is.Equal(int(n), map[bool]int{false: 30, true: 16 + 3}[batch]) // 14 events are left for batches of 5
		})
	}
}

// Another client, one of the Node implementation, delivers an event while this one leads: the event's delivery
// is there before the leader comes to it. It goes on at once, without it.
func TestDeliver_3_2_DeliveredByAnotherClientMeanwhile(t *testing.T) {
	t.Parallel()
	for _, batch := range []bool{false, true} {
		t.Run(fmt.Sprint("batch=", batch), func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			db := pulsetest.Database(t)
			var reported pulsetest.Recorder[error]
			c := startClient(t, patient(db, func(c *pulse.Config) { c.OnError = func(err error) { reported.Add(err) } }))
			g := &group{db: db, clients: []*pulse.Client{c}}
			var received pulsetest.Recorder[string]
			handle := func(_ context.Context, es []*pulse.Event[order]) error {
				received.Add(eventIDsOf(es)...)
				return nil
			}
			var err error
			if batch {
				_, err = deliverOrders.SubscribeBatch(t.Context(), c, 2, handle)
			} else {
				_, err = deliverOrders.Subscribe(t.Context(), c, func(ctx context.Context, e *pulse.Event[order]) error {
					return handle(ctx, []*pulse.Event[order]{e})
				}, unordered()...)
			}
			is.NoErr(err)
			published(t, deliverOrders, c, 0, pulse.WithID("first")) // it leads
			received.Wait(t, 1)
			taken := nodeDelivery(only(t, eventsOf(db), bson.D{}), "v2-success")
			for _, id := range []string{"b", "d"} { // the last of a batch, which its delivery's key names
				_, err = deliveriesOf(db).InsertOne(t.Context(), set(set(set(taken, "_id", "of "+id), "eventId", id), "eventSequence", bson.Timestamp{T: 1, I: 1}))
				is.NoErr(err)
			}
			var messages []pulse.Message[order]
			for _, id := range []string{"a", "b", "c", "d", "e"} {
				messages = append(messages, pulse.Message[order]{ID: id})
			}
			_, err = deliverOrders.PublishMany(t.Context(), c, messages)
			is.NoErr(err)
			received.Wait(t, 4)
			g.close(t)
			sameIDs(t, received.Values(), []string{"first", "a", "c", "e"})
			is.Equal(reported.Len(), 0)
		})
	}
}
