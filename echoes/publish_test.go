package echoes

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/matryer/is"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// publishing is an app that publishes to fake carriers, Pulse first.
func publishing(t *testing.T, to Target) (a *App, first, second *fakeCarrier) {
	t.Helper()
	first, second = &fakeCarrier{name: "pulse"}, &fakeCarrier{name: "kafka"}
	a = newApp(t, Config{Pulse: &Pulse{}, Kafka: second, PublishTo: to})
	a.pulse = first
	a.ready = true
	return a, first, second
}

func drafts(ids ...string) []Draft[any] {
	out := make([]Draft[any], len(ids))
	for i, id := range ids {
		out[i] = Draft[any]{Params: bson.M{"n": i}, ID: id, Headers: map[string]string{"n": id}}
	}
	return out
}

func TestPublishMany_7_5_ToOneTransport(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a, first, second := publishing(t, ToPulse)
	results, err := a.PublishMany(context.Background(), "a", drafts("x", ""))
	is.NoErr(err)
	is.Equal(len(results), 2)
	is.Equal(results[0].EventRef, EventRef{ID: "x", Topic: "a"})
	is.Equal(len(first.published), 2)
	is.Equal(len(second.published), 0)
	is.Equal(first.published[0].Params, raw(t, bson.M{"n": 0}))
	is.Equal(first.published[0].Headers, map[string]string{"n": "x"})
	is.Equal(first.published[1].ID, "") // the carrier makes it up

	results, err = a.PublishMany(context.Background(), "a", nil)
	is.NoErr(err)
	is.Equal(len(results), 0)
}

func TestPublishMany_7_5_ToBothUnderOneID(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a, first, second := publishing(t, ToBoth)
	first.refuse = map[string]error{"bad": errTeapot}
	second.refuse = map[string]error{"half": errTeapot}
	results, err := a.PublishMany(context.Background(), "a", drafts("bad", "", "half"))
	is.Equal(err.Error(), "echoes: publish to a: 2 of 3 events were not stored, each result says why; the first: a teapot")
	is.True(errors.Is(results[0].Err, errTeapot))
	is.NoErr(results[1].Err)
	is.Equal(results[2].Err.Error(), "event half is stored in pulse, but kafka failed, publish again with WithID: a teapot")
	is.Equal(results[2].ID, "half")
	is.Equal(len(first.published), 2)
	is.Equal(len(second.published), 1) // what Pulse refused is not sent
	is.True(first.published[0].ID != "")
	is.Equal(first.published[0].ID, second.published[0].ID)

	first.publish = errTeapot
	second.published = nil
	_, err = a.PublishMany(context.Background(), "a", drafts("x"))
	is.True(errors.Is(err, errTeapot))
	is.Equal(len(second.published), 0)
}

func TestPublishMany_7_5_BadInputStoresNothing(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a, first, _ := publishing(t, ToPulse)
	many := drafts("1", "2", "3")
	many[0].Params, many[2].Params = make(chan int), panicking{}
	results, err := a.PublishMany(context.Background(), "a", many)
	is.True(results == nil)
	is.True(strings.HasPrefix(err.Error(), "echoes: publish to a: 2 of 3 events cannot be stored; nothing was stored: event 0: params of type chan int cannot be encoded"))
	var bad *InvalidEventError
	is.True(errors.As(err, &bad))
	is.Equal(bad.Index, 0)
	is.Equal(bad.Topic, "a")
	is.Equal(len(first.published), 0)

	_, err = a.PublishMany(context.Background(), " ", drafts("1"))
	is.True(errors.As(err, &bad))
	_, err = newApp(t, Config{}).PublishMany(context.Background(), "a", drafts("1"))
	is.True(errors.Is(err, ErrNotStarted))
}

func TestPublishEncoded_7_9_ValidatesAndEncodesBeforeAnythingIsStored(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a, first, _ := publishing(t, ToPulse)
	ctx := context.Background()
	ref, err := PublishEncoded(ctx, a, "lines", &strictLine{SKU: "a"}, encodeStrictLine, WithID("1"), WithHeaders(map[string]string{"h": "v"}))
	is.NoErr(err)
	is.Equal(ref.ID, "1")
	is.Equal(first.published[0].Params, encoded(t, strictLine{SKU: "a"}, encodeStrictLine))
	is.Equal(first.published[0].Headers["h"], "v")

	var bad *InvalidEventError
	_, err = PublishEncoded(ctx, a, "lines", &strictLine{Rows: []strictLine{{Price: -1}}}, encodeStrictLine)
	is.Equal(err.Error(), "echoes: publish to lines: rows[0]: price must not be negative")
	is.True(errors.As(err, &bad))
	is.True(errors.Is(err, errNegative))

	results, err := PublishManyEncoded(ctx, a, "lines", []Draft[strictLine]{{}, {Params: strictLine{Price: -1}}, {Params: strictLine{SKU: "\xff"}}}, encodeStrictLine)
	is.True(results == nil)
	is.True(strings.HasPrefix(err.Error(), "echoes: publish to lines: 2 of 3 events cannot be stored; nothing was stored: event 1: params: price must not be negative\nevent 2: sku: the string is not valid UTF-8"))
	is.True(errors.As(err, &bad))
	is.Equal(bad.Index, 1)
	is.Equal(len(first.published), 1)

	results, err = PublishManyEncoded(ctx, a, "lines", []Draft[strictLine]{{ID: "2"}, {ID: "3", Params: strictLine{SKU: "b"}}}, encodeStrictLine)
	is.NoErr(err)
	is.Equal(results[1].ID, "3")
	is.Equal(first.published[2].Params, encoded(t, strictLine{SKU: "b"}, encodeStrictLine))
}

func TestPublish_7_5_InvalidEventsHaveAType(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a, _, _ := publishing(t, ToPulse)
	for _, publish := range []func() error{
		func() error { _, err := a.Publish(context.Background(), "", 1); return err },
		func() error { _, err := a.Publish(context.Background(), "a", 1, WithID("")); return err },
		func() error { _, err := a.Publish(context.Background(), "a", make(chan int)); return err },
		func() error {
			_, err := a.Publish(context.Background(), "a", bson.RawValue{Type: bson.TypeString, Value: []byte{1}})
			return err
		},
	} {
		var bad *InvalidEventError
		is.True(errors.As(publish(), &bad))
	}
}
