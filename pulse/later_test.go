package pulse_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"
	"go.mongodb.org/mongo-driver/v2/bson"
	"golang.org/x/sync/errgroup"

	"github.com/orionjs/orion-go/pulse"
	"github.com/orionjs/orion-go/pulse/pulsetest"
)

// soon is long enough to see an event wait, and short enough to wait for it.
const soon = 400 * time.Millisecond

// arrival is an event and when its handler got it.
type arrival struct {
	event *pulse.Event[order]
	at    time.Time
}

// arrivals subscribes all clients to deliverOrders.
func (g *group) arrivals(t *testing.T, opts ...pulse.SubscribeOption) *pulsetest.Recorder[arrival] {
	t.Helper()
	var seen pulsetest.Recorder[arrival]
	for _, c := range g.clients {
		is.New(t).NoErr(second(deliverOrders.Subscribe(t.Context(), c, func(_ context.Context, e *pulse.Event[order]) error {
			seen.Add(arrival{e, time.Now()})
			return nil
		}, unordered(opts...)...)))
	}
	return &seen
}

// An event is invisible until it is due, whoever published it, and is then delivered like any other. Its retention
// counts from that time.
func TestPublishLater_9_1_DeliveredWhenDue(t *testing.T) {
	everySetup(t, func(t *testing.T, g *group) {
		is := is.New(t)
		seen := g.arrivals(t)
		due := time.Now().Add(soon)
		e, err := deliverOrders.Publish(t.Context(), g.clients[0], order{Number: 1}, pulse.NotBefore(due), pulse.WithHeaders(map[string]string{"a": "b"}))
		is.NoErr(err)
		// Never too early: rounded up to the milliseconds that are stored.
		is.True(!e.NotBefore.Before(due) && e.NotBefore.Sub(due) < time.Millisecond)
		is.True(e.CreatedAt.Before(due))
		is.Equal(e.ExpiresAt, e.NotBefore.Add(7*24*time.Hour))

		waits, err := deliverOrders.Publish(t.Context(), g.clients[0], order{Number: 3}, pulse.NotBefore(due.Add(time.Hour)))
		is.NoErr(err)
		doc := only(t, eventsOf(g.db), bson.D{{Key: "_id", Value: waits.ID}})
		is.Equal(doc.Lookup("sequence").Type, bson.Type(0))
		is.Equal(doc.Lookup("pendingTopic").StringValue(), "order.created")
		is.Equal(doc.Lookup("notBefore").Time().UTC(), waits.NotBefore)
		is.True(doc.Lookup("topic").Type != bson.TypeString) // no reader sees it

		published(t, deliverOrders, g.clients[0], 2)
		for _, a := range seen.Wait(t, 2) {
			if a.event.Data.Number == 2 {
				continue
			}
			is.True(!a.at.Before(e.NotBefore))
			want := *e
			want.ConsumerGroup, want.Attempt = "billing", 1
			is.Equal(*a.event, want) // 1.5
		}
		g.close(t)
		is.Equal(seen.Len(), 2)
	})
}

// Many at once, for several times: each in its time, those of one time in the order of their publication.
func TestPublishLater_9_1_ManyInTheOrderOfTheirTimes(t *testing.T) {
	everySetup(t, func(t *testing.T, g *group) {
		is := is.New(t)
		var seen pulsetest.Recorder[int]
		for _, c := range g.clients {
			is.NoErr(second(deliverOrders.Subscribe(t.Context(), c, func(_ context.Context, e *pulse.Event[order]) error {
				if time.Now().Before(e.NotBefore) {
					t.Errorf("%d came too early", e.Data.Number)
				}
				seen.Add(e.Data.Number)
				return nil
			})))
		}
		at := time.Now().Add(soon)
		results, err := deliverOrders.PublishMany(t.Context(), g.clients[0], []pulse.Message[order]{
			{Data: order{Number: 5}, NotBefore: at.Add(1000 * time.Hour)},
			{Data: order{Number: 1}},
			{Data: order{Number: 2}, NotBefore: at},
			{Data: order{Number: 3}, NotBefore: at},
			{Data: order{Number: 4}, NotBefore: at.Add(soon)},
		})
		is.NoErr(err)
		is.True(results[1].Event.NotBefore.IsZero())
		is.Equal(seen.Wait(t, 4), []int{1, 2, 3, 4})
		is.Equal(len(mustFind(t, eventsOf(g.db), bson.D{{Key: "pendingTopic", Value: "order.created"}})), 1) // the last one waits
	})
}

// The publisher is gone before the time, and publishes only: any client with subscriptions sees to the event, also
// one that comes later, whose subscription begins at the newest event.
func TestPublishLater_9_1_WithoutThePublisher(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	db := pulsetest.Database(t)
	config := fast(db)
	config.ConsumerGroup = "shop"
	c := startClient(t, config)
	// Late enough that the others have started by then, also on a busy machine.
	e, err := deliverOrders.Publish(t.Context(), c, order{Number: 1}, pulse.NotBefore(time.Now().Add(15*time.Second)))
	is.NoErr(err)
	closeClient(t, c)
	config.ConsumerGroup = "other topics"
	is.NoErr(second(pulse.NewTopic[order]("order.shipped").Subscribe(t.Context(), startClient(t, config), ignore[order])))
	g := &group{db: db, clients: []*pulse.Client{startClient(t, fast(db))}}
	seen := g.arrivals(t)
	is.Equal(seen.Wait(t, 1)[0].event.ID, e.ID)
}

// A client that only publishes sees to its events itself, as long as it is there.
func TestPublishLater_9_1_ByAClientThatOnlyPublishes(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	c, db := publisher(t)
	e, err := deliverOrders.Publish(t.Context(), c, order{Number: 1}, pulse.NotBefore(time.Now().Add(soon)))
	is.NoErr(err)
	eventually(t, 1, eventsOf(db), bson.D{{Key: "_id", Value: e.ID}, {Key: "topic", Value: "order.created"}, {Key: "pendingTopic", Value: nil}})
}

// In a transaction the event waits for the commit and for its time, whichever is later; after a rollback nothing is left.
func TestPublishLater_9_1_InATransaction(t *testing.T) {
	everySetup(t, func(t *testing.T, g *group) {
		is := is.New(t)
		config := fast(g.db)
		config.ConsumerGroup = "shop"
		o := newOutbox(t, g.db, pulsetest.Client(t), config)
		seen := g.arrivals(t)
		publish := func(ctx context.Context, number int, at time.Time) {
			is.NoErr(second(deliverOrders.Publish(ctx, o.Client, order{Number: number}, pulse.NotBefore(at))))
		}
		err := o.within(t.Context(), func(ctx context.Context) error {
			publish(ctx, 1, time.Now().Add(soon))
			return errRollBack
		})
		is.True(errors.Is(err, errRollBack))
		var due time.Time
		is.NoErr(o.within(t.Context(), func(ctx context.Context) error {
			due = time.Now().Add(soon)
			publish(ctx, 2, due)
			passed := time.Now().Add(50 * time.Millisecond)
			publish(ctx, 3, passed)
			pause(ctx, time.Until(passed)) // its time comes before the commit
			return nil
		}))
		for _, a := range seen.Wait(t, 2) {
			is.True(a.event.Data.Number != 1)
			is.True(a.event.Data.Number == 3 || !a.at.Before(due))
		}
		g.close(t)
		is.Equal(seen.Len(), 2)
	})
}

// The same ID again, before the time and after it, returns the event as it was published first.
func TestPublishLater_1_3_AgainUnderTheSameID(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	c, db := publisher(t)
	publish := func(opts ...pulse.PublishOption) *pulse.Event[order] {
		e, err := deliverOrders.Publish(t.Context(), c, order{Number: 1}, append(opts, pulse.WithID("reminder"))...)
		is.NoErr(err)
		return e
	}
	want := publish(pulse.NotBefore(time.Now().Add(soon)))
	is.True(!want.Duplicate)
	want.Duplicate = true
	is.Equal(publish(), want)
	is.Equal(publish(pulse.NotBefore(time.Now().Add(time.Hour))), want)
	eventually(t, 1, eventsOf(db), bson.D{{Key: "topic", Value: "order.created"}})
	is.Equal(publish(), want)
	is.Equal(len(events(t, db)), 1)
}

// What was published for a later time can be taken back until then.
func TestPublishLater_9_1_Cancel(t *testing.T) {
	everySetup(t, func(t *testing.T, g *group) {
		is := is.New(t)
		seen := g.arrivals(t)
		publish := func(number int, opts ...pulse.PublishOption) string {
			return published(t, deliverOrders, g.clients[0], number, opts...)
		}
		cancel := func(c *pulse.Client, id string) bool {
			cancelled, err := c.CancelScheduled(t.Context(), id)
			is.NoErr(err)
			return cancelled
		}
		first := publish(1, pulse.NotBefore(time.Now().Add(time.Hour)), pulse.UniqueKey("reminder"))
		is.True(cancel(g.clients[len(g.clients)-1], first)) // by another client
		is.True(!cancel(g.clients[0], first))               // again
		is.True(!cancel(g.clients[0], "unknown"))
		is.Equal(publish(2, pulse.NotBefore(time.Now().Add(soon)), pulse.UniqueKey("reminder")), first) // its key is free
		at := publish(3)
		seen.Wait(t, 2)
		is.True(!cancel(g.clients[0], at))    // published at once
		is.True(!cancel(g.clients[0], first)) // published by now
		g.close(t)
		for _, a := range seen.Values() {
			is.True(a.event.Data.Number != 1)
		}
		_, err := g.clients[0].CancelScheduled(t.Context(), first)
		is.True(errors.Is(err, pulse.ErrClosed))
	})
}

// A cancellation is part of the caller's transaction.
func TestPublishLater_9_1_CancelInATransaction(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	db := pulsetest.Database(t)
	o := newOutbox(t, db, pulsetest.Client(t), fast(db))
	id := published(t, deliverOrders, o.Client, 1, pulse.NotBefore(time.Now().Add(time.Hour)))
	cancel := func(end error) error {
		return o.within(t.Context(), func(ctx context.Context) error {
			cancelled, err := o.CancelScheduled(ctx, id)
			is.NoErr(err)
			is.True(cancelled)
			return end
		})
	}
	is.True(errors.Is(cancel(errRollBack), errRollBack))
	is.Equal(len(events(t, db)), 1)
	is.NoErr(cancel(nil))
	is.Equal(len(events(t, db)), 0)
}

// A time that has come publishes at once; one that cannot be meant is refused.
func TestPublishLater_1_6_Times(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	c, db := publisher(t)
	for _, past := range []time.Time{time.Now().Add(-time.Hour), time.Unix(0, 0), time.Now().Add(-time.Nanosecond)} {
		e, err := deliverOrders.Publish(t.Context(), c, order{}, pulse.NotBefore(past))
		is.NoErr(err)
		is.True(e.NotBefore.IsZero())
		is.Equal(e.ExpiresAt, e.CreatedAt.Add(7*24*time.Hour))
	}
	is.Equal(len(mustFind(t, eventsOf(db), bson.D{{Key: "topic", Value: "order.created"}})), 3)
	const range9999 = "the year must be from 1 to 9999: is the time made of milliseconds as if they were seconds?"
	for at, want := range map[time.Time]string{
		{}:                                   "NotBefore has the zero time: give a time, or leave it out to publish at once",
		time.Unix(time.Now().UnixMilli(), 0): range9999,
		time.Unix(math.MaxInt64, 0):          range9999,
		time.Unix(math.MinInt64, 0):          range9999,
		time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC): range9999,
	} {
		_, err := deliverOrders.Publish(t.Context(), c, order{}, pulse.NotBefore(at))
		var invalid *pulse.InvalidEventError
		is.True(errors.As(err, &invalid))
		is.True(strings.Contains(err.Error(), want))
	}
	is.Equal(len(events(t, db)), 3)
}

// Publishers that meet at one key store one event, in whatever way they publish, and each gets it.
func TestPublish_1_3_UniqueKey(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	db := pulsetest.Database(t)
	o := newOutbox(t, db, pulsetest.Client(t), fast(db))
	c := o.Client
	var got pulsetest.Recorder[*pulse.Event[order]]
	var publishers errgroup.Group
	for i := range 9 {
		publishers.Go(func() error {
			data := order{Number: i} // whatever the data
			switch i % 3 {
			case 0:
				e, err := deliverOrders.Publish(t.Context(), c, data, pulse.UniqueKey("report/2030-01"))
				got.Add(e)
				return err
			case 1:
				results, err := deliverOrders.PublishMany(t.Context(), c, []pulse.Message[order]{
					{Data: data, UniqueKey: "report/2030-01"}, {Data: data}, {Data: order{Number: 10 + i}, UniqueKey: "report/2030-01"},
				})
				got.Add(results[0].Event, results[2].Event)
				return err
			default:
				return o.within(t.Context(), func(ctx context.Context) error {
					e, err := deliverOrders.Publish(ctx, c, data, pulse.UniqueKey("report/2030-01"))
					if err == nil && e.Duplicate { // else the transaction may be tried again
						got.Add(e)
					}
					return err
				})
			}
		})
	}
	is.NoErr(publishers.Wait())
	again, err := deliverOrders.Publish(t.Context(), c, order{Number: 99}, pulse.UniqueKey("report/2030-01"))
	is.NoErr(err)
	is.True(again.Duplicate)
	first := 0
	for _, e := range got.Values() {
		is.Equal(e.ID, again.ID)
		is.Equal(e.Data, again.Data)
		if !e.Duplicate {
			first++
		}
	}
	is.True(first <= 1)
	is.Equal(len(events(t, db)), 1+3) // and those without a key

	// Another key, or topic, is another event; the ID follows from both alone, for clients of all releases.
	is.True(published(t, deliverOrders, c, 1, pulse.UniqueKey("report/2030-02")) != again.ID)
	is.True(published(t, pulse.NewTopic[order]("order.shipped"), c, 1, pulse.UniqueKey("report/2030-01")) != again.ID)
	is.Equal(again.ID, "2e012c4c-56de-881b-9853-01a04395ae95")
	is.Equal(len(events(t, db)), 1+3+2)

	for want, opts := range map[string][]pulse.PublishOption{
		"the unique key is empty: name what may be published once, or leave UniqueKey out":            {pulse.UniqueKey("")},
		`the unique key "\xff" is not valid UTF-8`:                                                    {pulse.UniqueKey("\xff")},
		`both UniqueKey("k") and WithID("i") are given, and the key makes the ID: remove one of them`: {pulse.UniqueKey("k"), pulse.WithID("i")},
	} {
		_, err := deliverOrders.Publish(t.Context(), c, order{}, opts...)
		var invalid *pulse.InvalidEventError
		is.True(errors.As(err, &invalid))
		is.True(strings.Contains(err.Error(), want))
	}
}

// What nobody can stamp, since somebody has changed it by hand or the server refuses it, is looked at less and less often.
func TestPublishLater_9_1_NothingSpinsForWhatCannotBeStamped(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	db := pulsetest.Database(t)
	now := time.Now()
	for _, doc := range []bson.D{
		{{Key: "_id", Value: "postponed"}, {Key: "topic", Value: now}, {Key: "notBefore", Value: now.Add(time.Hour)}, {Key: "pendingTopic", Value: "order.created"}},
		{{Key: "_id", Value: "refused"}, {Key: "topic", Value: now}, {Key: "notBefore", Value: now}, {Key: "createdAt", Value: now}, {Key: "pendingTopic", Value: "order.created"}, {Key: "$bad", Value: 1}},
	} {
		_, err := eventsOf(db).InsertOne(t.Context(), doc)
		is.NoErr(err)
	}
	commands := pulsetest.NewCommandMonitor()
	config := fast(db)
	config.PollInterval = never
	c := startClient(t, config, commands.Watch)
	is.NoErr(second(deliverOrders.Subscribe(t.Context(), c, func(context.Context, *pulse.Event[order]) error { return nil }, unordered()...)))
	published(t, deliverOrders, c, 1, pulse.NotBefore(time.Now().Add(soon))) // from now on it is there at the moment
	eventually(t, 1, eventsOf(db), bson.D{{Key: "topic", Value: "order.created"}})
	commands.Reset()
	<-time.After(3 * time.Second) // a rate needs its time; a slow machine only lowers it
	t.Log(commands)
	is.True(commands.Count("aggregate") <= 20)
}
