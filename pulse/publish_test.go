package pulse_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/matryer/is"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/orionjs/orion-go/pulse"
	"github.com/orionjs/orion-go/pulse/pulsetest"
)

// publisher is a client that only publishes, into a database of its own.
func publisher(t *testing.T, change ...func(*pulse.Config)) (*pulse.Client, *mongo.Database) {
	t.Helper()
	db := pulsetest.Database(t)
	config := fast(db)
	for _, f := range change {
		f(&config)
	}
	return newClient(t, db, config), db
}

// events returns the stored events, in their order.
func events(t *testing.T, db *mongo.Database) []bson.Raw {
	t.Helper()
	cursor, err := db.Collection("orionjs.pulse.events").Aggregate(t.Context(), mongo.Pipeline{
		{{Key: "$sort", Value: bson.D{{Key: "sequence", Value: 1}, {Key: "_id", Value: 1}}}},
	})
	is.New(t).NoErr(err)
	var docs []bson.Raw
	is.New(t).NoErr(cursor.All(t.Context(), &docs))
	return docs
}

// shape lists a document's fields with their BSON types, in their order.
func shape(t *testing.T, doc bson.Raw) string {
	t.Helper()
	elements, err := doc.Elements()
	is.New(t).NoErr(err)
	parts := make([]string, len(elements))
	for i, e := range elements {
		parts[i] = e.Key() + ":" + e.Value().Type.String()
	}
	return strings.Join(parts, " ")
}

func TestPublish_1_1_StoresTheDocumentedFields(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	c, db := publisher(t, func(c *pulse.Config) { c.EventRetention = time.Hour })
	topic := pulse.NewTopic[order]("order.created")
	before := time.Now().Truncate(time.Millisecond)

	event, err := topic.Publish(t.Context(), c, order{7, "seven"}, pulse.WithHeaders(map[string]string{"trace": "abc"}))
	is.NoErr(err)
	after := time.Now()

	docs := events(t, db)
	is.Equal(len(docs), 1)
	doc := docs[0]
	is.Equal(shape(t, doc), "_id:string topic:string data:embedded document publisher:string headers:embedded document createdAt:UTC datetime sequence:timestamp expiresAt:UTC datetime")
	is.Equal(doc.Lookup("_id").StringValue(), event.ID)
	is.Equal(doc.Lookup("topic").StringValue(), "order.created")
	is.Equal(doc.Lookup("data").String(), `{"number": {"$numberInt":"7"},"note": "seven"}`)
	is.Equal(doc.Lookup("publisher").StringValue(), "billing")
	is.Equal(doc.Lookup("headers").String(), `{"trace": "abc"}`)
	created := doc.Lookup("createdAt").Time()
	is.True(!created.Before(before) && !created.After(after))        // createdAt is the time of the call
	is.Equal(doc.Lookup("expiresAt").Time().Sub(created), time.Hour) // expiresAt is createdAt + retention

	id, err := uuid.Parse(event.ID)
	is.NoErr(err)
	is.Equal(id.Version(), uuid.Version(7))
	seconds, _ := id.Time().UnixTime()
	is.True(math.Abs(float64(seconds-created.Unix())) <= 1) // the ID is of that time

	is.Equal(*event, pulse.Event[order]{
		ID: event.ID, Topic: "order.created", Data: order{7, "seven"}, Headers: map[string]string{"trace": "abc"},
		CreatedAt: created.UTC(), ExpiresAt: created.UTC().Add(time.Hour), Publisher: "billing",
	})
}

func TestPublish_1_1_LeavesOutWhatWasNotGiven(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	c, db := publisher(t, func(c *pulse.Config) { c.EventRetention = pulse.NoTTL })
	event, err := pulse.NewTopic[int]("count").Publish(t.Context(), c, 1)
	is.NoErr(err)
	is.Equal(shape(t, events(t, db)[0]), "_id:string topic:string data:32-bit integer publisher:string createdAt:UTC datetime sequence:timestamp")
	is.True(event.ExpiresAt.IsZero())
	is.True(event.Headers == nil)
}

func TestPublish_1_1_DefaultRetentionIsSevenDays(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	c, _ := publisher(t)
	event, err := pulse.NewTopic[int]("count").Publish(t.Context(), c, 1)
	is.NoErr(err)
	is.Equal(event.ExpiresAt.Sub(event.CreatedAt), 7*24*time.Hour)
}

func TestPublish_1_1_ServerAssignsRisingSequences(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	c, db := publisher(t)
	other := newClient(t, db, fast(db))
	topic := pulse.NewTopic[int]("count")
	var want []string
	for i := range 20 {
		client := []*pulse.Client{c, other}[i%2]
		if i%5 == 4 {
			all, err := topic.PublishMany(t.Context(), client, []pulse.Message[int]{{Data: i}, {Data: i}})
			is.NoErr(err)
			want = append(want, all[0].Event.ID, all[1].Event.ID)
			continue
		}
		event, err := topic.Publish(t.Context(), client, i)
		is.NoErr(err)
		want = append(want, event.ID)
	}
	// Read back in their order: a later publish lies behind, whichever client it came from.
	var got []string
	last := bson.Timestamp{}
	for _, doc := range events(t, db) {
		at, i := doc.Lookup("sequence").Timestamp()
		sequence := bson.Timestamp{T: at, I: i}
		is.True(sequence.Compare(last) > 0)                              // strictly rising
		is.True(math.Abs(float64(at)-float64(time.Now().Unix())) < 3600) // the server's time, not zero
		last = sequence
		got = append(got, doc.Lookup("_id").StringValue())
	}
	is.Equal(got, want)
}

// odd has the values that encodings tend to mix up.
type odd struct {
	Time, ZeroTime  time.Time
	NilSlice, Empty []string
	NilMap, NoMap   map[string]int
	NilPointer      *int
	Pointer         *int
	Int32           int32
	Int64           int64
	Small           int
	Large           int
	Float           float64
	Whole           float64
	Infinite        float64
	Bytes, NoBytes  []byte
	Any             any
	Nested          struct{ List []struct{ A, B string } }
	Omitted         string `bson:",omitempty"`
	Renamed         string `bson:"other_name"`
}

func TestPublish_1_5_WhatIsReturnedIsWhatIsHandled(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	c, _ := publisher(t)
	zone := time.FixedZone("far", 5*3600+1800)
	one := 1
	sent := odd{
		Time: time.Date(2025, 11, 30, 12, 0, 0, 123_456_789, zone), Empty: []string{}, NoMap: map[string]int{},
		Pointer: &one, Int32: math.MinInt32, Int64: math.MaxInt64, Small: -1, Large: math.MaxInt64,
		Float: 0.1, Whole: 3, Infinite: math.Inf(-1), Bytes: []byte{0, 255}, NoBytes: []byte{}, Any: "text", Renamed: "x",
	}
	sent.Nested.List = []struct{ A, B string }{{"a", "b"}, {}}
	topic := pulse.NewTopic[odd]("odd")
	handled := pulsetest.Recorder[pulse.Event[odd]]{}
	_, err := topic.Subscribe(t.Context(), c, func(_ context.Context, e *pulse.Event[odd]) error {
		handled.Add(*e)
		return nil
	}, unordered()...)
	is.NoErr(err)

	published, err := topic.Publish(t.Context(), c, sent, pulse.WithHeaders(map[string]string{}))
	is.NoErr(err)
	got := handled.Wait(t, 1)[0]

	is.Equal(got.ConsumerGroup, "billing")
	is.Equal(got.Attempt, 1)
	got.ConsumerGroup, got.Attempt = "", 0 // a published event has none
	is.Equal(*published, got)

	want := sent
	want.Time = time.Date(2025, 11, 30, 6, 30, 0, 123_000_000, time.UTC) // milliseconds, UTC
	want.ZeroTime = time.Time{}.UTC()
	is.Equal(got.Data, want)
	is.True(got.Data.NilSlice == nil && got.Data.Empty != nil)
	is.True(got.Data.NilMap == nil && got.Data.NoMap != nil)
	is.True(got.Data.NoBytes != nil)
	is.True(got.Headers != nil && len(got.Headers) == 0) // empty headers are not the same as none
}

func TestPublish_1_5_EveryKindOfData(t *testing.T) {
	t.Parallel()
	c, _ := publisher(t)
	id := bson.NewObjectID()
	equal(t, c, "text", "text")
	equal(t, c, "", "")
	equal(t, c, true, true)
	equal(t, c, 1<<40, 1<<40)
	equal(t, c, 2.5, 2.5)
	equal(t, c, []int{}, []int{})
	equal(t, c, []int(nil), []int(nil))
	equal(t, c, map[string]int{}, map[string]int{})
	equal(t, c, map[string]int(nil), map[string]int(nil))
	equal(t, c, (*order)(nil), (*order)(nil))
	equal(t, c, &order{Number: 1}, &order{Number: 1})
	equal(t, c, id, id)
	equal[any](t, c, nil, nil)
	equal[any](t, c, int32(3), int32(3))
	equal[any](t, c, bson.D{{Key: "a", Value: bson.A{"b", nil}}}, bson.D{{Key: "a", Value: bson.A{"b", nil}}})
	equal(t, c, time.UnixMilli(1_700_000_000_001).Add(999*time.Microsecond), time.UnixMilli(1_700_000_000_001).UTC())
	equal(t, c, bson.M{"a": int32(1)}, bson.M{"a": int32(1)})
	equal(t, c, bson.RawValue{Type: bson.TypeNull}, bson.RawValue{Type: bson.TypeNull})
	equal(t, c, bson.RawValue{Type: bson.TypeBoolean, Value: []byte{1}}, bson.RawValue{Type: bson.TypeBoolean, Value: []byte{1}})
}

// equal publishes data and compares what Publish returns, and what a handler gets, with want.
func equal[T any](t *testing.T, c *pulse.Client, data, want T) {
	t.Helper()
	t.Run(fmt.Sprintf("%T %v", data, data), func(t *testing.T) {
		t.Parallel()
		is := is.New(t)
		topic := pulse.NewTopic[T]("kind of " + uuid.NewString())
		handled := pulsetest.Recorder[T]{}
		_, err := topic.Subscribe(t.Context(), c, func(_ context.Context, e *pulse.Event[T]) error {
			handled.Add(e.Data)
			return nil
		}, unordered()...)
		is.NoErr(err)
		event, err := topic.Publish(t.Context(), c, data)
		is.NoErr(err)
		is.Equal(event.Data, want)
		is.Equal(handled.Wait(t, 1)[0], want)
	})
}

// panicking, lying and silent have methods that an encoder should not trust.
type (
	panicking struct{}
	lying     struct{}
	oneWay    struct{ N int }
	exploding struct{ N int }
)

func (panicking) MarshalBSON() ([]byte, error) { panic("no encoding today") }

func (lying) MarshalBSONValue() (byte, []byte, error) {
	return byte(bson.TypeString), []byte{200, 0, 0, 0, 'x'}, nil
}

func (oneWay) UnmarshalBSON([]byte) error { return errors.New("write only") }

func (exploding) UnmarshalBSON([]byte) error { panic("no decoding today") }

func TestPublish_1_6_BadInputStoresNothing(t *testing.T) {
	t.Parallel()
	c, db := publisher(t)
	ok := pulse.NewTopic[any]("bad")
	bad := "caf\xe9"
	for _, test := range []struct {
		name    string
		publish func(ctx context.Context) error
		want    string
	}{
		{"empty topic", with(c, pulse.NewTopic[any](""), 1), "pulse: publish: the topic's name is empty; nothing was stored"},
		{"blank topic", with(c, pulse.NewTopic[any](" \t"), 1), "pulse: publish: the topic's name is empty; nothing was stored"},
		{"topic not UTF-8", with(c, pulse.NewTopic[any](bad), 1), `pulse: publish: the topic's name "caf\xe9" is not valid UTF-8; nothing was stored`},
		{"nil client", with[any](nil, ok, 1), "pulse: topic bad: publish: the client is nil; nothing was stored"},
		{"empty ID", with[any](c, ok, 1, pulse.WithID("")), "pulse: topic bad: the event's ID is empty: give one, or leave WithID out for a new one; nothing was stored"},
		{"ID not UTF-8", with[any](c, ok, 1, pulse.WithID(bad)), `pulse: topic bad: the event's ID "caf\xe9" is not valid UTF-8; nothing was stored`},
		{"header not UTF-8", with[any](c, ok, 1, pulse.WithHeaders(map[string]string{"h": bad})), `pulse: topic bad: header "h" is not valid UTF-8; nothing was stored`},
		{"header's name not UTF-8", with[any](c, ok, 1, pulse.WithHeaders(map[string]string{bad: "v"})), `pulse: topic bad: header "caf\xe9" is not valid UTF-8; nothing was stored`},
		{"header's name with NUL", with[any](c, ok, 1, pulse.WithHeaders(map[string]string{"a\x00b": "v"})), "pulse: topic bad: cannot encode the event: BSON element key cannot contain null bytes; nothing was stored"},
		{"channel", with(c, pulse.NewTopic[chan int]("bad"), make(chan int)), "pulse: topic bad: cannot encode data of type chan int as BSON: no encoder found for chan int; nothing was stored"},
		{"function inside", with[any](c, ok, bson.M{"f": func() {}}), "pulse: topic bad: cannot encode data of type bson.M as BSON: no encoder found for func(); nothing was stored"},
		{"number out of range", with[any](c, ok, uint64(math.MaxUint64)), "pulse: topic bad: cannot encode data of type uint64 as BSON: 18446744073709551615 overflows int64; nothing was stored"},
		{"panicking encoder", with[any](c, ok, panicking{}), "pulse: topic bad: cannot encode data of type pulse_test.panicking as BSON: its encoding panicked: no encoding today; nothing was stored"},
		{"lying encoder", with[any](c, ok, lying{}), "pulse: topic bad: cannot encode data of type pulse_test.lying as BSON: it is not BSON: too few bytes to read next component; nothing was stored"},
		{"broken raw value", with(c, pulse.NewTopic[bson.RawValue]("bad"), bson.RawValue{Type: bson.TypeString, Value: []byte{9}}), "pulse: topic bad: cannot encode data of type bson.RawValue as BSON: it is not BSON: too few bytes to read next component; nothing was stored"},
		{"text not UTF-8", with[any](c, ok, bad), "pulse: topic bad: cannot encode data of type string as BSON: the value: text is not valid UTF-8, as BSON requires; binary data belongs in a []byte; nothing was stored"},
		{"text inside not UTF-8", with[any](c, ok, bson.M{"lines": []any{200, bson.M{"note": bad}}}), "pulse: topic bad: cannot encode data of type bson.M as BSON: lines[1].note: text is not valid UTF-8, as BSON requires; binary data belongs in a []byte; nothing was stored"},
		{"key not UTF-8", with[any](c, ok, bson.M{bad: 1}), `pulse: topic bad: cannot encode data of type bson.M as BSON: the value: key "caf\xe9": text is not valid UTF-8, as BSON requires; binary data belongs in a []byte; nothing was stored`},
		{"not decodable", with(c, pulse.NewTopic[*oneWay]("bad"), &oneWay{1}), "write only"},
		{"panicking decoder", with(c, pulse.NewTopic[*exploding]("bad"), &exploding{1}), "its decoding panicked: no decoding today"},
	} {
		t.Run(test.name, func(t *testing.T) {
			is := is.New(t)
			err := test.publish(t.Context())
			is.True(err != nil)
			if !strings.Contains(err.Error(), test.want) {
				t.Errorf("got  %s\nwant %s", err, test.want)
			}
			is.Equal(len(events(t, db)), 0)
		})
	}
}

// with publishes one event, and as one of several: both must refuse it.
func with[T any](c *pulse.Client, topic pulse.Topic[T], data T, opts ...pulse.PublishOption) func(context.Context) error {
	return func(ctx context.Context) error {
		event, err := topic.Publish(ctx, c, data, opts...)
		if event != nil {
			return fmt.Errorf("published %+v, with the error %w", event, err)
		}
		if len(opts) == 0 {
			results, err := topic.PublishMany(ctx, c, []pulse.Message[T]{{Data: data}})
			if err == nil || results != nil {
				return fmt.Errorf("PublishMany returned %v, %w", results, err)
			}
		}
		return err
	}
}

func TestPublish_1_6_LargestDocumentIsStored(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	c, db := publisher(t)
	topic := pulse.NewTopic[[]byte]("large")
	is.NoErr(second(topic.Publish(t.Context(), c, nil)))
	rest := len(events(t, db)[0]) + len("xxxx") + 1 // null has no bytes, a binary has a length and a subtype
	event, err := topic.Publish(t.Context(), c, make([]byte, 16<<20-rest))
	is.NoErr(err)
	is.Equal(len(event.Data), 16<<20-rest)
	is.Equal(len(events(t, db)[1]), 16<<20)
	_, err = topic.Publish(t.Context(), c, make([]byte, 16<<20-rest+1))
	is.True(err != nil)
	is.Equal(err.Error(), "pulse: topic large: the event has 16777217 bytes, MongoDB stores at most 16777216 in a document: store large content elsewhere and publish a reference; nothing was stored")
	is.Equal(len(events(t, db)), 2)
}
