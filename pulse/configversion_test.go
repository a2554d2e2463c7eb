package pulse_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/matryer/is"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/orionjs/orion-go/pulse"
	"github.com/orionjs/orion-go/pulse/pulsetest"
)

// logged records log lines as "LEVEL message key=value ...".
type logged struct{ pulsetest.Recorder[string] }

func (l *logged) Enabled(context.Context, slog.Level) bool { return true }
func (l *logged) WithAttrs([]slog.Attr) slog.Handler       { return l }
func (l *logged) WithGroup(string) slog.Handler            { return l }
func (l *logged) Handle(_ context.Context, r slog.Record) error {
	line := r.Level.String() + " " + r.Message
	r.Attrs(func(a slog.Attr) bool {
		line += " " + a.String()
		return true
	})
	l.Add(line)
	return nil
}

// store puts a subscription into the database as another implementation, or another version, left it.
func storeSubscription(t *testing.T, db *mongo.Database, topic string, settings bson.D) {
	t.Helper()
	doc := append(bson.D{
		{Key: "_id", Value: "s-" + topic},
		{Key: "consumerGroup", Value: "billing"},
		{Key: "topic", Value: topic},
		{Key: "createdAt", Value: time.Now()},
		{Key: "updatedAt", Value: time.Now()},
	}, settings...)
	_, err := db.Collection("orionjs.pulse.subscriptions").InsertOne(t.Context(), doc)
	is.New(t).NoErr(err)
}

// complete is what a subscription stores, before changes; a nil value leaves a field out.
func complete(changes bson.M) bson.D {
	var d bson.D
	for _, e := range []bson.E{
		{Key: "configVersion", Value: int32(0)},
		{Key: "executionVersion", Value: int32(2)},
		{Key: "ordered", Value: false},
		{Key: "offsetReset", Value: "latest"},
		{Key: "delivery", Value: "at-least-once"},
		{Key: "maxRetries", Value: int32(3)},
		{Key: "retryDelayMs", Value: int32(1000)},
		{Key: "retryBackoffMultiplier", Value: int32(2)},
		{Key: "receiverMode", Value: "single"},
		{Key: "batchSize", Value: int32(1)},
	} {
		if value, changed := changes[e.Key]; changed {
			e.Value = value
		}
		if e.Value != nil {
			d = append(d, e)
		}
	}
	return d
}

func TestSettings_2_6_SameVersionNamesEachDifference(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	c, db := publisher(t)
	storeSubscription(t, db, "t", complete(bson.M{
		"configVersion": 4, "executionVersion": 1, "ordered": true, "offsetReset": "earliest", "delivery": "at-most-once",
		"maxRetries": 7, "retryDelayMs": 250.5, "retryBackoffMultiplier": 1.5, "receiverMode": "single", "batchSize": 1,
	}))
	_, err := pulse.NewTopic[int]("t").SubscribeBatch(t.Context(), c, 50, ignoreBatch[int], pulse.ConfigVersion(4))
	const what = ", both with configVersion 4: use the stored value, or raise ConfigVersion to change it for all replicas"
	is.Equal(problemsOf(t, err), []string{
		"topic t, group billing: executionVersion: stored 1, here 2" + what,
		"topic t, group billing: ordered: stored true, here false" + what,
		"topic t, group billing: offsetReset: stored earliest, here latest, both with configVersion 4: it counted when the subscription was created, and never again: use the stored value, or raise ConfigVersion to have this one stored; a group that is to begin elsewhere needs another name",
		"topic t, group billing: delivery: stored at-most-once, here at-least-once" + what,
		"topic t, group billing: maxRetries: stored 7, here 3" + what,
		"topic t, group billing: retryDelayMs: stored 250.5, here 1000" + what,
		"topic t, group billing: retryBackoffMultiplier: stored 1.5, here 2" + what,
		"topic t, group billing: receiverMode: stored single, here batch" + what,
		"topic t, group billing: batchSize: stored 1, here 50" + what,
	})
	is.Equal(len(c.Subscriptions()), 0)
	is.Equal(settingsOf(storedSubscription(t, db, "billing", "t")), `{"configVersion": 4, "executionVersion": 1, "ordered": true, "offsetReset": "earliest", "delivery": "at-most-once", "maxRetries": 7, "retryDelayMs": 250.5, "retryBackoffMultiplier": 1.5, "receiverMode": "single", "batchSize": 1}`)
}

// The stored settings are those of this handler: numbers of any type, and what is missing or null.
func TestSettings_2_6_WhatMatches(t *testing.T) {
	t.Parallel()
	c, db := publisher(t)
	for i, test := range []struct {
		name   string
		stored bson.D
		batch  int
	}{
		{"equal", complete(nil), 0},
		{"doubles", complete(bson.M{"configVersion": 0.0, "executionVersion": 2.0, "maxRetries": 3.0, "retryDelayMs": 1000.0, "retryBackoffMultiplier": 2.0, "batchSize": 1.0}), 0},
		{"int64", complete(bson.M{"configVersion": int64(0), "executionVersion": int64(2), "maxRetries": int64(3), "retryDelayMs": int64(1000), "retryBackoffMultiplier": int64(2), "batchSize": int64(1)}), 0},
		{"nothing stored", nil, 0},
		{"version missing", complete(bson.M{"configVersion": nil}), 0},
		{"retry settings missing", complete(bson.M{"maxRetries": nil, "retryDelayMs": nil, "retryBackoffMultiplier": nil}), 0},
		{"null reads as absent", bson.D{{Key: "configVersion", Value: nil}, {Key: "ordered", Value: nil}, {Key: "maxRetries", Value: nil}, {Key: "receiverMode", Value: nil}, {Key: "delivery", Value: nil}}, 0},
		{"wrong types read as absent", bson.D{{Key: "configVersion", Value: "x"}, {Key: "ordered", Value: "yes"}, {Key: "maxRetries", Value: bson.A{}}, {Key: "receiverMode", Value: 7}, {Key: "delivery", Value: true}}, 0},
		{"Node, single: a mode and no order", complete(bson.M{"ordered": nil, "executionVersion": nil}), 0},
		{"Node, single, without size", complete(bson.M{"ordered": nil, "executionVersion": nil, "batchSize": nil}), 0},
		{"Node, batch", complete(bson.M{"ordered": nil, "executionVersion": nil, "receiverMode": "batch", "batchSize": 20.0}), 20},
		{"batch wins over ordered", complete(bson.M{"ordered": true, "executionVersion": 1, "receiverMode": "batch", "batchSize": 20}), 20},
	} {
		t.Run(test.name, func(t *testing.T) {
			is := is.New(t)
			topic := pulse.NewTopic[int](fmt.Sprint("t", i))
			storeSubscription(t, db, topic.Name(), append(test.stored, bson.E{Key: "cursorSequence", Value: bson.Timestamp{T: 1, I: 1}}))
			seen := pulsetest.Recorder[int]{}
			var sub *pulse.Subscription
			var err error
			if test.batch > 0 {
				sub, err = topic.SubscribeBatch(t.Context(), c, test.batch, func(_ context.Context, es []*pulse.Event[int]) error {
					seen.Add(es[0].Data)
					return nil
				})
			} else {
				sub, err = topic.Subscribe(t.Context(), c, func(_ context.Context, e *pulse.Event[int]) error {
					seen.Add(e.Data)
					return nil
				}, unordered()...)
			}
			is.NoErr(err)
			is.Equal(sub.Info(), pulse.SubscriptionInfo{
				Topic: topic.Name(), ConsumerGroup: "billing", Batch: test.batch > 0, BatchSize: max(test.batch, 1), MaxConcurrency: 4,
				OffsetReset: pulse.Latest, DeliveryMode: pulse.AtLeastOnce,
				MaxRetries: 3, RetryDelay: time.Second, RetryBackoffMultiplier: 2, ExecutionVersion: 2,
			})
			is.NoErr(second(topic.Publish(t.Context(), c, 7)))
			is.Equal(seen.Wait(t, 1)[0], 7) // it works with the document as it is
		})
	}
}

func TestSettings_2_6_HigherVersionReplacesAll(t *testing.T) {
	t.Parallel()
	c, db := publisher(t)
	for name, stored := range map[string]bson.D{
		"version 0":          complete(nil),
		"version 4":          complete(bson.M{"configVersion": 4}),
		"double":             complete(bson.M{"configVersion": 4.0}),
		"version missing":    complete(bson.M{"configVersion": nil}),
		"null version":       append(complete(bson.M{"configVersion": nil}), bson.E{Key: "configVersion", Value: nil}),
		"almost nothing":     {{Key: "somebody's", Value: "own"}},
		"version 1, ordered": complete(bson.M{"executionVersion": 1, "ordered": true}),
		"Node, batch":        complete(bson.M{"ordered": nil, "executionVersion": nil, "receiverMode": "batch", "batchSize": 20}),
	} {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			topic := pulse.NewTopic[int](name)
			storeSubscription(t, db, name, stored)
			_, err := topic.SubscribeBatch(t.Context(), c, 30, ignoreBatch[int], pulse.ConfigVersion(5), pulse.DeliveryMode(pulse.AtMostOnce),
				pulse.OffsetReset(pulse.Earliest), pulse.RetryDelay(0), pulse.RetryBackoffMultiplier(3))
			is.NoErr(err)
			doc := storedSubscription(t, db, "billing", name)
			is.Equal(settingsOf(doc), `{"configVersion": 5, "executionVersion": 2, "ordered": false, "offsetReset": "earliest", "delivery": "at-most-once", "maxRetries": 0, "retryDelayMs": 0, "retryBackoffMultiplier": 3, "receiverMode": "batch", "batchSize": 30}`)
			is.Equal(doc.Lookup("_id").StringValue(), "s-"+name) // the same subscription
			is.True(doc.Lookup("embeddedExecutionSeen").Boolean())
			_, err = doc.LookupErr("somebody's")
			is.Equal(err == nil, name == "almost nothing") // fields of others stay
		})
	}
}

// Back to version 1: that version 2 was in force once stays on record (4.11).
func TestSettings_2_6_ARaiseToVersion1KeepsTheMark(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	db := pulsetest.Database(t)
	topic := pulse.NewTopic[int]("t")
	first := newClient(t, db, fast(db))
	is.NoErr(second(topic.Subscribe(t.Context(), first, ignore[int], unordered()...)))
	is.NoErr(second(topic.Subscribe(t.Context(), newClient(t, db, fast(db)), ignore[int], pulse.ConfigVersion(1))))
	doc := storedSubscription(t, db, "billing", "t")
	is.Equal(doc.Lookup("executionVersion").AsInt64(), int64(1))
	is.True(doc.Lookup("ordered").Boolean())
	is.True(doc.Lookup("embeddedExecutionSeen").Boolean())
}

func TestSettings_2_6_TwentyReplicasRaiseOnce(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	db := pulsetest.Database(t)
	storeSubscription(t, db, "t", complete(bson.M{"executionVersion": 1, "ordered": true}))
	shared := pulsetest.Client(t, together(20, "findAndModify"))
	changes, err := db.Collection("orionjs.pulse.subscriptions").Watch(t.Context(), mongo.Pipeline{
		// All updates but those of the lease and the cursor. A second raise would change updatedAt alone.
		{{Key: "$match", Value: bson.D{
			{Key: "operationType", Value: "update"},
			{Key: "updateDescription.updatedFields.discoveryLockedUntil", Value: bson.D{{Key: "$exists", Value: false}}},
			{Key: "updateDescription.updatedFields.cursorSequence", Value: bson.D{{Key: "$exists", Value: false}}},
		}}},
	})
	is.NoErr(err)
	defer func() { is.NoErr(changes.Close(context.Background())) }()
	clients := make([]*pulse.Client, 20)
	for i := range clients {
		config := fast(db)
		config.PollInterval = time.Second
		c, err := pulse.New(t.Context(), shared, config)
		is.NoErr(err)
		defer func() { is.NoErr(c.Close(context.Background())) }()
		clients[i] = c
	}
	var all sync.WaitGroup
	for _, c := range clients {
		all.Go(func() {
			sub, err := pulse.NewTopic[int]("t").Subscribe(t.Context(), c, ignore[int], unordered(pulse.ConfigVersion(3), pulse.MaxRetries(9))...)
			if err != nil {
				t.Error(err)
			} else if got := sub.Info(); got.MaxRetries != 9 || got.ConfigVersion != 3 {
				t.Errorf("in force: %+v", got)
			}
		})
	}
	all.Wait()
	// A mark behind them shows that no second change is to come.
	_, err = db.Collection("orionjs.pulse.subscriptions").UpdateOne(t.Context(), bson.D{{Key: "topic", Value: "t"}}, bson.D{{Key: "$set", Value: bson.D{{Key: "configVersion", Value: int32(99)}}}})
	is.NoErr(err)
	var raises []string
	for len(raises) == 0 || raises[len(raises)-1] != `{"configVersion": 99}` {
		is.True(changes.Next(t.Context()))
		raises = append(raises, settingsOf(changes.Current.Lookup("updateDescription", "updatedFields").Document()))
	}
	is.Equal(raises, []string{`{"configVersion": 3, "executionVersion": 2, "ordered": false, "maxRetries": 9}`, `{"configVersion": 99}`}) // all at once, and once
}

func TestSettings_2_6_LowerVersionAdoptsAtStart(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	var log logged
	c, db := publisher(t, func(c *pulse.Config) { c.Logger = slog.New(&log) })
	storeSubscription(t, db, "t", complete(bson.M{"configVersion": 4, "maxRetries": 1, "retryDelayMs": 5, "retryBackoffMultiplier": nil}))
	topic := pulse.NewTopic[int]("t")
	runs := pulsetest.Recorder[int]{}
	sub, err := topic.Subscribe(t.Context(), c, func(_ context.Context, e *pulse.Event[int]) error {
		runs.Add(e.Attempt)
		return errors.New("never")
	}, unordered(pulse.ConfigVersion(2), pulse.MaxRetries(8), pulse.RetryDelay(time.Hour), pulse.RetryBackoffMultiplier(5))...)
	is.NoErr(err)
	info := sub.Info()
	is.Equal(info.ConfigVersion, 4)
	is.Equal(info.MaxRetries, 1)
	is.Equal(info.RetryDelay, 5*time.Millisecond)
	is.Equal(info.RetryBackoffMultiplier, 5.0) // the stored document has none
	is.Equal(c.Subscriptions(), []pulse.SubscriptionInfo{info})
	is.True(slices.Contains(log.Values(), "INFO pulse: adopted the stored settings of a higher configVersion group=billing topic=t from=2 to=4 changed=[maxRetries: stored 1, here 8 retryDelayMs: stored 5, here 3600000]"))

	is.NoErr(second(topic.Publish(t.Context(), c, 1)))
	ended(t, db, "billing", "t", "v2-error", 1)
	is.Equal(runs.Values(), []int{1, 2}) // one retry, after 5 ms
	doc := storedSubscription(t, db, "billing", "t")
	is.Equal(doc.Lookup("configVersion").AsInt64(), int64(4))
	is.Equal(doc.Lookup("maxRetries").AsInt64(), int64(1))
	_, err = doc.LookupErr("retryBackoffMultiplier")
	is.True(err != nil) // a lower version writes nothing
}

func TestSettings_2_6_LowerVersionAdoptsWhileItRuns(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	var log logged
	old, db := publisher(t, func(c *pulse.Config) { c.Logger = slog.New(&log) })
	topic := pulse.NewTopic[int]("t")
	runs := pulsetest.Recorder[int]{}
	fail := func(_ context.Context, e *pulse.Event[int]) error {
		runs.Add(e.Attempt)
		return errors.New("never")
	}
	sub, err := topic.Subscribe(t.Context(), old, fail, unordered(pulse.ConfigVersion(1), pulse.MaxRetries(0))...)
	is.NoErr(err)

	// A replica of the next deploy comes, raises, and goes again.
	next := newClient(t, db, fast(db))
	raised, err := topic.Subscribe(t.Context(), next, ignore[int], unordered(pulse.ConfigVersion(2), pulse.MaxRetries(2), pulse.RetryDelay(time.Millisecond))...)
	is.NoErr(err)
	log.WaitFor(t, "the adoption", func(lines []string) bool {
		return slices.Contains(lines, "INFO pulse: adopted the stored settings of a higher configVersion group=billing topic=t from=1 to=2 changed=[maxRetries: stored 2, here 0 retryDelayMs: stored 1, here 1000]")
	})
	is.NoErr(raised.Unsubscribe(t.Context()))
	is.Equal(sub.Info().ConfigVersion, 2)
	is.Equal(sub.Info().MaxRetries, 2)
	is.NoErr(second(topic.Publish(t.Context(), old, 1)))
	ended(t, db, "billing", "t", "v2-error", 1)
	is.Equal(runs.Values(), []int{1, 2, 3})

	// A replica of the old deploy starts late: it adopts as well, and overwrites nothing.
	late := newClient(t, db, fast(db))
	sub, err = topic.Subscribe(t.Context(), late, fail, unordered(pulse.ConfigVersion(1), pulse.MaxRetries(0))...)
	is.NoErr(err)
	is.Equal(sub.Info().MaxRetries, 2)
	is.Equal(storedSubscription(t, db, "billing", "t").Lookup("configVersion").AsInt64(), int64(2))
}

// A replica whose handler is for single events adopts batches, and runs them one event after the other.
func TestSettings_2_6_ASingleHandlerAdoptsBatches(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	c, db := publisher(t)
	topic := pulse.NewTopic[int]("t")
	_, err := topic.PublishMany(t.Context(), c, numbers(10))
	is.NoErr(err)
	storeSubscription(t, db, "t", complete(bson.M{"configVersion": 1, "receiverMode": "batch", "batchSize": 5}))
	seen := pulsetest.Recorder[int]{}
	sub, err := topic.Subscribe(t.Context(), c, func(_ context.Context, e *pulse.Event[int]) error {
		seen.Add(e.Data)
		return nil
	}, unordered()...)
	is.NoErr(err)
	is.Equal(sub.Info().BatchSize, 5)
	is.True(!sub.Info().Batch) // the handler is what it is
	docs := ended(t, db, "billing", "t", "v2-success", 2)
	is.Equal(seen.Len(), 10)
	for _, doc := range docs {
		ids, err := doc.Lookup("eventIds").Array().Values()
		is.NoErr(err)
		is.Equal(len(ids), 5)
	}
}

func TestSettings_2_6_OrderAndExecutionVersionAreAdopted(t *testing.T) {
	t.Parallel()
	for name, stored := range map[string]bson.M{
		"ordered":   {"configVersion": 9, "ordered": true, "executionVersion": 1},
		"version 1": {"configVersion": 9, "ordered": false, "executionVersion": 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			c, db := publisher(t)
			handle := func(context.Context, *pulse.Event[int]) error { return nil }

			// At the start.
			storeSubscription(t, db, "t", complete(stored))
			topic := pulse.NewTopic[int]("t")
			sub, err := topic.Subscribe(t.Context(), c, handle, unordered()...)
			is.NoErr(err)
			is.Equal(sub.Info().Ordered, stored["ordered"])
			is.Equal(sub.Info().ExecutionVersion, 1)
			is.NoErr(second(topic.Publish(t.Context(), c, 1)))
			ended(t, db, "billing", "t", "success", 1)

			// While it runs: what was born before keeps its format.
			other := pulse.NewTopic[int]("u")
			sub, err = other.Subscribe(t.Context(), c, handle, unordered()...)
			is.NoErr(err)
			is.NoErr(second(other.Publish(t.Context(), c, 1)))
			ended(t, db, "billing", "u", "v2-success", 1)
			_, err = db.Collection("orionjs.pulse.subscriptions").UpdateOne(t.Context(), bson.D{{Key: "topic", Value: "u"}}, bson.D{{Key: "$set", Value: complete(stored)}})
			is.NoErr(err)
			pulsetest.Eventually(t, "the settings are adopted", func(context.Context) error {
				if got := sub.Info().ConfigVersion; got != 9 {
					return fmt.Errorf("configVersion %d", got)
				}
				return nil
			})
			is.NoErr(second(other.Publish(t.Context(), c, 2)))
			ended(t, db, "billing", "u", "success", 1)
		})
	}
}
