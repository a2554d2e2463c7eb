package pulse_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/matryer/is"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/orionjs/orion-go/pulse"
	"github.com/orionjs/orion-go/pulse/pulsetest"
)

// outbox is a client over a mongo.Client whose transactions it joins, and a collection of the caller's own.
type outbox struct {
	*pulse.Client
	mongo  *mongo.Client
	orders *mongo.Collection
}

func newOutbox(t *testing.T, db *mongo.Database, mc *mongo.Client, config pulse.Config) *outbox {
	t.Helper()
	c, err := pulse.New(t.Context(), mc, config)
	is.New(t).NoErr(err)
	t.Cleanup(func() { is.New(t).NoErr(c.Close(context.Background())) })
	own := mc.Database(db.Name())
	is.New(t).NoErr(own.CreateCollection(t.Context(), "orders"))
	return &outbox{Client: c, mongo: mc, orders: own.Collection("orders")}
}

// within runs work in a transaction of the outbox.
func (o *outbox) within(ctx context.Context, work func(ctx context.Context) error) error {
	session, err := o.mongo.StartSession()
	if err != nil {
		return err
	}
	defer session.EndSession(context.WithoutCancel(ctx))
	_, err = session.WithTransaction(ctx, func(ctx context.Context) (any, error) { return nil, work(ctx) })
	return err
}

var errRollBack = errors.New("changed my mind")

// Events of a transaction are delivered after its commit, in the order of their publication among the
// events of their topic, to every receiver, with the caller's own writes; after a rollback nothing is left.
func TestTransaction_1_4_DeliveredAfterTheCommit(t *testing.T) {
	everySetup(t, func(t *testing.T, g *group) {
		is := is.New(t)
		mc := pulsetest.Client(t)
		config := fast(g.db)
		config.ConsumerGroup = "shop"
		o := newOutbox(t, g.db, mc, config)
		inOrder, single, batch := pulse.NewTopic[order]("ordered"), pulse.NewTopic[order]("single"), pulse.NewTopic[order]("batch")
		topics := []pulse.Topic[order]{inOrder, single, batch}
		var ordered pulsetest.Recorder[int]
		for _, c := range g.clients {
			is.NoErr(second(inOrder.Subscribe(t.Context(), c, func(_ context.Context, e *pulse.Event[order]) error {
				ordered.Add(e.Data.Number)
				return nil
			})))
		}
		seen := []*pulsetest.Recorder[int]{&ordered, subscribeAs(t, g, false, single), subscribeAs(t, g, true, batch)}

		number, want, committed := 0, []int{}, []int{} // of the latter the first of each transaction
		for round := range 4 {
			err := o.within(t.Context(), func(ctx context.Context) error {
				if _, err := o.orders.InsertOne(ctx, bson.D{{Key: "_id", Value: round}}); err != nil {
					return err
				}
				numbers := []int{number, number + 1, number + 2}
				for _, topic := range topics {
					e, err := topic.Publish(ctx, o.Client, order{Number: numbers[0]})
					if err != nil {
						return err
					}
					is.Equal(e.Topic, topic.Name())
					is.True(!e.Duplicate)
					if _, err = topic.PublishMany(ctx, o.Client, []pulse.Message[order]{{Data: order{Number: numbers[1]}}, {Data: order{Number: numbers[2]}}}); err != nil {
						return err
					}
				}
				if round == 1 {
					return errRollBack
				}
				return nil
			})
			if round == 1 {
				is.True(errors.Is(err, errRollBack))
			} else {
				is.NoErr(err)
				want, committed = append(want, number, number+1, number+2), append(committed, number)
			}
			number += 3
			for _, topic := range topics { // others are published meanwhile, outside any transaction
				is.NoErr(second(topic.Publish(t.Context(), o.Client, order{Number: number})))
			}
			want = append(want, number)
			number++
		}
		for i := range topics {
			got := seen[i].Wait(t, len(want))
			is.Equal(len(got), len(want))
			for _, n := range want {
				is.Equal(len(filter(got, func(g int) bool { return g == n })), 1)
			}
		}
		// In order: each transaction's events among themselves.
		got := ordered.Values()
		for _, n := range committed {
			first := indexOf(got, n)
			is.True(first < indexOf(got, n+1))
			is.True(indexOf(got, n+1) < indexOf(got, n+2))
		}
		n, err := o.orders.CountDocuments(t.Context(), bson.D{})
		is.NoErr(err)
		is.Equal(n, int64(3))
	})
}

func filter(all []int, keep func(int) bool) (kept []int) {
	for _, n := range all {
		if keep(n) {
			kept = append(kept, n)
		}
	}
	return kept
}

func indexOf(all []int, n int) int {
	for i, m := range all {
		if m == n {
			return i
		}
	}
	return -1
}

// While a transaction is open its event is seen by nobody, and holds up nobody; the cursor goes past.
func TestTransaction_1_4_StaysOpenWhileOthersArePublishedAndConsumed(t *testing.T) {
	t.Parallel()
	for _, batch := range []bool{false, true} {
		t.Run(fmt.Sprint("batch=", batch), func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			// Polling only, since the test server holds streams back meanwhile.
			g := &group{db: pulsetest.Database(t)}
			config := fast(g.db)
			config.DisableChangeStreams = true
			for range 2 {
				g.clients = append(g.clients, newClient(t, g.db, config))
			}
			o := newOutbox(t, g.db, pulsetest.Client(t), config)
			topic := pulse.NewTopic[order]("order.created")
			seen := subscribeAs(t, g, batch, topic)
			is.NoErr(o.within(t.Context(), func(ctx context.Context) error {
				if _, err := topic.Publish(ctx, o.Client, order{Number: 0}); err != nil {
					return err
				}
				for i := range 20 {
					if _, err := topic.Publish(t.Context(), o.Client, order{Number: 1 + i}); err != nil {
						return err
					}
					seen.Wait(t, 1+i)
				}
				return nil
			}))
			eachOnce(t, seen.Wait(t, 21), 21)
			got := seen.Values()
			is.Equal(got[len(got)-1], 0) // last, since it became visible last
		})
	}
}

// A transaction that the driver repeats publishes once.
func TestTransaction_1_4_RepeatedByTheDriver(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	g := newGroup(t, setup{clients: 1})
	mc := pulsetest.Client(t, func(o *options.ClientOptions) { o.SetAppName("repeated " + g.db.Name()) })
	o := newOutbox(t, g.db, mc, fast(g.db))
	topic := pulse.NewTopic[order]("order.created")
	seen := subscribeAs(t, g, false, topic)
	failures := pulsetest.NewFailPoint(t, pulsetest.Client(t))
	for i, command := range []string{"insert", "commitTransaction"} {
		failures.Set(pulsetest.Failure{AppName: "repeated " + g.db.Name(), Commands: []string{command}, Times: 1, ErrorCode: 112, ErrorLabels: []string{"TransientTransactionError"}})
		calls := 0
		is.NoErr(o.within(t.Context(), func(ctx context.Context) error {
			calls++
			_, err := topic.Publish(ctx, o.Client, order{Number: i})
			return err
		}))
		is.Equal(calls, 2)
		eachOnce(t, seen.Wait(t, i+1), i+1)
	}
}

// A duplicate, or a conflict, is an answer: the caller's transaction can still be committed (spec 1.3).
func TestTransaction_1_3_DuplicatesDoNotEndIt(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	g := newGroup(t, setup{clients: 1})
	o := newOutbox(t, g.db, pulsetest.Client(t), fast(g.db))
	topic, other := pulse.NewTopic[order]("order.created"), pulse.NewTopic[order]("order.paid")
	seen := subscribeAs(t, g, false, topic)
	is.NoErr(second(topic.Publish(t.Context(), o.Client, order{Number: 0}, pulse.WithID("zero"))))
	is.NoErr(o.within(t.Context(), func(ctx context.Context) error {
		again, err := topic.Publish(ctx, o.Client, order{Number: 0}, pulse.WithID("zero"))
		is.NoErr(err)
		is.True(again.Duplicate)
		first, err := topic.Publish(ctx, o.Client, order{Number: 1}, pulse.WithID("one"))
		is.NoErr(err)
		is.True(!first.Duplicate)
		again, err = topic.Publish(ctx, o.Client, order{Number: 1}, pulse.WithID("one")) // its own, not committed
		is.NoErr(err)
		is.True(again.Duplicate)
		is.Equal(again.Topic, topic.Name())
		for _, id := range []string{"zero", "one"} {
			var conflict *pulse.ConflictError
			_, err = topic.Publish(ctx, o.Client, order{Number: 7}, pulse.WithID(id))
			is.True(errors.As(err, &conflict))
			_, err = other.Publish(ctx, o.Client, order{Number: 1}, pulse.WithID(id))
			is.True(errors.As(err, &conflict))
			is.Equal(conflict.StoredTopic, topic.Name())
		}
		many, err := topic.PublishMany(ctx, o.Client, []pulse.Message[order]{
			{Data: order{Number: 0}, ID: "zero"}, {Data: order{Number: 2}, ID: "two"}, {Data: order{Number: 2}, ID: "two"}, {Data: order{Number: 9}, ID: "two"}, {Data: order{Number: 3}},
		})
		is.True(err != nil)
		is.True(strings.Contains(err.Error(), "1 of 5 events were not stored"))
		is.True(many[0].Event.Duplicate && !many[1].Event.Duplicate && many[2].Event.Duplicate && many[3].Event == nil && !many[4].Event.Duplicate)
		_, err = o.orders.InsertOne(ctx, bson.D{{Key: "_id", Value: "mine"}})
		return err
	}))
	eachOnce(t, seen.Wait(t, 4), 4)
	n, err := o.orders.CountDocuments(t.Context(), bson.D{})
	is.NoErr(err)
	is.Equal(n, int64(1))
	// Outside: a duplicate of one that came from a transaction.
	again, err := topic.Publish(t.Context(), o.Client, order{Number: 1}, pulse.WithID("one"))
	is.NoErr(err)
	is.True(again.Duplicate)
}

// What is stored in the end is what a plain publish stores, field by field.
func TestTransaction_1_4_LeavesTheSameDocument(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	db := pulsetest.Database(t)
	o := newOutbox(t, db, pulsetest.Client(t), fast(db))
	topic := pulse.NewTopic[order]("order.created")
	headers := pulse.WithHeaders(map[string]string{"a": "b"})
	plain, err := topic.Publish(t.Context(), o.Client, order{Number: 1}, headers)
	is.NoErr(err)
	var event *pulse.Event[order]
	is.NoErr(o.within(t.Context(), func(ctx context.Context) error {
		event, err = topic.Publish(ctx, o.Client, order{Number: 1}, headers)
		is.NoErr(err)
		raw, err := o.mongo.Database(db.Name()).Collection("orionjs.pulse.events").FindOne(ctx, bson.D{{Key: "_id", Value: event.ID}}).Raw()
		is.NoErr(err)
		is.Equal(shape(t, raw), "_id:string pendingTopic:string data:embedded document publisher:string headers:embedded document createdAt:UTC datetime pendingOrder:64-bit integer expiresAt:UTC datetime")
		return nil
	}))
	pulsetest.Eventually(t, "the event is stamped", func(context.Context) error {
		for _, doc := range events(t, db) {
			if doc.Lookup("sequence").Type != bson.TypeTimestamp {
				return fmt.Errorf("%s is not", doc)
			}
		}
		return nil
	})
	docs := events(t, db)
	is.Equal(docs[0].Lookup("_id").StringValue(), plain.ID)
	is.Equal(docs[1].Lookup("_id").StringValue(), event.ID)
	is.Equal(shape(t, docs[0]), shape(t, docs[1]))
	is.Equal(docs[1].Lookup("topic").StringValue(), "order.created")
	is.True(event.CreatedAt.Equal(docs[1].Lookup("createdAt").Time()))
}

// What cannot be joined is said, and stores nothing; a session without a transaction is none.
func TestTransaction_1_4_Sessions(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	c, db := publisher(t)
	topic := pulse.NewTopic[int]("count")
	foreign := &outbox{Client: c, mongo: db.Client()}
	err := foreign.within(t.Context(), func(ctx context.Context) error {
		_, one := topic.Publish(ctx, c, 1)
		_, many := topic.PublishMany(ctx, c, []pulse.Message[int]{{Data: 1}})
		return errors.Join(one, many)
	})
	is.True(err != nil)
	const text = "pulse: topic count: publish: the context's transaction belongs to another mongo.Client: make the Pulse client with pulse.New on the mongo.Client that began it, or publish with a context without its session; nothing was stored"
	is.Equal(err.Error(), text+"\n"+text)
	is.Equal(len(events(t, db)), 0)

	session, err := db.Client().StartSession()
	is.NoErr(err)
	defer session.EndSession(context.Background())
	is.NoErr(second(topic.Publish(mongo.NewSessionContext(t.Context(), session), c, 1)))
	is.Equal(events(t, db)[0].Lookup("sequence").Type, bson.TypeTimestamp)
}

// Many events of one transaction reach an ordered receiver in their order.
func TestTransaction_4_9_LargeTransactionInOrder(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	g := newGroup(t, setup{clients: 2})
	o := newOutbox(t, g.db, pulsetest.Client(t), fast(g.db))
	topic := pulse.NewTopic[order]("order.created")
	var seen pulsetest.Recorder[int]
	for _, c := range g.clients {
		is.NoErr(second(topic.Subscribe(t.Context(), c, func(_ context.Context, e *pulse.Event[order]) error {
			seen.Add(e.Data.Number)
			return nil
		})))
	}
	const n = 1200
	is.NoErr(o.within(t.Context(), func(ctx context.Context) error {
		messages := make([]pulse.Message[order], n)
		for i := range messages {
			messages[i] = pulse.Message[order]{Data: order{Number: i}}
		}
		_, err := topic.PublishMany(ctx, o.Client, messages)
		return err
	}))
	for i, number := range seen.Wait(t, n) {
		is.Equal(number, i)
	}
}

// A publisher that dies right after its commit is not needed any more: any other client finds the event.
func TestTransaction_3_5_PublisherGoneAfterTheCommit(t *testing.T) {
	everySetup(t, func(t *testing.T, g *group) {
		is := is.New(t)
		config := fast(g.db)
		config.ConsumerGroup, config.ManualStart = "shop", true // never started: it does nothing but insert
		o := newOutbox(t, g.db, pulsetest.Client(t), config)
		topic := pulse.NewTopic[order]("order.created")
		seen := subscribeAs(t, g, false, topic)
		is.NoErr(o.within(t.Context(), func(ctx context.Context) error {
			return second(topic.Publish(ctx, o.Client, order{Number: 0}))
		}))
		is.NoErr(o.Close(t.Context()))
		eachOnce(t, seen.Wait(t, 1), 1)
	})
}
