package pulse_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/matryer/is"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/orionjs/orion-go/pulse"
	"github.com/orionjs/orion-go/pulse/pulsetest"
)

// lostDelivery is a delivery in processing whose worker is gone, of an event that is stored.
func lostDelivery(e bson.Raw, attempt int, until time.Time) bson.D {
	now := time.Now().UTC()
	d := nodeDelivery(e, "v2-pending")
	for i := range d {
		switch d[i].Key {
		case "status":
			d[i].Value = "v2-processing"
		case "attempt":
			d[i].Value = attempt
		case "lockOwner":
			d[i].Value = "node:gone"
		case "lockToken":
			d[i].Value = uuid.NewString()
		case "lockedUntil":
			d[i].Value = until
		}
	}
	return append(d, bson.D{{Key: "startedAt", Value: now}, {Key: "lockedAt", Value: now}, {Key: "heartbeatAt", Value: now}}...)
}

// storeLost publishes n events and stores a lost delivery for each, changed by the function.
func storeLost(t *testing.T, db *mongo.Database, c *pulse.Client, n int, change func(i int, d bson.D) bson.D) []string {
	t.Helper()
	is := is.New(t)
	ids := publishMany(t, deliverOrders, c, n)
	docs := make([]bson.D, n)
	for i, id := range ids {
		docs[i] = change(i, lostDelivery(only(t, eventsOf(db), bson.D{{Key: "_id", Value: id}}), 1, time.Now().Add(-time.Minute)))
	}
	_, err := deliveriesOf(db).InsertMany(t.Context(), docs)
	is.NoErr(err)
	return ids
}

// set replaces, or with a nil value removes, a field.
func set(d bson.D, key string, value any) bson.D {
	var out bson.D
	for _, e := range d {
		if e.Key != key {
			out = append(out, e)
		}
	}
	if value != nil {
		out = append(out, bson.E{Key: key, Value: value})
	}
	return out
}

// reaping makes clients whose reaper looks every other second.
func reaping(t *testing.T, s setup) *group {
	t.Helper()
	g := &group{db: pulsetest.Database(t)}
	for range s.clients {
		config := leased(g.db, 6*time.Second, nil)
		config.DisableChangeStreams = !s.streams
		g.clients = append(g.clients, startClient(t, config))
	}
	return g
}

// More than a page of expired leases drains, also of those that lack what every lease has.
func TestMaintenance_4_3_ExpiredLeasesAreRetried(t *testing.T) {
	t.Parallel()
	for _, s := range []setup{{true, 1}, {false, 3}} {
		t.Run(s.String(), func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			g := reaping(t, s)
			lacking := []string{"", "lockedUntil", "lockToken", "lockOwner", "heartbeatAt", "startedAt", "lockedAt"}
			ids := storeLost(t, g.db, g.clients[0], 70, func(i int, d bson.D) bson.D {
				if field := lacking[i%len(lacking)]; i%2 == 0 {
					return set(d, field, nil)
				} else if field != "" {
					return append(set(d, field, nil), bson.E{Key: field, Value: nil}) // null
				}
				return d
			})
			received := g.handleAll(t, pulse.RetryDelay(time.Millisecond))
			for _, e := range received.Wait(t, len(ids)) {
				is.Equal(e.Attempt, 2)
			}
			for _, d := range eventually(t, len(ids), deliveriesOf(g.db), bson.D{{Key: "status", Value: "v2-success"}}) {
				attempts := attemptsIn(d)
				is.Equal(len(attempts), 2)
				is.Equal(codeOf(attempts[0]), "worker_lost")
				is.Equal(attempts[0].Lookup("status").StringValue(), "error")
				is.Equal(d.Lookup("attempt").AsInt64(), int64(2))
			}
			g.close(t)
			sameIDs(t, eventIDsOf(received.Values()), ids)
		})
	}
}

// A lost attempt was the last: the delivery ends.
func TestMaintenance_4_3_ExpiredLeasesEndWhereNoRetryIsLeft(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string][]pulse.SubscribeOption{
		"no retries":         {pulse.MaxRetries(0)},
		"at most once":       {pulse.DeliveryMode(pulse.AtMostOnce)},
		"the last of two":    {pulse.MaxRetries(1)},
		"batch, the last":    {pulse.MaxRetries(1)},
		"batch, at most one": {pulse.DeliveryMode(pulse.AtMostOnce)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			g := reaping(t, setup{streams: true, clients: 2})
			storeLost(t, g.db, g.clients[0], 30, func(_ int, d bson.D) bson.D { return set(d, "attempt", 2) })
			for _, c := range g.clients {
				var err error
				if name[0] == 'b' {
					_, err = deliverOrders.SubscribeBatch(t.Context(), c, 5, func(context.Context, []*pulse.Event[order]) error {
						t.Error("a handler ran")
						return nil
					}, append(opts, pulse.OffsetReset(pulse.Earliest))...)
				} else {
					_, err = deliverOrders.Subscribe(t.Context(), c, func(context.Context, *pulse.Event[order]) error {
						t.Error("a handler ran")
						return nil
					}, unordered(append(opts, pulse.OffsetReset(pulse.Earliest))...)...)
				}
				is.NoErr(err)
			}
			for _, d := range eventually(t, 30, deliveriesOf(g.db), bson.D{{Key: "status", Value: "v2-error"}}) {
				is.Equal(codeOf(d), "worker_lost")
				is.Equal(codeOf(attemptsIn(d)[0]), "worker_lost")
				is.Equal(len(attemptsIn(d)), 1)
				is.Equal(d.Lookup("finalAttempt").AsInt64(), int64(2))
				is.Equal(dateIn(d, "expiresAt"), dateIn(d, "endedAt").Add(7*24*time.Hour))
				for _, field := range []string{"lockToken", "lockedUntil", "startedAt", "nextAttemptAt", "attemptId"} {
					_, err := d.LookupErr(field)
					is.True(err != nil)
				}
			}
			g.close(t)
		})
	}
}

// A replica that has no handler of the topic lets its deliveries be, expired or not: it does not know how
// often they may be retried.
func TestMaintenance_4_3_ReplicaWithoutTheHandlerEndsNothing(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	db := pulsetest.Database(t)
	c := startClient(t, leased(db, 6*time.Second, nil))
	sub := subscribed(t, c, func(context.Context, *pulse.Event[order]) error { return nil }) // the group has the topic,
	is.NoErr(sub.Unsubscribe(t.Context()))                                                   // but no handler of it
	other := pulse.NewTopic[order]("invoice.created")
	var received pulsetest.Recorder[int]
	_, err := other.Subscribe(t.Context(), c, func(_ context.Context, e *pulse.Event[order]) error {
		received.Add(e.Attempt)
		return nil
	}, unordered()...)
	is.NoErr(err)
	storeLost(t, db, c, 30, func(_ int, d bson.D) bson.D { return d })
	before, err := find(t.Context(), deliveriesOf(db), bson.D{})
	is.NoErr(err)

	published(t, other, c, 1)
	received.Wait(t, 1)
	// Its own topic is maintained meanwhile: a lost delivery of that one marks a pass of the reaper.
	e := only(t, eventsOf(db), bson.D{{Key: "topic", Value: other.Name()}})
	lost := set(lostDelivery(e, 1, time.Now().Add(-time.Minute)), "eventId", "the mark")
	_, err = deliveriesOf(db).InsertOne(t.Context(), lost)
	is.NoErr(err)
	eventually(t, 1, deliveriesOf(db), bson.D{{Key: "eventId", Value: "the mark"}, {Key: "status", Value: "v2-error"}})
	after, err := find(t.Context(), deliveriesOf(db), bson.D{{Key: "topic", Value: leaseTopic}})
	is.NoErr(err)
	is.Equal(after, before)
}

// Retention: events and terminal deliveries say when they may go, or, with NoTTL, never.
func TestMaintenance_4_4_Retention(t *testing.T) {
	t.Parallel()
	for name, keep := range map[string]time.Duration{"of an hour": time.Hour, "for ever": pulse.NoTTL} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			db := pulsetest.Database(t)
			config := fast(db)
			config.EventRetention, config.HistoryRetention = keep, keep
			c := startClient(t, config)
			g := &group{db: db, clients: []*pulse.Client{c}}
			g.handleErrors(t, map[int]error{1: nil}, pulse.MaxRetries(0))
			_, err := pulse.NewTopic[string](deliverOrders.Name()).Publish(t.Context(), c, "does not fit") // a terminal error
			is.NoErr(err)
			published(t, deliverOrders, c, 1)
			docs := append(eventually(t, 1, deliveriesOf(db), bson.D{{Key: "status", Value: "v2-success"}}),
				eventually(t, 1, deliveriesOf(db), bson.D{{Key: "status", Value: "v2-error"}})...)
			for _, d := range docs {
				expires, has := d.Lookup("expiresAt").TimeOK()
				is.Equal(has, keep != pulse.NoTTL)
				if has {
					is.Equal(expires, dateIn(d, "endedAt").Add(keep))
				}
			}
			events, err := find(t.Context(), eventsOf(db), bson.D{})
			is.NoErr(err)
			for _, e := range events {
				expires, has := e.Lookup("expiresAt").TimeOK()
				is.Equal(has, keep != pulse.NoTTL)
				if has {
					is.Equal(expires, dateIn(e, "createdAt").Add(keep))
				}
			}
		})
	}
}
