package pulse_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/matryer/is"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/orionjs/orion-go/pulse"
	"github.com/orionjs/orion-go/pulse/pulsetest"
)

// storedSubscription reads the group's subscription to a topic.
func storedSubscription(t *testing.T, db *mongo.Database, group, topic string) bson.Raw {
	t.Helper()
	doc, err := db.Collection("orionjs.pulse.subscriptions").FindOne(t.Context(),
		bson.D{{Key: "consumerGroup", Value: group}, {Key: "topic", Value: topic}}).Raw()
	is.New(t).NoErr(err)
	return doc
}

// deliveries reads the group's deliveries of a topic, in their order.
func deliveries(t *testing.T, db *mongo.Database, group, topic string) []bson.Raw {
	t.Helper()
	cursor, err := db.Collection("orionjs.pulse.deliveries").Aggregate(t.Context(), mongo.Pipeline{
		{{Key: "$match", Value: bson.D{{Key: "consumerGroup", Value: group}, {Key: "topic", Value: topic}}}},
		{{Key: "$sort", Value: bson.D{{Key: "eventSequence", Value: 1}, {Key: "eventId", Value: 1}}}},
	})
	is.New(t).NoErr(err)
	var docs []bson.Raw
	is.New(t).NoErr(cursor.All(t.Context(), &docs))
	return docs
}

// ended waits until so many deliveries of the topic have that state, and returns all of them.
func ended(t *testing.T, db *mongo.Database, group, topic, status string, n int) []bson.Raw {
	t.Helper()
	var docs []bson.Raw
	pulsetest.Eventually(t, fmt.Sprintf("%d deliveries in %s", n, status), func(context.Context) error {
		docs = deliveries(t, db, group, topic)
		states := map[string]int{}
		for _, doc := range docs {
			states[doc.Lookup("status").StringValue()]++
		}
		if states[status] != n {
			return fmt.Errorf("the deliveries are in %v", states)
		}
		return nil
	})
	return docs
}

func ignore[T any](context.Context, *pulse.Event[T]) error        { return nil }
func ignoreBatch[T any](context.Context, []*pulse.Event[T]) error { return nil }

func TestSubscribe_2_2_WhatASingleHandlerSees(t *testing.T) {
	everySetup(t, func(t *testing.T, g *group) {
		is := is.New(t)
		topic := pulse.NewTopic[order]("order.created")
		seen := pulsetest.Recorder[pulse.Event[order]]{}
		for _, c := range g.clients {
			_, err := topic.Subscribe(t.Context(), c, func(_ context.Context, e *pulse.Event[order]) error {
				seen.Add(*e)
				if e.Attempt == 1 {
					return errors.New("once more")
				}
				return nil
			}, unordered(pulse.RetryDelay(time.Millisecond))...)
			is.NoErr(err)
		}
		config := fast(g.db)
		config.ConsumerGroup = "shop"
		published, err := topic.Publish(t.Context(), newClient(t, g.db, config), order{5, "five"}, pulse.WithHeaders(map[string]string{"trace": "t"}))
		is.NoErr(err)
		got := seen.Wait(t, 2)
		for i, event := range got {
			want := *published
			want.ConsumerGroup, want.Attempt = "billing", i+1
			is.Equal(event, want)
			is.Equal(event.Publisher, "shop")
		}
		ended(t, g.db, "billing", "order.created", "v2-success", 1)
		is.Equal(seen.Len(), 2)
	})
}

func TestSubscribe_2_2_WhatABatchHandlerSees(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	c, db := publisher(t)
	topic := pulse.NewTopic[order]("order.created")
	seen := pulsetest.Recorder[[]pulse.Event[order]]{}
	messages := make([]pulse.Message[order], 7)
	for i := range messages {
		messages[i] = pulse.Message[order]{Data: order{i, "n"}, Headers: map[string]string{"i": fmt.Sprint(i)}}
	}
	published, err := topic.PublishMany(t.Context(), c, messages)
	is.NoErr(err)
	_, err = topic.SubscribeBatch(t.Context(), c, 3, func(_ context.Context, es []*pulse.Event[order]) error {
		batch := make([]pulse.Event[order], len(es))
		for i, e := range es {
			batch[i] = *e
		}
		seen.Add(batch)
		if es[0].Attempt == 1 {
			return errors.New("once more")
		}
		return nil
	}, pulse.OffsetReset(pulse.Earliest), pulse.RetryDelay(time.Millisecond))
	is.NoErr(err)

	byAttempt := map[int]map[string]pulse.Event[order]{1: {}, 2: {}}
	for _, batch := range seen.Wait(t, 6) {
		is.True(len(batch) == 3 || len(batch) == 1) // 3, 3 and 1
		for _, e := range batch {
			is.Equal(e.Attempt, batch[0].Attempt)
			byAttempt[e.Attempt][e.ID] = e
		}
	}
	for attempt := 1; attempt <= 2; attempt++ {
		is.Equal(len(byAttempt[attempt]), 7)
		for _, p := range published {
			want := *p.Event
			want.ConsumerGroup, want.Attempt = "billing", attempt
			is.Equal(byAttempt[attempt][want.ID], want)
		}
	}
	ended(t, db, "billing", "order.created", "v2-success", 3)
}

func TestSubscribe_2_1_OneHandlerOfATopicInAClient(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(t *testing.T) *pulse.Client{
		"running": func(t *testing.T) *pulse.Client { c, _ := publisher(t); return c },
		"not started": func(t *testing.T) *pulse.Client {
			c, err := pulse.New(t.Context(), unreachable(t), pulse.Config{ConsumerGroup: "billing", Database: "d", ManualStart: true})
			is.New(t).NoErr(err)
			return c
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			c := start(t)
			topic := pulse.NewTopic[int]("t")
			_, err := topic.Subscribe(t.Context(), c, ignore[int], unordered()...)
			is.NoErr(err)
			const text = "topic t: this client has a handler already: one topic has one handler in a client; use a client of another group for an independent one"
			_, err = topic.Subscribe(t.Context(), c, ignore[int], unordered()...)
			is.Equal(problemsOf(t, err), []string{text})
			_, err = topic.SubscribeBatch(t.Context(), c, 10, ignoreBatch[int])
			is.Equal(problemsOf(t, err), []string{text})
			is.Equal(len(c.Subscriptions()), 1)
			_, err = pulse.NewTopic[int]("u").Subscribe(t.Context(), c, ignore[int], unordered()...)
			is.NoErr(err)
		})
	}
}

func TestSubscribe_2_1_TwoGroupsOverOneMongoClient(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	db := pulsetest.Database(t)
	shared := pulsetest.Client(t)
	topic := pulse.NewTopic[int]("count")
	type handled struct {
		group string
		data  int
	}
	seen := pulsetest.Recorder[handled]{}
	var clients []*pulse.Client
	for _, group := range []string{"billing", "shipping"} {
		config := fast(db)
		config.ConsumerGroup = group
		c, err := pulse.New(t.Context(), shared, config)
		is.NoErr(err)
		clients = append(clients, c)
		_, err = topic.Subscribe(t.Context(), c, func(_ context.Context, e *pulse.Event[int]) error {
			seen.Add(handled{group, e.Data})
			if e.ConsumerGroup != group {
				return fmt.Errorf("got the delivery of %s", e.ConsumerGroup)
			}
			return nil
		}, unordered()...)
		is.NoErr(err)
	}
	_, err := topic.PublishMany(t.Context(), clients[0], numbers(10))
	is.NoErr(err)
	seen.Wait(t, 20)
	is.NoErr(clients[0].Close(t.Context())) // leaves the other one working
	_, err = topic.Publish(t.Context(), clients[1], 10)
	is.NoErr(err)
	seen.Wait(t, 21)
	ended(t, db, "shipping", "count", "v2-success", 11)
	is.NoErr(clients[1].Close(t.Context()))
	times := map[handled]int{}
	for _, h := range seen.Values() {
		times[h]++
	}
	is.Equal(len(times), 21) // each event once in each group; the last one waits for billing's next client
	is.NoErr(shared.Ping(t.Context(), nil))
}

func TestSubscribe_2_3_DefaultsOfABatchAsStored(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	c, db := publisher(t)
	sub, err := pulse.NewTopic[int]("t").SubscribeBatch(t.Context(), c, 25, ignoreBatch[int])
	is.NoErr(err)
	doc := storedSubscription(t, db, "billing", "t")
	is.Equal(settingsOf(doc), `{"configVersion": 0, "executionVersion": 2, "ordered": false, "offsetReset": "latest", "delivery": "at-least-once", "maxRetries": 3, "retryDelayMs": 1000, "retryBackoffMultiplier": 2, "receiverMode": "batch", "batchSize": 25}`)
	is.Equal(sub.Info(), pulse.SubscriptionInfo{
		Topic: "t", ConsumerGroup: "billing", Batch: true, BatchSize: 25, MaxConcurrency: 4,
		OffsetReset: pulse.Latest, DeliveryMode: pulse.AtLeastOnce,
		MaxRetries: 3, RetryDelay: time.Second, RetryBackoffMultiplier: 2, ExecutionVersion: 2,
	})
}

func TestSubscribe_2_3_DefaultsOfASingleHandlerAsStored(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	c, db := publisher(t)
	sub, err := pulse.NewTopic[int]("t").Subscribe(t.Context(), c, ignore[int], nil) // a nil option is none
	is.NoErr(err)
	doc := storedSubscription(t, db, "billing", "t")
	is.Equal(settingsOf(doc), `{"configVersion": 0, "executionVersion": 1, "ordered": true, "offsetReset": "latest", "delivery": "at-least-once", "maxRetries": 3, "retryDelayMs": 1000, "retryBackoffMultiplier": 2, "receiverMode": "single", "batchSize": 1}`)
	_, err = doc.LookupErr("embeddedExecutionSeen")
	is.True(err != nil) // version 2 was never asked for
	is.Equal(sub.Info(), pulse.SubscriptionInfo{
		Topic: "t", ConsumerGroup: "billing", BatchSize: 1, MaxConcurrency: 1, Ordered: true,
		OffsetReset: pulse.Latest, DeliveryMode: pulse.AtLeastOnce,
		MaxRetries: 3, RetryDelay: time.Second, RetryBackoffMultiplier: 2, ExecutionVersion: 1,
	})
	is.Equal(sub.Topic(), "t")
	free, err := pulse.NewTopic[int]("u").Subscribe(t.Context(), c, ignore[int], pulse.Unordered())
	is.NoErr(err)
	is.Equal(free.Info().ExecutionVersion, 1)
	is.Equal(free.Info().MaxConcurrency, 4) // the worker count
}

func TestSubscribe_2_3_EveryOptionAsStored(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	c, db := publisher(t)
	sub, err := pulse.NewTopic[int]("t").Subscribe(t.Context(), c, ignore[int], unordered(
		pulse.OffsetReset(pulse.Earliest), pulse.DeliveryMode(pulse.AtLeastOnce), pulse.MaxRetries(0), pulse.RetryDelay(1500*time.Microsecond),
		pulse.RetryBackoffMultiplier(1.5), pulse.ConfigVersion(202511301230), pulse.MaxConcurrency(9))...)
	is.NoErr(err)
	doc := storedSubscription(t, db, "billing", "t")
	is.Equal(settingsOf(doc), `{"configVersion": 202511301230, "executionVersion": 2, "ordered": false, "offsetReset": "earliest", "delivery": "at-least-once", "maxRetries": 0, "retryDelayMs": 1.5, "retryBackoffMultiplier": 1.5, "receiverMode": "single", "batchSize": 1}`)
	is.Equal(sub.Info(), pulse.SubscriptionInfo{
		Topic: "t", ConsumerGroup: "billing", BatchSize: 1, MaxConcurrency: 9,
		OffsetReset: pulse.Earliest, DeliveryMode: pulse.AtLeastOnce,
		RetryDelay: 1500 * time.Microsecond, RetryBackoffMultiplier: 1.5, ConfigVersion: 202511301230, ExecutionVersion: 2,
	})
	_, err = doc.LookupErr("maxConcurrency")
	is.True(err != nil) // local
}

// settingsOf returns the durable settings of a stored subscription, numbers of all types alike.
func settingsOf(doc bson.Raw) string {
	var parts []string
	for _, name := range []string{"configVersion", "executionVersion", "ordered", "offsetReset", "delivery", "maxRetries", "retryDelayMs", "retryBackoffMultiplier", "receiverMode", "batchSize"} {
		value, err := doc.LookupErr(name)
		if err != nil {
			continue
		}
		text := value.String()
		if n, ok := value.AsFloat64OK(); ok {
			text = strconv.FormatFloat(n, 'f', -1, 64)
		}
		parts = append(parts, fmt.Sprintf("%q: %s", name, text))
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

func TestSubscribe_2_4_DelayGrowsByTheMultiplier(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	c, db := publisher(t)
	topic := pulse.NewTopic[int]("t")
	runs := pulsetest.Recorder[int]{}
	_, err := topic.Subscribe(t.Context(), c, func(_ context.Context, e *pulse.Event[int]) error {
		runs.Add(e.Attempt)
		return errors.New("never")
	}, unordered(pulse.MaxRetries(3), pulse.RetryDelay(4*time.Millisecond), pulse.RetryBackoffMultiplier(3))...)
	is.NoErr(err)
	_, err = topic.Publish(t.Context(), c, 1)
	is.NoErr(err)
	doc := ended(t, db, "billing", "t", "v2-error", 1)[0]
	is.Equal(runs.Values(), []int{1, 2, 3, 4}) // three retries after the first attempt
	attempts, err := doc.Lookup("attempts").Array().Values()
	is.NoErr(err)
	is.Equal(len(attempts), 4)
	for i := 1; i < len(attempts); i++ {
		before := attempts[i-1].Document().Lookup("endedAt").Time()
		due := attempts[i].Document().Lookup("nextAttemptAt").Time()
		is.Equal(due.Sub(before), []time.Duration{0, 4, 12, 36}[i]*time.Millisecond)
	}
}

func TestSubscribe_2_5_AtMostOnceNeverRetries(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	c, db := publisher(t)
	topic := pulse.NewTopic[int]("t")
	runs := pulsetest.Recorder[int]{}
	sub, err := topic.Subscribe(t.Context(), c, func(_ context.Context, e *pulse.Event[int]) error {
		runs.Add(e.Attempt)
		return pulse.RetryAfter(errors.New("never"), 0) // grants no retry
	}, unordered(pulse.DeliveryMode(pulse.AtMostOnce))...)
	is.NoErr(err)
	is.Equal(sub.Info().MaxRetries, 0)
	is.Equal(storedSubscription(t, db, "billing", "t").Lookup("maxRetries").AsInt64(), int64(0))
	is.Equal(storedSubscription(t, db, "billing", "t").Lookup("delivery").StringValue(), "at-most-once")
	_, err = topic.PublishMany(t.Context(), c, numbers(3))
	is.NoErr(err)
	for _, doc := range ended(t, db, "billing", "t", "v2-error", 3) {
		is.Equal(doc.Lookup("attempt").AsInt64(), int64(1))
		is.Equal(doc.Lookup("error", "code").StringValue(), "handler_error")
	}
	is.Equal(runs.Values(), []int{1, 1, 1})
}

func TestSubscribe_2_8_LatestAndEarliest(t *testing.T) {
	everySetup(t, func(t *testing.T, g *group) {
		is := is.New(t)
		topic := pulse.NewTopic[string]("t")
		publish := func(data string) {
			t.Helper()
			is.NoErr(second(topic.Publish(t.Context(), g.clients[0], data)))
		}
		publish("old 1")
		publish("old 2")
		is.NoErr(second(pulse.NewTopic[string]("other").Publish(t.Context(), g.clients[0], "elsewhere")))
		seen := pulsetest.Recorder[string]{}
		subscribe := func(c *pulse.Client, name string, offset pulse.Offset) {
			t.Helper()
			is.NoErr(second(topic.Subscribe(t.Context(), c, func(_ context.Context, e *pulse.Event[string]) error {
				seen.Add(name + " " + e.Data)
				return nil
			}, unordered(pulse.OffsetReset(offset))...)))
		}
		for _, c := range g.clients {
			subscribe(c, "latest", pulse.Latest)
		}
		config := fast(g.db)
		config.ConsumerGroup = "audit"
		subscribe(newClient(t, g.db, config), "earliest", pulse.Earliest)
		publish("new 1")
		publish("new 2")
		times := map[string]int{}
		for _, value := range seen.Wait(t, 6) {
			times[value]++
		}
		is.Equal(times, map[string]int{
			"latest new 1": 1, "latest new 2": 1,
			"earliest old 1": 1, "earliest old 2": 1, "earliest new 1": 1, "earliest new 2": 1,
		})
		ended(t, g.db, "billing", "t", "v2-success", 2)
		ended(t, g.db, "audit", "t", "v2-success", 4)
	})
}

func TestSubscribe_2_8_ARestartResumesTheCursor(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	db := pulsetest.Database(t)
	topic := pulse.NewTopic[int]("t")
	seen := pulsetest.Recorder[int]{}
	start := func() *pulse.Client {
		c := newClient(t, db, fast(db))
		is.NoErr(second(topic.Subscribe(t.Context(), c, func(_ context.Context, e *pulse.Event[int]) error {
			seen.Add(e.Data)
			return nil
		}, unordered()...))) // latest
		return c
	}
	c := start()
	is.NoErr(second(topic.Publish(t.Context(), c, 1)))
	seen.Wait(t, 1)
	is.NoErr(c.Close(t.Context()))
	away := newClient(t, db, fast(db)) // publishes while nobody listens
	is.NoErr(second(topic.Publish(t.Context(), away, 2)))
	is.NoErr(second(topic.Publish(t.Context(), away, 3)))
	start()
	got := seen.Wait(t, 3)
	is.Equal(map[int]bool{got[0]: true, got[1]: true, got[2]: true}, map[int]bool{1: true, 2: true, 3: true})
	ended(t, db, "billing", "t", "v2-success", 3)
	is.Equal(seen.Len(), 3)
}

// together holds the first commands of a name back until there are n of them: all of them are based on what
// was stored before any of them.
func together(n int, command string) func(*options.ClientOptions) {
	var arrived atomic.Int32
	all := make(chan struct{})
	return func(o *options.ClientOptions) {
		o.SetMonitor(&event.CommandMonitor{Started: func(ctx context.Context, e *event.CommandStartedEvent) {
			if e.CommandName != command {
				return
			}
			if arrived.Add(1) == int32(n) {
				close(all)
			}
			select {
			case <-all:
			case <-ctx.Done():
			}
		}})
	}
}

func TestSubscribe_2_8_TwentyReplicasCreateOneSubscription(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	db := pulsetest.Database(t)
	shared := pulsetest.Client(t, together(20, "insert"))
	topic := pulse.NewTopic[int]("t")
	seen := pulsetest.Recorder[int]{}
	clients := make([]*pulse.Client, 20)
	for i := range clients {
		config := fast(db)
		config.PollInterval = time.Second // twenty at once; the change streams carry the news
		c, err := pulse.New(t.Context(), shared, config)
		is.NoErr(err)
		defer func() { is.NoErr(c.Close(context.Background())) }()
		clients[i] = c
	}
	var all sync.WaitGroup
	for _, c := range clients {
		all.Go(func() {
			_, err := topic.Subscribe(t.Context(), c, func(_ context.Context, e *pulse.Event[int]) error {
				seen.Add(e.Data)
				return nil
			}, unordered()...)
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	n, err := db.Collection("orionjs.pulse.subscriptions").CountDocuments(t.Context(), bson.D{})
	is.NoErr(err)
	is.Equal(n, int64(1))
	config := fast(db)
	config.ManualStart = true
	c := newClient(t, db, config)
	_, err = topic.PublishMany(t.Context(), c, numbers(40))
	is.NoErr(err)
	ended(t, db, "billing", "t", "v2-success", 40)
	is.Equal(seen.Len(), 40)
}

func TestSubscribe_2_6_StoredFields(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	c, db := publisher(t)
	is.NoErr(second(pulse.NewTopic[int]("t").Publish(t.Context(), c, 1)))
	newest := events(t, db)[0]
	idle := fast(db)
	idle.PollInterval = time.Hour // looks once, at the start
	quiet := newClient(t, db, idle)
	is.NoErr(second(pulse.NewTopic[int]("t").Subscribe(t.Context(), quiet, ignore[int], unordered()...)))
	is.NoErr(quiet.Close(t.Context()))
	doc := storedSubscription(t, db, "billing", "t")
	elements, err := doc.Elements()
	is.NoErr(err)
	types := map[string]string{}
	for _, e := range elements {
		types[e.Key()] = e.Value().Type.String()
	}
	// The lease's fields are there once somebody has led; the owner stays.
	for _, name := range []string{"discoveryLockOwner", "discoveryLockToken", "discoveryLockedUntil"} {
		delete(types, name)
	}
	is.Equal(types, map[string]string{
		"_id": "string", "consumerGroup": "string", "topic": "string",
		"configVersion": "32-bit integer", "executionVersion": "32-bit integer", "embeddedExecutionSeen": "boolean",
		"ordered": "boolean", "offsetReset": "string", "delivery": "string", "maxRetries": "32-bit integer",
		"retryDelayMs": "32-bit integer", "retryBackoffMultiplier": "32-bit integer", "receiverMode": "string", "batchSize": "32-bit integer",
		"createdAt": "UTC datetime", "updatedAt": "UTC datetime",
		"cursorSequence": "timestamp", "cursorSequenceEventId": "string", "cursorCreatedAt": "UTC datetime", "cursorEventId": "string",
		"startSequence": "timestamp", "startSequenceEventId": "string",
	})
	id, err := uuid.Parse(doc.Lookup("_id").StringValue())
	is.NoErr(err)
	is.Equal(id.Version(), uuid.Version(7))
	is.True(doc.Lookup("embeddedExecutionSeen").Boolean())
	for _, name := range []string{"cursorSequence", "startSequence"} {
		is.True(doc.Lookup(name).Equal(newest.Lookup("sequence"))) // latest begins behind the newest event
		is.Equal(doc.Lookup(name+"EventId").StringValue(), newest.Lookup("_id").StringValue())
	}
	is.Equal(doc.Lookup("cursorCreatedAt").Time(), doc.Lookup("createdAt").Time())
	is.Equal(doc.Lookup("cursorEventId").StringValue(), "")
}
