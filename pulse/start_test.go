package pulse_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/matryer/is"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/orionjs/orion-go/pulse"
	"github.com/orionjs/orion-go/pulse/pulsetest"
	"github.com/orionjs/orion-go/pulse/pulsetest/mongoserver"
)

// manual is a client that waits for Start.
func manual(t *testing.T, change ...func(*pulse.Config)) (*pulse.Client, *mongo.Database) {
	t.Helper()
	return publisher(t, append(change, func(c *pulse.Config) { c.ManualStart = true })...)
}

func TestStart_2_11_ContactsNothingBefore(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	db := pulsetest.Database(t)
	commands := pulsetest.NewCommandMonitor()
	config := fast(db)
	config.ManualStart = true
	c, err := pulse.New(t.Context(), pulsetest.Client(t, commands.Watch), config)
	is.NoErr(err)
	defer func() { is.NoErr(c.Close(context.Background())) }()
	topic := pulse.NewTopic[int]("t")
	seen := pulsetest.Recorder[int]{}
	is.NoErr(second(topic.Subscribe(t.Context(), c, func(_ context.Context, e *pulse.Event[int]) error {
		seen.Add(e.Data)
		return nil
	}, unordered(pulse.OffsetReset(pulse.Earliest))...)))
	batches := pulse.NewTopic[int]("b")
	is.NoErr(second(batches.SubscribeBatch(t.Context(), c, 10, func(_ context.Context, es []*pulse.Event[int]) error {
		seen.Add(es[0].Data)
		return nil
	}, pulse.OffsetReset(pulse.Earliest))))
	is.Equal(commands.String(), "")

	// A client that only publishes needs no start.
	is.NoErr(second(topic.Publish(t.Context(), c, 1)))
	is.Equal(commands.String(), "insert 1")

	is.NoErr(c.Start(t.Context()))
	is.NoErr(second(batches.Publish(t.Context(), c, 2)))
	got := seen.Wait(t, 2)
	is.Equal(got[0]+got[1], 3)
}

func TestStart_2_11_OnlyOnce(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	const text = "pulse: the client has started already: Start is for clients with Config.ManualStart, once"
	c, _ := manual(t)
	is.NoErr(c.Start(t.Context()))
	is.Equal(c.Start(t.Context()).Error(), text)
	started, _ := publisher(t)
	is.Equal(started.Start(t.Context()).Error(), text)
}

func TestStart_2_11_AllProblemsOfAllSubscriptionsAndNothingStored(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	c, db := manual(t)
	storeSubscription(t, db, "b raised", complete(nil))
	storeSubscription(t, db, "c differs", complete(bson.M{"maxRetries": 7, "delivery": "at-most-once"}))
	storeSubscription(t, db, "d differs", complete(bson.M{"ordered": true}))
	for _, topic := range []string{"a new", "c differs", "d differs"} {
		is.NoErr(second(pulse.NewTopic[int](topic).Subscribe(t.Context(), c, ignore[int], unordered()...)))
	}
	is.NoErr(second(pulse.NewTopic[int]("b raised").Subscribe(t.Context(), c, ignore[int], unordered(pulse.ConfigVersion(1))...)))
	const what = ", both with configVersion 0: use the stored value, or raise ConfigVersion to change it for all replicas"
	want := []string{
		"topic c differs, group billing: delivery: stored at-most-once, here at-least-once" + what,
		"topic c differs, group billing: maxRetries: stored 7, here 3" + what,
		"topic d differs, group billing: ordered: stored true, here false" + what,
	}
	is.Equal(problemsOf(t, c.Start(t.Context())), want)
	is.Equal(problemsOf(t, c.Start(t.Context())), want) // it can be repeated
	n, err := db.Collection("orionjs.pulse.subscriptions").CountDocuments(t.Context(), bson.D{})
	is.NoErr(err)
	is.Equal(n, int64(3)) // the new one was not created, although its turn came before
	is.Equal(storedSubscription(t, db, "billing", "b raised").Lookup("configVersion").AsInt64(), int64(0))

	// Mended, it starts, and serves all of them.
	_, err = db.Collection("orionjs.pulse.subscriptions").DeleteMany(t.Context(), bson.D{{Key: "topic", Value: bson.D{{Key: "$in", Value: bson.A{"c differs", "d differs"}}}}})
	is.NoErr(err)
	is.NoErr(c.Start(t.Context()))
	for _, topic := range []string{"a new", "b raised", "c differs", "d differs"} {
		is.NoErr(second(pulse.NewTopic[int](topic).Publish(t.Context(), c, 1)))
		ended(t, db, "billing", topic, "v2-success", 1)
	}
}

// An index that stands in the way is an *IndexError that says what to run; then the same client starts.
func TestStart_6_1_IndexConflict(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	c, db := manual(t)
	collection := db.Collection("orionjs.pulse.deliveries")
	_, err := collection.Indexes().CreateOne(t.Context(), mongo.IndexModel{
		Keys:    bson.D{{Key: "consumerGroup", Value: 1}, {Key: "eventId", Value: 1}}, // not unique
		Options: options.Index().SetName("pulse_deliveries_group_event_unique"),
	})
	is.NoErr(err)
	topic := pulse.NewTopic[int]("t")
	is.NoErr(second(topic.Subscribe(t.Context(), c, ignore[int], unordered()...)))

	check := func(err error) {
		t.Helper()
		var wrong *pulse.IndexError
		is.True(errors.As(err, &wrong))
		is.Equal(wrong.Database, db.Name())
		is.Equal(len(wrong.Problems), 1)
		is.Equal(wrong.Problems[0].Index, "pulse_deliveries_group_event_unique")
		is.True(strings.Contains(wrong.Problems[0].Commands[0], "dropIndex"))
	}
	check(c.Start(t.Context()))
	n, err := db.Collection("orionjs.pulse.subscriptions").CountDocuments(t.Context(), bson.D{})
	is.NoErr(err)
	is.Equal(n, int64(0)) // nothing was begun

	started, err := pulse.New(t.Context(), db.Client(), fast(db))
	check(err)
	is.True(started == nil)
	started, err = pulse.Connect(t.Context(), withPath(t, db.Name(), ""), pulse.Config{ConsumerGroup: "billing"})
	check(err)
	is.True(started == nil)

	is.NoErr(collection.Indexes().DropOne(t.Context(), "pulse_deliveries_group_event_unique"))
	is.NoErr(c.Start(t.Context()))
	is.NoErr(second(topic.Publish(t.Context(), c, 1)))
	ended(t, db, "billing", "t", "v2-success", 1)
}

func TestStart_2_11_AfterTheServerWasOutOfReach(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	db := pulsetest.Database(t)
	wire := pulsetest.NewProxy(t)
	config := fast(db)
	config.ManualStart = true
	c, err := pulse.New(t.Context(), pulsetest.Client(t, wire.Use, func(o *options.ClientOptions) {
		o.SetServerSelectionTimeout(1000 * 1000 * 100) // 100 ms: it is down, not slow
		o.SetHeartbeatInterval(1000 * 1000 * 500)
	}), config)
	is.NoErr(err)
	defer func() { is.NoErr(c.Close(context.Background())) }()
	wire.Cut()
	pulsetest.Eventually(t, "a start that fails", func(ctx context.Context) error {
		if err := c.Start(ctx); err == nil {
			return errors.New("it started")
		}
		return nil
	})
	wire.Restore()
	pulsetest.Eventually(t, "a start that works", c.Start)
}

// A standalone server has no transactions, and so no batches; single events work.
func TestSubscribeBatch_3_3_StandaloneServerIsRefused(t *testing.T) {
	t.Parallel()
	pulsetest.URI(t) // not under -short
	is := is.New(t)
	server, err := mongoserver.Start(t.Context(), mongoserver.Options{Standalone: true})
	is.NoErr(err)
	defer func() { is.NoErr(server.Stop()) }()
	const text = "batches need transactions, and this server is a standalone one: run MongoDB as a replica set (one member is enough), or subscribe to single events"

	config := pulse.Config{ConsumerGroup: "billing", Database: "d", ManualStart: true, Logger: fast(pulsetest.Database(t)).Logger}
	c, err := pulse.Connect(t.Context(), server.URI(), config)
	is.NoErr(err)
	is.NoErr(second(pulse.NewTopic[int]("a").SubscribeBatch(t.Context(), c, 10, ignoreBatch[int])))
	is.NoErr(second(pulse.NewTopic[int]("b").SubscribeBatch(t.Context(), c, 10, ignoreBatch[int])))
	is.Equal(problemsOf(t, c.Start(t.Context())), []string{"topic a: " + text, "topic b: " + text})
	is.NoErr(c.Close(t.Context()))

	config.ManualStart = false
	c, err = pulse.Connect(t.Context(), server.URI(), config)
	is.NoErr(err)
	_, err = pulse.NewTopic[int]("a").SubscribeBatch(t.Context(), c, 10, ignoreBatch[int])
	is.Equal(problemsOf(t, err), []string{"topic a: " + text})
	seen := pulsetest.Recorder[int]{}
	is.NoErr(second(pulse.NewTopic[int]("a").Subscribe(t.Context(), c, func(_ context.Context, e *pulse.Event[int]) error {
		seen.Add(e.Data)
		return nil
	}, unordered()...)))
	is.NoErr(second(pulse.NewTopic[int]("a").Publish(t.Context(), c, 5)))
	is.Equal(seen.Wait(t, 1)[0], 5)
	is.NoErr(c.Close(t.Context()))
}
