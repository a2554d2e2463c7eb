package echoes

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/matryer/is"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/orionjs/orion-go/pulse"
)

func message(t *testing.T, topic, id string, params any) Message {
	t.Helper()
	return Message{Params: raw(t, params), Event: EventContext{
		EventID: id, Topic: topic, Headers: map[string]string{"h": "v"}, CreatedAt: time.UnixMilli(1).UTC(), Attempt: 2, ConsumerGroup: "g", Transport: "kafka",
	}}
}

func TestHandle_7_1_HandlersGetParamsItemsAndContext(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	cfg, fake := kafkaConfig()
	var params note
	var ec EventContext
	var item Item[note]
	failure := errors.New("no")
	a := newApp(t, cfg, service{
		On("plain", func(ctx context.Context, p note) error {
			params = p
			ec, _ = FromContext(ctx)
			return failure
		}, decodeNote),
		OnItem("item", func(ctx context.Context, i Item[note]) error {
			item = i
			return nil
		}, decodeNote),
	})
	is.NoErr(a.Start(t.Context()))
	defer func() { is.NoErr(a.Close(context.Background())) }()

	m := message(t, "plain", "ev-1", bson.M{"text": "hello", "unknown": 1})
	is.Equal(fake.deliver(t.Context(), m), failure) // the handler's error as it is
	is.Equal(params, note{"hello"})
	is.Equal(ec, m.Event)

	m = message(t, "item", "ev-2", bson.M{"text": "again"})
	is.NoErr(fake.deliver(t.Context(), m))
	is.Equal(item, Item[note]{Params: note{"again"}, EventContext: m.Event})
	is.Equal(item.EventID, "ev-2") // promoted
	is.Equal(item.Transport, "kafka")

	_, ok := FromContext(t.Context())
	is.True(!ok)
}

func TestHandle_7_3_DecodeErrorsNameTopicAndEvent(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	cfg, fake := kafkaConfig()
	a := newApp(t, cfg, service{On("a", func(context.Context, note) error { t.Error("called"); return nil }, decodeNote)})
	is.NoErr(a.Start(t.Context()))
	defer func() { is.NoErr(a.Close(context.Background())) }()

	err := fake.deliver(t.Context(), message(t, "a", "ev-1", bson.M{"text": 1}))
	is.Equal(err.Error(), "echoes: topic a, event ev-1: text: want string, got int32")
	var known *pulse.DecodeError // Pulse records it with code decode_error
	is.True(errors.As(err, &known))
	is.Equal(known.EventID, "ev-1")

	err = fake.deliver(t.Context(), Message{Event: EventContext{Topic: "a", EventID: "ev-2"}})
	is.Equal(err.Error(), "echoes: topic a, event ev-2: params: missing: the event's data is no document with the field params (published with pulse.Topic.Publish instead of App.Publish?)")
	err = fake.deliver(t.Context(), Message{Event: EventContext{Topic: "a", EventID: "ev-3"}, Err: errors.New("no JSON")})
	is.Equal(err.Error(), "echoes: topic a, event ev-3: params: no JSON")
}

func TestHandle_7_8_BatchFailsOrSkips(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	var log bytes.Buffer
	var reported []error
	var calls [][]Item[note]
	var result error
	fake := &fakeCarrier{name: "kafka"}
	cfg := Config{Kafka: fake, Logger: slog.New(slog.NewTextHandler(&log, nil)), OnError: func(err error) { reported = append(reported, err) }}
	handle := func(ctx context.Context, items []Item[note]) error {
		_, ok := FromContext(ctx)
		is.True(!ok) // items have their own context
		calls = append(calls, items)
		return result
	}
	a := newApp(t, cfg)
	run := func(ms []Message, opts ...Option) error {
		l := OnBatch("a", 3, handle, decodeNote, opts...).At("notes.go:9").Named("(*Notes).Created")
		return a.handler(Receiver{Listener: l, InForce: l.settings})(t.Context(), ms)
	}
	good := func(id string) Message { return message(t, "a", id, bson.M{"text": id}) }
	bad := func(id string) Message { return message(t, "a", id, bson.M{"text": 1}) }

	is.NoErr(run([]Message{good("1"), good("2")}))
	is.Equal(len(calls), 1)
	is.Equal(calls[0][1].Params.Text, "2")
	is.Equal(calls[0][1].EventID, "2")

	// fail, the default: the handler does not run at all.
	err := run([]Message{good("1"), bad("2"), good("3")})
	is.Equal(err.Error(), "echoes: topic a, event 2: text: want string, got int32")
	is.Equal(len(calls), 1)

	// skip: the rest is handled, and told of.
	is.NoErr(run([]Message{bad("1"), good("2"), bad("3")}, OnInvalid("skip")))
	is.Equal(len(calls), 2)
	is.Equal(len(calls[1]), 1)
	is.Equal(calls[1][0].EventID, "2")
	is.Equal(a.SkippedItems("a"), 2)
	is.Equal(len(reported), 1)
	var invalid *InvalidItemsError
	is.True(errors.As(reported[0], &invalid))
	is.Equal(len(invalid.Items), 2)
	is.Equal(reported[0].Error(), "echoes: notes.go:9: (*Notes).Created (topic a): 2 of 3 items were left out because they cannot be decoded, the first: echoes: topic a, event 1: text: want string, got int32")
	is.True(strings.Contains(log.String(), "count=2 total=3"))

	// A careless OnError does not fail the batch.
	a.cfg.OnError = func(error) { panic("boom") }
	a.report(errors.New("x"))
	a.cfg.OnError = cfg.OnError
	is.True(strings.Contains(log.String(), `Config.OnError failed" error="it panicked: boom"`))

	// A batch that fails will come again: nothing is left out yet.
	result = errors.New("no")
	is.Equal(run([]Message{bad("1"), good("2")}, OnInvalid("skip")), result)
	is.Equal(a.SkippedItems("a"), 2)
	is.Equal(len(reported), 1)

	// Nothing left: success without a call.
	is.NoErr(run([]Message{bad("1")}, OnInvalid("skip")))
	is.Equal(len(calls), 3)
	is.Equal(a.SkippedItems("a"), 3)
}

func TestStart_7_5_ConnectsAllThenStarts(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	cfg, fake := kafkaConfig()
	a := newApp(t, cfg, service{on("a")})
	is.NoErr(a.Start(t.Context()))
	is.Equal(a.Start(t.Context()), ErrStarted)
	is.Equal(fake.called(), "connect start")
	is.Equal(len(fake.receivers), 1)
	is.NoErr(a.Close(t.Context()))
	is.NoErr(a.Close(t.Context()))
	is.Equal(a.Start(t.Context()), ErrClosed)
	_, err := a.Publish(t.Context(), "a", nil)
	is.NoErr(err) // the carrier decides: a real one says that it is closed
}

func TestStart_7_5_AFailedStartCanBeRepeated(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	cfg, fake := kafkaConfig()
	down := errors.New("broker down")
	fake.connect = down
	a := newApp(t, cfg, service{on("a")})
	err := a.Start(t.Context())
	is.True(errors.Is(err, down))
	is.Equal(err.Error(), "echoes: connect kafka: broker down")
	is.Equal(fake.called(), "connect close")
	_, err = a.Publish(t.Context(), "a", nil)
	is.Equal(err, ErrNotStarted)

	fake.connect = &StartupError{Problems: []Problem{{Text: "topic unknown"}}}
	expectProblems(t, a.Start(t.Context()), "topic unknown")

	fake.connect = nil
	is.NoErr(a.Start(t.Context()))
	is.Equal(fake.called(), "connect close connect close connect start")
	is.NoErr(a.Close(t.Context()))
}

func TestStart_7_5_NothingStartsWhenOneCannotConnect(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	cfg, fake := kafkaConfig()
	fake.connect = errors.New("broker down")
	cfg.Pulse = &Pulse{URI: "mongodb://127.0.0.1:1/", Config: pulse.Config{ConsumerGroup: "g", Database: "d"}}
	cfg.ConsumeFrom = FromBoth
	a := newApp(t, cfg, service{on("a", Ordered(false), ExecutionVersion(2), Transport("both"))})
	err := a.Start(t.Context())
	is.Equal(err.Error(), "echoes: connect kafka: broker down") // and no attempt to reach MongoDB
	is.Equal(fake.called(), "connect close")
}

func TestClose_7_5_InterruptsStart(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	cfg, fake := kafkaConfig()
	connecting := make(chan struct{})
	fake.onConnect = func(ctx context.Context) error {
		close(connecting)
		<-ctx.Done()
		return context.Cause(ctx)
	}
	a := newApp(t, cfg, service{on("a")})
	result := make(chan error, 1)
	go func() { result <- a.Start(context.Background()) }()
	<-connecting
	is.NoErr(a.Close(t.Context()))
	is.Equal(<-result, ErrClosed)
	is.Equal(a.Start(t.Context()), ErrClosed)
	_, err := a.Publish(t.Context(), "a", nil)
	is.Equal(err, ErrClosed)
}

func TestClose_7_5_FromAHandlerWhileStartRuns(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	cfg, fake := kafkaConfig()
	var a *App
	handled := make(chan error, 1)
	fake.onStart = func(ctx context.Context) error {
		// Start returns only after the handler, whose Close must not wait for it.
		return fake.deliver(context.Background(), message(t, "a", "1", bson.M{}))
	}
	a = newApp(t, cfg, service{On("a", func(ctx context.Context, _ note) error {
		handled <- a.Close(ctx)
		return nil
	}, decodeNote)})
	is.Equal(a.Start(t.Context()), ErrClosed)
	is.NoErr(<-handled)
}

func TestClose_7_5_GivesUpWaitingWithItsContext(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	cfg, fake := kafkaConfig()
	connecting, release := make(chan struct{}), make(chan struct{})
	fake.onConnect = func(context.Context) error { // deaf to its context
		close(connecting)
		<-release
		return nil
	}
	a := newApp(t, cfg, service{on("a")})
	result := make(chan error, 1)
	go func() { result <- a.Start(context.Background()) }()
	<-connecting
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	is.True(errors.Is(a.Close(ctx), context.Canceled))
	close(release)
	is.Equal(<-result, ErrClosed) // and what was connected late is closed
	is.Equal(fake.called(), "connect close close")
}

func TestClose_7_5_AtAnyMomentOfStartLeavesNothingOpen(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	for range 300 {
		cfg, fake := kafkaConfig()
		a := newApp(t, cfg, service{on("a")})
		result := make(chan error, 1)
		go func() { result <- a.Start(context.Background()) }()
		is.NoErr(a.Close(t.Context()))
		err := <-result
		is.True(err == nil || errors.Is(err, ErrClosed))
		calls := fake.called()
		is.True(calls == "" || strings.HasSuffix(calls, "close"))
	}
}

func TestClose_7_5_OfAnotherAppInAHandlerWaits(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	cfg, inner := kafkaConfig()
	closed := make(chan struct{})
	inner.onClose = func(context.Context) error {
		close(closed)
		return nil
	}
	other := newApp(t, cfg)
	is.NoErr(other.Start(t.Context()))
	cfg, fake := kafkaConfig()
	a := newApp(t, cfg, service{On("a", func(ctx context.Context, _ note) error {
		is.NoErr(other.Close(ctx))
		select {
		case <-closed:
		default:
			t.Error("Close has not waited")
		}
		return nil
	}, decodeNote)})
	is.NoErr(a.Start(t.Context()))
	is.NoErr(fake.deliver(t.Context(), message(t, "a", "1", nil)))
	is.NoErr(a.Close(t.Context()))
}

func TestClose_7_5_TheLeastPatientCallerCounts(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	cfg, fake := kafkaConfig()
	closing := make(chan struct{})
	fake.onClose = func(ctx context.Context) error {
		close(closing)
		<-ctx.Done() // a handler that runs on until it is cancelled
		return nil
	}
	a := newApp(t, cfg)
	is.NoErr(a.Start(t.Context()))
	patient := make(chan error, 1)
	go func() { patient <- a.Close(context.Background()) }()
	<-closing
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	is.NoErr(a.Close(ctx))
	is.NoErr(<-patient)
}

func TestPublish_7_5_GoesWherePublishToSays(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	cfg, fake := kafkaConfig()
	a := newApp(t, cfg)
	_, err := a.Publish(t.Context(), "a", nil)
	is.Equal(err, ErrNotStarted)
	is.NoErr(a.Start(t.Context()))
	defer func() { is.NoErr(a.Close(context.Background())) }()

	ref, err := a.Publish(t.Context(), "a", note{"x"}, WithID("my-id"), WithHeaders(map[string]string{"k": "1"}), WithHeaders(map[string]string{"l": "2"}))
	is.NoErr(err)
	is.Equal(ref, EventRef{ID: "my-id", Topic: "a"})
	out := fake.published[0]
	is.Equal(out.Headers, map[string]string{"k": "1", "l": "2"})
	got, err := DecodeParams(out.Params, decodeNote)
	is.NoErr(err)
	is.Equal(got, note{"x"})

	for _, params := range []any{nil, raw(t, nil), bson.RawValue{}, (*note)(nil)} {
		_, err = a.Publish(t.Context(), "a", params)
		is.NoErr(err)
		is.Equal(fake.published[len(fake.published)-1].Params.Type, bson.TypeNull)
	}
	for name, c := range map[string]struct {
		topic  string
		params any
		opt    PublishOption
		want   string
	}{
		"no topic":   {"", 1, nil, `echoes: publish to "": the topic is empty`},
		"empty ID":   {"a", 1, WithID(""), "echoes: publish to a: the ID given by WithID is empty"},
		"bad params": {"a", make(chan int), nil, "echoes: publish to a: params of type chan int cannot be encoded"},
		"panic":      {"a", panicking{}, nil, "echoes: publish to a: params of type echoes.panicking cannot be encoded: its encoding panicked: boom"},
		"bad bytes":  {"a", bson.RawValue{Type: bson.TypeString, Value: []byte{9, 0, 0, 0}}, nil, "malformed BSON"},
	} {
		_, err := a.Publish(t.Context(), c.topic, c.params, c.opt)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

type panicking struct{}

func (panicking) MarshalBSON() ([]byte, error) { panic("boom") }

func TestPublish_7_5_ToBothUnderOneID(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	first, second := &fakeCarrier{name: "pulse"}, &fakeCarrier{name: "kafka"}
	a := newApp(t, Config{Kafka: second, PublishTo: ToBoth})
	a.pulse = first
	a.ready = true

	ref, err := a.Publish(t.Context(), "a", 1)
	is.NoErr(err)
	id, err := uuid.Parse(ref.ID)
	is.NoErr(err)
	is.Equal(id.Version(), uuid.Version(7))
	is.Equal(first.published[0].ID, ref.ID)
	is.Equal(second.published[0].ID, ref.ID)

	down := errors.New("broker down")
	second.publish = down
	ref, err = a.Publish(t.Context(), "a", 1, WithID("x"))
	is.Equal(ref.ID, "x")
	is.True(errors.Is(err, down))
	is.Equal(err.Error(), "echoes: publish to a: event x is stored in pulse, but kafka failed, publish again with WithID: broker down")

	first.publish = down
	second.publish = nil
	_, err = a.Publish(t.Context(), "a", 1)
	is.Equal(err.Error(), "echoes: publish to a over pulse: broker down")
	is.Equal(len(second.published), 1) // not sent when the first failed
}
