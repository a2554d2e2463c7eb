package pulse_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/matryer/is"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/orionjs/orion-go/pulse"
	"github.com/orionjs/orion-go/pulse/pulsetest"
)

func TestPublish_1_3_SecondPublishReturnsTheStoredEvent(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	c, db := publisher(t)
	config := fast(db)
	config.ConsumerGroup = "shipping"
	other := newClient(t, db, config)
	topic := pulse.NewTopic[order]("order.created")
	handled := pulsetest.Recorder[string]{}
	_, err := topic.Subscribe(t.Context(), c, func(_ context.Context, e *pulse.Event[order]) error {
		handled.Add(e.ID + " " + e.Headers["n"])
		return nil
	}, unordered()...)
	is.NoErr(err)

	first, err := topic.Publish(t.Context(), c, order{1, "x"}, pulse.WithID("order-1"), pulse.WithHeaders(map[string]string{"n": "1"}))
	is.NoErr(err)
	is.Equal(first.ID, "order-1")
	is.True(!first.Duplicate)
	// By another group, with other headers.
	second, err := topic.Publish(t.Context(), other, order{1, "x"}, pulse.WithID("order-1"), pulse.WithHeaders(map[string]string{"n": "2"}))
	is.NoErr(err)
	want := *first
	want.Duplicate = true
	is.Equal(*second, want)
	is.Equal(len(events(t, db)), 1)

	_, err = topic.Publish(t.Context(), c, order{2, "y"}, pulse.WithID("order-2"))
	is.NoErr(err)
	ended(t, db, "billing", "order.created", "v2-success", 2)
	got := handled.Values()
	slices.Sort(got)
	is.Equal(got, []string{"order-1 1", "order-2 "}) // the first one once
}

func TestPublish_1_3_AnyNonEmptyID(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	c, db := publisher(t)
	topic := pulse.NewTopic[int]("count")
	handled := pulsetest.Recorder[string]{}
	_, err := topic.Subscribe(t.Context(), c, func(_ context.Context, e *pulse.Event[int]) error {
		handled.Add(e.ID)
		return nil
	}, unordered()...)
	is.NoErr(err)
	ids := []string{" ", "$id", "a.b", "Ümläut ☃", "nul\x00inside", fmt.Sprintf("%01000d", 7)}
	for i, id := range ids {
		event, err := topic.Publish(t.Context(), c, i, pulse.WithID(id))
		is.NoErr(err)
		is.Equal(event.ID, id)
		again, err := topic.Publish(t.Context(), c, i, pulse.WithID(id))
		is.NoErr(err)
		is.True(again.Duplicate)
	}
	is.Equal(len(events(t, db)), len(ids))
	got := map[string]bool{}
	for _, id := range handled.Wait(t, len(ids)) {
		got[id] = true
	}
	for _, id := range ids {
		is.True(got[id])
	}
}

// A map is encoded in another order each time; that makes no other data of it.
func TestPublish_1_3_MapsAreTheSameInAnyOrder(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	c, db := publisher(t)
	topic := pulse.NewTopic[any]("map")
	data := func(changed bool) bson.M {
		m := bson.M{}
		for i := range 10 {
			m[fmt.Sprint(i)] = bson.A{bson.M{"a": i, "b": "x", "c": nil}, i}
		}
		if changed {
			m["7"].(bson.A)[0].(bson.M)["c"] = false
		}
		return m
	}
	for i := range 10 {
		event, err := topic.Publish(t.Context(), c, data(false), pulse.WithID("map"))
		is.NoErr(err)
		is.Equal(event.Duplicate, i > 0)
	}
	_, err := topic.Publish(t.Context(), c, data(true), pulse.WithID("map"))
	var conflict *pulse.ConflictError
	is.True(errors.As(err, &conflict))
	is.Equal(len(events(t, db)), 1)
}

func TestPublish_1_3_OtherTopicOrDataIsAConflict(t *testing.T) {
	t.Parallel()
	c, db := publisher(t)
	topic := pulse.NewTopic[any]("order.created")
	is.New(t).NoErr(second(topic.Publish(t.Context(), c, bson.D{{Key: "n", Value: int32(1)}, {Key: "list", Value: bson.A{1, 2}}}, pulse.WithID("x"))))
	for _, test := range []struct {
		name  string
		topic string
		data  any
		what  string
	}{
		{"topic", "order.paid", bson.D{{Key: "n", Value: int32(1)}, {Key: "list", Value: bson.A{1, 2}}}, "the topic order.created"},
		{"topic and data", "order.paid", 1, "the topic order.created"},
		{"value", "order.created", bson.D{{Key: "n", Value: int32(2)}, {Key: "list", Value: bson.A{1, 2}}}, "other data"},
		{"type", "order.created", bson.D{{Key: "n", Value: int64(1)}, {Key: "list", Value: bson.A{1, 2}}}, "other data"},
		{"field more", "order.created", bson.D{{Key: "n", Value: int32(1)}, {Key: "list", Value: bson.A{1, 2}}, {Key: "m", Value: nil}}, "other data"},
		{"field less", "order.created", bson.D{{Key: "n", Value: int32(1)}}, "other data"},
		{"key", "order.created", bson.D{{Key: "m", Value: int32(1)}, {Key: "list", Value: bson.A{1, 2}}}, "other data"},
		{"order of a list", "order.created", bson.D{{Key: "n", Value: int32(1)}, {Key: "list", Value: bson.A{2, 1}}}, "other data"},
		{"key twice", "order.created", bson.D{{Key: "n", Value: int32(1)}, {Key: "n", Value: int32(1)}}, "other data"},
		{"nothing", "order.created", nil, "other data"},
	} {
		t.Run(test.name, func(t *testing.T) {
			is := is.New(t)
			event, err := pulse.NewTopic[any](test.topic).Publish(t.Context(), c, test.data, pulse.WithID("x"))
			is.True(event == nil)
			var conflict *pulse.ConflictError
			is.True(errors.As(err, &conflict))
			is.Equal(*conflict, pulse.ConflictError{ID: "x", Topic: test.topic, StoredTopic: "order.created"})
			is.Equal(err.Error(), fmt.Sprintf(`pulse: topic %s: an event with the ID "x" is stored already, with %s: an ID names one event for as long as it is retained`, test.topic, test.what))
			is.Equal(len(events(t, db)), 1)
		})
	}
}

func second[T any](_ T, err error) error { return err }

func TestPublish_1_3_HoldsWhileTheEventIsRetained(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	c, db := publisher(t)
	topic := pulse.NewTopic[int]("count")
	_, err := topic.Publish(t.Context(), c, 1, pulse.WithID("x"))
	is.NoErr(err)
	_, err = db.Collection("orionjs.pulse.events").DeleteOne(t.Context(), bson.D{{Key: "_id", Value: "x"}})
	is.NoErr(err)
	event, err := topic.Publish(t.Context(), c, 2, pulse.WithID("x")) // other data, too
	is.NoErr(err)
	is.True(!event.Duplicate)
	is.Equal(event.Data, 2)
	is.Equal(len(events(t, db)), 1)
}

func TestPublish_1_3_OneOfManyAtOnceIsStored(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	c, db := publisher(t)
	topic := pulse.NewTopic[order]("order.created")
	results := make([]*pulse.Event[order], 20)
	var all sync.WaitGroup
	for i := range results {
		all.Go(func() {
			event, err := topic.Publish(t.Context(), c, order{1, "same"}, pulse.WithID("same"))
			if err != nil {
				t.Error(err)
				return
			}
			results[i] = event
		})
	}
	all.Wait()
	first := 0
	for _, r := range results {
		is.True(r != nil)
		if !r.Duplicate {
			first++
		}
		is.Equal(r.CreatedAt, results[0].CreatedAt) // all return the stored one
	}
	is.Equal(first, 1)
	is.Equal(len(events(t, db)), 1)
}

// An event that Node published has no place in the order yet, or fields of other types: it is compared and
// returned all the same.
func TestPublish_1_3_DuplicateOfAnEventOfOthers(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	c, db := publisher(t)
	_, err := db.Collection("orionjs.pulse.events").InsertOne(t.Context(), bson.D{
		{Key: "_id", Value: "x"},
		{Key: "topic", Value: "count"},
		{Key: "data", Value: nil},
		{Key: "headers", Value: nil},
		{Key: "publisher", Value: nil},
		{Key: "expiresAt", Value: nil},
	})
	is.NoErr(err)
	event, err := pulse.NewTopic[*int]("count").Publish(t.Context(), c, nil, pulse.WithID("x"))
	is.NoErr(err)
	is.Equal(*event, pulse.Event[*int]{ID: "x", Topic: "count", Duplicate: true})
}
