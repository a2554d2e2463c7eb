package pulse_test

import (
	"context"
	"fmt"
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

// hostileValues are what a field can hold that should hold something else.
var hostileValues = []any{
	nil, "", "text", int32(-7), int64(1) << 62, 1.5, true, time.Unix(0, 0),
	bson.Timestamp{T: 1, I: 1},
	bson.NewObjectID(),
	bson.D{{Key: "$gt", Value: 1}},
	bson.D{{Key: "a", Value: bson.A{1}}},
	bson.A{},
	bson.A{1, "b", nil},
	bson.Binary{Data: []byte{1}},
	bson.MinKey{},
	bson.MaxKey{},
	bson.Regex{Pattern: "."},
	bson.JavaScript("x"), bson.NewDecimal128(1, 1),
}

// insertHostile inserts a document for each hostile value of each field, which the function adds to a sound
// one. What the server itself refuses is left out.
func insertHostile(t *testing.T, coll *mongo.Collection, fields []string, sound func() bson.D) {
	t.Helper()
	var docs []bson.D
	for _, field := range fields {
		for _, value := range hostileValues {
			docs = append(docs, append(set(sound(), field, nil), bson.E{Key: field, Value: value}))
		}
		docs = append(docs, set(sound(), field, nil)) // and without it
	}
	_, err := coll.InsertMany(t.Context(), docs, options.InsertMany().SetOrdered(false))
	if err != nil && !mongo.IsDuplicateKeyError(err) {
		t.Log(err)
	}
	n, err := coll.CountDocuments(t.Context(), bson.D{})
	is.New(t).NoErr(err)
	is.New(t).True(int(n) > len(docs)/2)
}

// Whatever lies between them, sound events reach their handlers, single and in batches.
func TestHostile_6_3_Events(t *testing.T) {
	t.Parallel()
	for _, batch := range []bool{false, true} {
		t.Run(fmt.Sprint("batch=", batch), func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			g := newGroup(t, setup{streams: true, clients: 1})
			want := publishMany(t, deliverOrders, g.clients[0], 5)
			insertHostile(t, eventsOf(g.db), []string{"_id", "topic", "data", "headers", "publisher", "createdAt", "sequence", "expiresAt"}, func() bson.D {
				return bson.D{
					{Key: "_id", Value: uuid.NewString()},
					{Key: "topic", Value: deliverOrders.Name()},
					{Key: "data", Value: order{Number: -1}},
					{Key: "createdAt", Value: time.Now()},
					{Key: "sequence", Value: bson.Timestamp{}},
				}
			})
			want = append(want, publishMany(t, deliverOrders, g.clients[0], 5)...)
			var received pulsetest.Recorder[string]
			handle := func(e *pulse.Event[order]) {
				if e.Data.Number >= 0 {
					received.Add(e.ID)
				}
			}
			opts := []pulse.SubscribeOption{pulse.OffsetReset(pulse.Earliest), pulse.MaxRetries(0)}
			var err error
			if batch { // of one, since one that does not decode fails its whole batch
				_, err = deliverOrders.SubscribeBatch(t.Context(), g.clients[0], 1, func(_ context.Context, es []*pulse.Event[order]) error {
					handle(es[0])
					return nil
				}, opts...)
			} else {
				_, err = deliverOrders.Subscribe(t.Context(), g.clients[0], func(_ context.Context, e *pulse.Event[order]) error {
					handle(e)
					return nil
				}, unordered(opts...)...)
			}
			is.NoErr(err)
			received.WaitFor(t, "all sound events", contains(want))
			want = append(want, publishMany(t, deliverOrders, g.clients[0], 5)...)
			received.WaitFor(t, "those after them", contains(want))
			// Nothing of it is left undone.
			eventually(t, 0, deliveriesOf(g.db), bson.D{{Key: "status", Value: bson.D{{Key: "$in", Value: bson.A{"v2-pending", "v2-processing"}}}}})
		})
	}
}

// contains tells whether all IDs are among the values.
func contains(want []string) func([]string) bool {
	return func(values []string) bool {
		seen := make(map[string]bool, len(values))
		for _, v := range values {
			seen[v] = true
		}
		for _, id := range want {
			if !seen[id] {
				return false
			}
		}
		return true
	}
}

// Pages of deliveries that nobody can run, in every state, do not stall the sound ones; those that can be run
// in the end are, and the rest is ended.
func TestHostile_6_3_Deliveries(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	g := reaping(t, setup{streams: true, clients: 2})
	lend := published(t, deliverOrders, g.clients[0], -1)
	e := only(t, eventsOf(g.db), bson.D{{Key: "_id", Value: lend}})
	unique := func(d bson.D) bson.D { return set(d, "eventId", uuid.NewString()) } // of an event that is gone
	insertHostile(t, deliveriesOf(g.db), []string{"_id", "eventId", "eventIds", "attempt", "attemptId", "attemptCreatedAt", "attempts", "eventSequence"},
		func() bson.D { return unique(nodeDelivery(e, "v2-pending")) })
	insertHostile(t, deliveriesOf(g.db), []string{"_id", "attempt", "attempts", "lockedUntil", "lockToken", "startedAt", "status"},
		func() bson.D { return unique(lostDelivery(e, 1, time.Now().Add(-time.Minute))) })
	want := publishMany(t, deliverOrders, g.clients[0], 40)
	var received pulsetest.Recorder[string]
	for _, c := range g.clients {
		_, err := deliverOrders.Subscribe(t.Context(), c, func(_ context.Context, e *pulse.Event[order]) error {
			received.Add(e.ID)
			return nil
		}, unordered(pulse.OffsetReset(pulse.Earliest), pulse.RetryDelay(time.Millisecond))...)
		is.NoErr(err)
	}
	received.WaitFor(t, "all sound events", contains(want))
	// No pending one and no lost one is left. What says nowhere when it is due is not among them: it waits for
	// a slow pass of maintenance, which has its own test.
	eventually(t, 0, deliveriesOf(g.db), bson.D{{Key: "topic", Value: deliverOrders.Name()}, {Key: "status", Value: bson.D{{Key: "$in", Value: bson.A{"v2-pending", "v2-processing"}}}}})
}

// More than a whole look of malformed deliveries before a sound one.
func TestHostile_6_3_PageOfMalformedDeliveriesHidesNobody(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	db := pulsetest.Database(t)
	c := startClient(t, fast(db))
	ids := publishMany(t, deliverOrders, c, 121)
	events, err := find(t.Context(), eventsOf(db), bson.D{})
	is.NoErr(err)
	var docs []bson.D
	for i, e := range events[:120] {
		docs = append(docs, set(nodeDelivery(e, "v2-pending"), []string{"attemptId", "attempt"}[i%2], nil))
	}
	_, err = deliveriesOf(db).InsertMany(t.Context(), docs)
	is.NoErr(err)
	g := &group{db: db, clients: []*pulse.Client{c}}
	received := g.handleAll(t, pulse.DeliveryMode(pulse.AtMostOnce)) // looks for few at a time
	received.Wait(t, 121)
	g.close(t)
	sameIDs(t, eventIDsOf(received.Values()), ids)
}

// Hostile values in the fields of the stored subscription that the engine works with.
func TestHostile_6_3_Subscriptions(t *testing.T) {
	t.Parallel()
	for _, field := range []string{"discoveryLockOwner", "discoveryLockToken", "discoveryLockedUntil", "updatedAt", "createdAt", "cursorSequenceEventId", "cursorCreatedAt", "cursorMoves", "unknown"} {
		t.Run(field, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			db := pulsetest.Database(t)
			c := startClient(t, fast(db))
			sub := subscribed(t, c, func(context.Context, *pulse.Event[order]) error { return nil })
			is.NoErr(sub.Unsubscribe(t.Context()))
			var received pulsetest.Recorder[string]
			for i, value := range hostileValues {
				if field == "discoveryLockedUntil" && i == 7 {
					value = bson.Timestamp{T: 4_000_000_000} // later than any date
				}
				_, err := subscriptionsOf(db).UpdateMany(t.Context(), bson.D{}, bson.D{{Key: "$set", Value: bson.D{{Key: field, Value: value}}}})
				is.NoErr(err)
				sub := subscribed(t, c, func(_ context.Context, e *pulse.Event[order]) error {
					received.Add(e.ID)
					return nil
				})
				id := published(t, leaseOrders, c, i)
				received.WaitFor(t, fmt.Sprintf("the event, with %v", value), contains([]string{id}))
				is.NoErr(sub.Unsubscribe(t.Context()))
			}
		})
	}
}

// Leases are writes by the subscription's ID: one that is no string is an error that says so, at the start.
func TestHostile_6_3_SubscriptionWithoutAUsableID(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	db := pulsetest.Database(t)
	c := startClient(t, fast(db))
	is.NoErr(subscribed(t, c, func(context.Context, *pulse.Event[order]) error { return nil }).Unsubscribe(t.Context()))
	var doc bson.D
	is.NoErr(subscriptionsOf(db).FindOneAndDelete(t.Context(), bson.D{}).Decode(&doc))
	doc[0].Value = bson.NewObjectID()
	_, err := subscriptionsOf(db).InsertOne(t.Context(), doc)
	is.NoErr(err)
	_, err = leaseOrders.Subscribe(t.Context(), c, func(context.Context, *pulse.Event[order]) error { return nil }, pulse.Unordered(), pulse.ExecutionVersion(2))
	is.True(err != nil)
	is.True(strings.Contains(err.Error(), "its _id is ") && strings.Contains(err.Error(), "store the document again under a string"))
}
