package pulse_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/matryer/is"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"golang.org/x/sync/errgroup"

	"github.com/orionjs/orion-go/pulse"
	"github.com/orionjs/orion-go/pulse/pulsetest"
)

// subscribeAs subscribes all clients of the group as single or batch receivers, and records the numbers of
// the events.
func subscribeAs(t *testing.T, g *group, batch bool, topic pulse.Topic[order]) *pulsetest.Recorder[int] {
	t.Helper()
	is := is.New(t)
	seen := &pulsetest.Recorder[int]{}
	for _, c := range g.clients {
		var err error
		if batch {
			_, err = topic.SubscribeBatch(t.Context(), c, 10, func(_ context.Context, es []*pulse.Event[order]) error {
				for _, e := range es {
					seen.Add(e.Data.Number)
				}
				return nil
			})
		} else {
			_, err = topic.Subscribe(t.Context(), c, func(_ context.Context, e *pulse.Event[order]) error {
				seen.Add(e.Data.Number)
				return nil
			}, unordered()...)
		}
		is.NoErr(err)
	}
	return seen
}

// eachOnce checks that the numbers below n were seen, each once.
func eachOnce(t *testing.T, seen []int, n int) {
	t.Helper()
	times := make([]int, n)
	for _, number := range seen {
		times[number]++
	}
	for number, count := range times {
		if count != 1 {
			t.Errorf("event %d was handled %d times", number, count)
		}
	}
}

// Events of several publishers become visible in another order than they were numbered: none may fall
// behind the cursor for good.
func TestLookBack_3_5_ManyPublishersAtOnce(t *testing.T) {
	everySetup(t, func(t *testing.T, g *group) {
		for _, batch := range []bool{false, true} {
			t.Run(fmt.Sprint("batch=", batch), func(t *testing.T) {
				is := is.New(t)
				const publishers, each = 24, 25
				topic := pulse.NewTopic[order](fmt.Sprint("order.created.", batch))
				seen := subscribeAs(t, g, batch, topic)
				all, ctx := errgroup.WithContext(t.Context())
				for p := range publishers {
					c := g.clients[p%len(g.clients)]
					all.Go(func() error {
						for i := range each {
							if _, err := topic.Publish(ctx, c, order{Number: p*each + i}); err != nil {
								return err
							}
						}
						return nil
					})
				}
				is.NoErr(all.Wait())
				eachOnce(t, seen.Wait(t, publishers*each), publishers*each)
			})
		}
	})
}

// insertForeign inserts an event as a foreign writer does that lets the server number it at once, inside a
// transaction of its own.
func insertForeign(ctx context.Context, g *group, topic string, number int) error {
	_, err := g.db.Collection("orionjs.pulse.events").InsertOne(ctx, bson.D{
		{Key: "_id", Value: uuid.NewString()},
		{Key: "topic", Value: topic},
		{Key: "data", Value: order{Number: number}},
		{Key: "createdAt", Value: time.Now()},
		{Key: "sequence", Value: bson.Timestamp{}},
	})
	return err
}

// The event is numbered when the transaction writes it and visible when it commits, while the cursors of several
// groups go on; meanwhile the leader of one of them closes, and a client starts anew.
func TestLookBack_3_5_TransactionHeldOpen(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"single", "batch", "ordered"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			// Polling only, since the test server holds streams back meanwhile; the window is longer than
			// this test takes on the slowest machine.
			db := pulsetest.Database(t)
			topic := pulse.NewTopic[order]("order.created")
			groups := map[string]*pulsetest.Recorder[int]{"billing": {}, "audit": {}}
			start := func(name string) *pulse.Client {
				config := fast(db)
				config.ConsumerGroup, config.DisableChangeStreams, config.LookBack = name, true, 5*time.Minute
				c := newClient(t, db, config)
				one := func(_ context.Context, e *pulse.Event[order]) error {
					groups[name].Add(e.Data.Number)
					return nil
				}
				many := func(ctx context.Context, es []*pulse.Event[order]) error {
					for _, e := range es {
						groups[name].Add(e.Data.Number)
					}
					return nil
				}
				switch kind {
				case "single":
					is.NoErr(second(topic.Subscribe(t.Context(), c, one, unordered()...)))
				case "batch":
					is.NoErr(second(topic.SubscribeBatch(t.Context(), c, 10, many)))
				default:
					is.NoErr(second(topic.Subscribe(t.Context(), c, one)))
				}
				return c
			}
			first, publisher := start("billing"), newClient(t, db, fast(db))
			start("billing")
			start("audit")
			publish := func(number int) {
				is.NoErr(second(topic.Publish(t.Context(), publisher, order{Number: number})))
				for _, seen := range groups {
					seen.Wait(t, number+1) // consumed, and the cursor moved on
				}
			}
			publish(0)
			session, err := db.Client().StartSession()
			is.NoErr(err)
			defer session.EndSession(context.Background())
			const late = 12
			is.NoErr(mongo.WithSession(t.Context(), session, func(ctx context.Context) error {
				if err := session.StartTransaction(); err != nil {
					return err
				}
				if err := insertForeign(ctx, &group{db: db}, topic.Name(), late); err != nil {
					return err
				}
				for i := range late - 1 {
					publish(1 + i)
					switch i {
					case 3:
						closeClient(t, first)
					case 7:
						start("billing")
					}
				}
				return session.CommitTransaction(ctx)
			}))
			for _, seen := range groups {
				eachOnce(t, seen.Wait(t, late+1), late+1)
			}
		})
	}
}

// When all is settled, a poll does not look behind the cursor any more, and successes may be deleted.
func TestLookBack_3_5_IdleTopicsSettle(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	db := pulsetest.Database(t)
	config := fast(db)
	config.LookBack = time.Second
	g := &group{db: db, clients: []*pulse.Client{newClient(t, db, config)}}
	topic := pulse.NewTopic[order]("order.created")
	seen := subscribeAs(t, g, false, topic)
	is.NoErr(second(topic.Publish(t.Context(), g.clients[0], order{})))
	seen.Wait(t, 1)
	pulsetest.Eventually(t, "the subscription is settled up to its cursor", func(ctx context.Context) error {
		sub := storedSubscription(t, db, "billing", topic.Name())
		settled, cursor := sub.Lookup("settledSequence"), sub.Lookup("cursorSequence")
		if !settled.Equal(cursor) {
			return fmt.Errorf("settled %v, cursor %v", settled, cursor)
		}
		return nil
	})
}
