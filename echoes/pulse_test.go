package echoes

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/orionjs/orion-go/pulse"
	"github.com/orionjs/orion-go/pulse/pulsetest"
)

// single are the options of single-event listeners in these tests.
func single(more ...Option) []Option {
	return append([]Option{Ordered(false), ExecutionVersion(2), RetryDelay(time.Millisecond)}, more...)
}

// onPulse is a configuration over the test's database.
func onPulse(db *mongo.Database) Config {
	return Config{
		Pulse:  &Pulse{Client: db.Client(), Config: pulse.Config{ConsumerGroup: "billing", Database: db.Name()}},
		Logger: slog.New(slog.DiscardHandler),
	}
}

// started starts an app that is closed with the test.
func started(t *testing.T, cfg Config, services ...Service) *App {
	t.Helper()
	a := newApp(t, cfg, services...)
	if err := a.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Close(context.Background()); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return a
}

func publish(t *testing.T, a *App, topic string, params any, opts ...PublishOption) EventRef {
	t.Helper()
	ref, err := a.Publish(t.Context(), topic, params, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return ref
}

func TestPulse_7_5_FromPublishToHandlers(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	db := pulsetest.Database(t)
	var plain pulsetest.Recorder[EventContext]
	var items pulsetest.Recorder[Item[invoice]]
	var batches pulsetest.Recorder[[]Item[note]]
	want := sampleInvoice(t)

	publisher := started(t, onPulse(db))
	for i := range 25 {
		publish(t, publisher, "batch", note{fmt.Sprint(i)})
	}
	a := started(t, onPulse(db), service{
		On("plain", func(ctx context.Context, p note) error {
			ec, ok := FromContext(ctx)
			is.True(ok)
			is.Equal(p, note{"hello"})
			plain.Add(ec)
			return nil
		}, decodeNote, single()...),
		OnItem("item", func(_ context.Context, item Item[invoice]) error {
			items.Add(item)
			return nil
		}, decodeInvoice, single()...),
		OnBatch("batch", 10, func(_ context.Context, b []Item[note]) error {
			batches.Add(b)
			return nil
		}, decodeNote, OffsetReset("earliest"), MaxConcurrency(1)),
	})
	ref := publish(t, a, "plain", note{"hello"}, WithID("my-id"), WithHeaders(map[string]string{"trace": "1"}))
	is.Equal(ref.ID, "my-id")
	item := publish(t, a, "item", want)

	ec := plain.Wait(t, 1)[0]
	is.True(time.Since(ec.CreatedAt) < time.Hour)
	is.Equal(ec, EventContext{
		EventID: "my-id", Topic: "plain", Headers: map[string]string{"trace": "1"}, CreatedAt: ref.CreatedAt, Attempt: 1, ConsumerGroup: "billing", Transport: "pulse",
	})
	got := items.Wait(t, 1)[0]
	is.Equal(got.EventID, item.ID)
	is.Equal(got.Params, want)

	var texts, ids []string
	for _, b := range batches.Wait(t, 3) {
		is.True(len(b) <= 10)
		for _, i := range b {
			texts = append(texts, i.Params.Text)
			ids = append(ids, i.EventID)
			is.Equal(i.Transport, "pulse")
			is.Equal(i.Attempt, 1)
		}
	}
	is.Equal(len(texts), 25)
	for i, text := range texts {
		is.Equal(text, fmt.Sprint(i)) // in the order of publication
	}
	is.True(ids[0] != ids[1])
}

func TestPulse_7_7_StoresParamsInTheDocumentOfTheOriginal(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	db := pulsetest.Database(t)
	a := started(t, onPulse(db))
	ref := publish(t, a, "t", bson.D{{Key: "a", Value: int64(1)}})
	publish(t, a, "t", "text", WithID("scalar"))
	publish(t, a, "t", nil, WithID("nothing"))
	for id, want := range map[string]any{
		ref.ID:    bson.D{{Key: "params", Value: bson.D{{Key: "a", Value: int64(1)}}}},
		"scalar":  bson.D{{Key: "params", Value: "text"}},
		"nothing": bson.D{{Key: "params", Value: nil}},
	} {
		var doc struct{ Data bson.D }
		is.NoErr(db.Collection("orionjs.pulse.events").FindOne(t.Context(), bson.M{"_id": id}).Decode(&doc))
		is.Equal(doc.Data, want)
	}
}

func TestPulse_1_3_DuplicatesAndConflicts(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := started(t, onPulse(pulsetest.Database(t)))
	first := publish(t, a, "t", note{"x"}, WithID("id"))
	is.True(!first.Duplicate)
	second := publish(t, a, "t", note{"x"}, WithID("id"))
	is.True(second.Duplicate)
	is.Equal(second.CreatedAt, first.CreatedAt)
	_, err := a.Publish(t.Context(), "t", note{"y"}, WithID("id"))
	var conflict *pulse.ConflictError
	is.True(errors.As(err, &conflict))
}

// delivery is what the tests look at of a stored delivery.
type delivery struct {
	Status   string
	Attempt  int
	Error    struct{ Code, Name, Message string }
	Attempts []struct {
		Status string
		Error  struct{ Code, Message string }
	}
}

// settled waits until the event's delivery has ended.
func settled(t *testing.T, db *mongo.Database, eventID string) delivery {
	t.Helper()
	var d delivery
	pulsetest.Eventually(t, "the delivery has ended", func(ctx context.Context) error {
		d = delivery{}
		filter := bson.M{"$or": bson.A{bson.M{"eventId": eventID}, bson.M{"eventIds": eventID}}}
		if err := db.Collection("orionjs.pulse.deliveries").FindOne(ctx, filter).Decode(&d); err != nil {
			return err
		}
		if d.Status != "v2-success" && d.Status != "v2-error" {
			return fmt.Errorf("it is %s", d.Status)
		}
		return nil
	})
	return d
}

func TestPulse_4_2_UndecodableEventsFollowTheRetryPolicy(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	db := pulsetest.Database(t)
	a := started(t, onPulse(db), service{
		On("t", func(context.Context, note) error { t.Error("called"); return nil }, decodeNote, single(MaxRetries(2))...),
		OnBatch("b", 10, func(context.Context, []Item[note]) error { t.Error("called"); return nil }, decodeNote, MaxRetries(0)),
	})
	ref := publish(t, a, "t", bson.M{"text": 1})
	d := settled(t, db, ref.ID)
	is.Equal(d.Status, "v2-error")
	is.Equal(d.Attempt, 3)
	is.Equal(d.Error.Code, "decode_error")
	is.Equal(d.Error.Name, "*echoes.DecodeError")
	is.Equal(d.Error.Message, "echoes: topic t, event "+ref.ID+": text: want string, got int32")
	is.Equal(d.Attempts[0].Error.Code, "decode_error")

	ref = publish(t, a, "b", bson.M{"text": 1})
	d = settled(t, db, ref.ID)
	is.Equal(d.Error.Code, "decode_error")
	is.Equal(d.Error.Message, "echoes: topic b, event "+ref.ID+": text: want string, got int32")

	// An event of somebody who does not know of params.
	client, err := pulse.New(t.Context(), db.Client(), pulse.Config{ConsumerGroup: "other", Database: db.Name()})
	is.NoErr(err)
	defer func() { is.NoErr(client.Close(context.Background())) }()
	for _, data := range []bson.RawValue{raw(t, bson.M{"text": "x"}), raw(t, "x"), raw(t, bson.A{})} {
		ev, err := pulse.NewTopic[bson.RawValue]("t").Publish(t.Context(), client, data)
		is.NoErr(err)
		d = settled(t, db, ev.ID)
		is.Equal(d.Error.Code, "decode_error")
		is.True(strings.Contains(d.Error.Message, "no document with the field params"))
	}
}

func TestPulse_7_8_SkipLeavesUndecodableItemsOut(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	db := pulsetest.Database(t)
	publisher := started(t, onPulse(db))
	for i := range 6 {
		var params any = note{fmt.Sprint(i)}
		if i%3 == 1 {
			params = bson.M{"text": i}
		}
		publish(t, publisher, "t", params, WithID(fmt.Sprint("ev-", i)))
	}
	var batches pulsetest.Recorder[[]Item[note]]
	var reported pulsetest.Recorder[error]
	cfg := onPulse(db)
	cfg.OnError = func(err error) { reported.Add(err) }
	a := started(t, cfg, service{OnBatch("t", 6, func(_ context.Context, b []Item[note]) error {
		batches.Add(b)
		return nil
	}, decodeNote, OffsetReset("earliest"), OnInvalid("skip"))})

	b := batches.Wait(t, 1)[0]
	is.Equal(len(b), 4)
	is.Equal(b[1].EventID, "ev-2")
	var invalid *InvalidItemsError
	is.True(errors.As(reported.Wait(t, 1)[0], &invalid))
	is.Equal(invalid.Items[1].EventID, "ev-4")
	is.Equal(a.SkippedItems("t"), 2)
	is.Equal(settled(t, db, "ev-1").Status, "v2-success")
}

func TestPulse_4_6_PermanentAndRetriesPassThrough(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	db := pulsetest.Database(t)
	var attempts pulsetest.Recorder[int]
	a := started(t, onPulse(db), service{
		On("permanent", func(context.Context, note) error { return pulse.Permanent(errors.New("no")) }, decodeNote, single()...),
		OnItem("retry", func(_ context.Context, i Item[note]) error {
			attempts.Add(i.Attempt)
			if i.Attempt < 3 {
				return errors.New("not yet")
			}
			return nil
		}, decodeNote, single()...),
	})
	d := settled(t, db, publish(t, a, "permanent", nil).ID)
	is.Equal(d.Status, "v2-error")
	is.Equal(d.Attempt, 1)
	d = settled(t, db, publish(t, a, "retry", nil).ID)
	is.Equal(d.Status, "v2-success")
	is.Equal(attempts.Values(), []int{1, 2, 3})
}

func TestStart_2_6_OtherSettingsAreReportedWithThePositionBeforeAnyHandlerRuns(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	db := pulsetest.Database(t)
	first := started(t, onPulse(db), service{onBatch("x", 10), onBatch("y", 10), onBatch("z", 10)})
	is.NoErr(first.Close(t.Context()))

	var handled pulsetest.Recorder[string]
	handle := func(_ context.Context, items []Item[note]) error {
		for _, i := range items {
			handled.Add(i.Params.Text)
		}
		return nil
	}
	publisher := started(t, onPulse(db))
	publish(t, publisher, "x", note{"waiting"})
	listeners := func(size, version int) service {
		return service{
			OnBatch("x", 10, handle, decodeNote).At("n.go:1"),
			OnBatch("y", size, handle, decodeNote, ConfigVersion(version)).At("n.go:2").Named("(*N).Y"),
			OnBatch("z", 10, handle, decodeNote, MaxRetries(5*version)).At("n.go:3"),
		}
	}
	a := newApp(t, onPulse(db), listeners(20, 0))
	err := a.Start(t.Context())
	expectProblems(t, err,
		"n.go:2: (*N).Y (topic y): group billing: … batchSize … 10 … 20",
		"n.go:3: … (topic z): group billing: … maxRetries",
	)
	var cause *pulse.ConfigurationError
	is.True(errors.As(err, &cause))
	is.Equal(handled.Len(), 0)

	// The next start, with a raised configVersion, succeeds.
	a = started(t, onPulse(db), service{listeners(20, 1)[0], listeners(20, 1)[1]})
	is.Equal(handled.Wait(t, 1), []string{"waiting"})
	is.Equal(a.Start(t.Context()), ErrStarted)
}

func TestStart_7_6_WhatPulseRefusesNamesThePosition(t *testing.T) {
	t.Parallel()
	cfg := Config{Pulse: &Pulse{URI: "mongodb://127.0.0.1:1/", Config: pulse.Config{ConsumerGroup: "g", Database: "a b", PollInterval: -5}}}
	expectProblems(t, newApp(t, cfg, service{onBatch("a", 1)}).Start(t.Context()), "Config.Pulse: Database", "Config.Pulse: PollInterval")
	cfg = Config{Pulse: &Pulse{URI: "mongo//", Config: pulse.Config{ConsumerGroup: "g", Database: "d"}}}
	expectProblems(t, newApp(t, cfg).Start(t.Context()), "Config.Pulse: the MongoDB URI is not usable")
}

func TestStart_7_5_OverAURIAndAgainAfterAFailure(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	db := pulsetest.Database(t)
	cfg := onPulse(db)
	cfg.Pulse.Client, cfg.Pulse.URI = nil, pulsetest.URI(t)
	var got pulsetest.Recorder[note]
	a := newApp(t, cfg, service{On("t", func(_ context.Context, p note) error { got.Add(p); return nil }, decodeNote, single()...)})

	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	is.True(errors.Is(a.Start(cancelled), context.Canceled))
	is.NoErr(a.Start(t.Context()))
	publish(t, a, "t", note{"x"})
	is.Equal(got.Wait(t, 1), []note{{"x"}})
	is.NoErr(a.Close(t.Context()))
	is.NoErr(a.Close(t.Context()))
	_, err := a.Publish(t.Context(), "t", nil)
	is.True(errors.Is(err, ErrClosed))
	is.True(errors.Is(err, pulse.ErrClosed))
}

func TestClose_2_9_FromAHandlerAndWaitsForIt(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	db := pulsetest.Database(t)
	var a *App
	inside, release := make(chan struct{}), make(chan struct{})
	var done pulsetest.Recorder[string]
	a = started(t, onPulse(db), service{On("t", func(ctx context.Context, _ note) error {
		is.NoErr(a.Close(ctx)) // does not wait for this handler
		is.NoErr(a.Close(ctx))
		close(inside)
		<-release
		done.Add("handler")
		return nil
	}, decodeNote, single()...)})
	ref := publish(t, a, "t", nil)
	<-inside
	closed := make(chan error, 1)
	go func() {
		err := a.Close(context.Background()) // waits, although it is the third
		done.Add("close")
		closed <- err
	}()
	close(release)
	is.NoErr(<-closed)
	is.Equal(done.Values(), []string{"handler", "close"})
	is.Equal(settled(t, db, ref.ID).Status, "v2-success") // its outcome is stored
}

func TestClose_2_9_CancelsHandlersWhenItsPatienceEnds(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	db := pulsetest.Database(t)
	inside := make(chan struct{})
	a := started(t, onPulse(db), service{On("t", func(ctx context.Context, _ note) error {
		close(inside)
		<-ctx.Done()
		return ctx.Err()
	}, decodeNote, single()...)})
	publish(t, a, "t", nil)
	<-inside
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = a.Close(ctx) // tells of the handler that it cancelled, if Pulse does
	var d delivery
	is.NoErr(db.Collection("orionjs.pulse.deliveries").FindOne(context.Background(), bson.M{"topic": "t"}).Decode(&d))
	is.Equal(d.Status, "v2-pending") // handed back
}
