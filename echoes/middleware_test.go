package echoes

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/matryer/is"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/orionjs/orion-go/pulse/pulsetest"
)

type userKey struct{}

func TestMiddleware_7_10_SeesTheCallAndReplacesTheContext(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	cfg, fake := kafkaConfig()
	var steps []string
	var calls []Call
	outer := func(ctx context.Context, call Call, next func(context.Context) error) error {
		steps = append(steps, "outer")
		calls = append(calls, call)
		ec, ok := FromContext(ctx) // before the handler too
		is.Equal(ok, call.Kind == KindEvent)
		is.True(!ok || ec.EventID == call.Items[0].EventID)
		err := next(context.WithValue(ctx, userKey{}, "ada"))
		steps = append(steps, "after")
		return err
	}
	inner := func(ctx context.Context, _ Call, next func(context.Context) error) error {
		steps = append(steps, "inner "+ctx.Value(userKey{}).(string))
		return next(ctx)
	}
	cfg.Middleware = []Middleware{outer, inner}
	failure := errors.New("no")
	a := newApp(t, cfg, service{On("a", func(ctx context.Context, p note) error {
		_, ok := FromContext(ctx)
		is.True(ok)
		steps = append(steps, "handler "+ctx.Value(userKey{}).(string)+" "+p.Text)
		return failure
	}, decodeNote).At("notes.go:7").Named("notes.(*Notes).Created")})
	is.NoErr(a.Start(t.Context()))
	defer func() { is.NoErr(a.Close(context.Background())) }()

	m := message(t, "a", "ev-1", bson.M{"text": "hello"})
	is.Equal(fake.deliver(t.Context(), m), failure)
	is.Equal(steps, []string{"outer", "inner ada", "handler ada hello", "after"})
	is.Equal(calls[0], Call{
		Topic: "a", Kind: KindEvent, Method: "notes.(*Notes).Created", Position: "notes.go:7", Transport: "kafka", Attempt: 2, Items: []EventContext{m.Event},
	})

	// What cannot be decoded is an outcome that middleware sees.
	steps = nil
	err := fake.deliver(t.Context(), message(t, "a", "ev-2", bson.M{"text": 1}))
	var problem *DecodeError
	is.True(errors.As(err, &problem))
	is.Equal(steps, []string{"outer", "inner ada", "after"})
}

func TestMiddleware_7_10_AroundBatches(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	var calls []Call
	var reported []error
	runs := 0
	cfg := Config{
		Kafka: &fakeCarrier{name: "kafka"}, Logger: slog.New(slog.DiscardHandler), OnError: func(err error) { reported = append(reported, err) },
		Middleware: []Middleware{func(ctx context.Context, call Call, next func(context.Context) error) error {
			calls = append(calls, call)
			if err := next(ctx); err == nil {
				t.Error("the first run succeeded")
			}
			return next(ctx)
		}},
	}
	a := newApp(t, cfg)
	l := OnBatch("a", 3, func(_ context.Context, items []Item[note]) error {
		runs++
		is.Equal(len(items), 1)
		if runs == 1 {
			return errTeapot
		}
		return nil
	}, decodeNote, OnInvalid("skip"))
	ms := []Message{message(t, "a", "1", bson.M{"text": 1}), message(t, "a", "2", bson.M{"text": "2"})}
	is.NoErr(a.handler(Receiver{Listener: l, InForce: l.settings})(t.Context(), ms))
	is.Equal(runs, 2)
	is.Equal(calls[0].Kind, KindBatch)
	is.Equal(calls[0].Items, []EventContext{ms[0].Event, ms[1].Event})
	// Two runs left the item out, and one of them succeeded.
	is.Equal(a.SkippedItems("a"), 1)
	is.Equal(len(reported), 1)
}

func TestMiddleware_7_10_DecidesTheOutcome(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	cfg, fake := kafkaConfig()
	decide := func(context.Context, Call, func(context.Context) error) error { return nil }
	cfg.Middleware = []Middleware{func(ctx context.Context, call Call, next func(context.Context) error) error {
		return decide(ctx, call, next)
	}}
	called := false
	a := newApp(t, cfg, service{On("a", func(context.Context, note) error { called = true; return nil }, decodeNote)})
	is.NoErr(a.Start(t.Context()))
	defer func() { is.NoErr(a.Close(context.Background())) }()
	m := message(t, "a", "ev-1", bson.M{"text": "hello"})

	is.NoErr(fake.deliver(t.Context(), m)) // as an inbox that has seen the event
	is.True(!called)
	decide = func(context.Context, Call, func(context.Context) error) error { return errTeapot }
	is.Equal(fake.deliver(t.Context(), m), errTeapot)
	decide = func(context.Context, Call, func(context.Context) error) error { panic("boom") }
	defer func() { is.Equal(recover(), "boom") }() // the handler's panic
	_ = fake.deliver(t.Context(), m)
}

func TestMiddleware_7_10_ClosesFromInside(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	cfg, fake := kafkaConfig()
	var a *App
	cfg.Middleware = []Middleware{func(ctx context.Context, _ Call, next func(context.Context) error) error {
		is.NoErr(a.Close(ctx)) // only begins, as in a handler
		return next(ctx)
	}}
	a = newApp(t, cfg, service{on("a")})
	is.NoErr(a.Start(t.Context()))
	is.NoErr(fake.deliver(t.Context(), message(t, "a", "1", bson.M{"text": "x"})))
	is.NoErr(a.Close(context.Background()))
}

func TestCheck_7_10_NilMiddleware(t *testing.T) {
	t.Parallel()
	cfg, _ := kafkaConfig()
	cfg.Middleware = []Middleware{nil}
	expectProblems(t, newApp(t, cfg).Check(), "Config.Middleware[0] is nil")
}

func TestMiddleware_7_10_OutcomesOverPulse(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	cfg := onPulse(pulsetest.Database(t))
	var attempts pulsetest.Recorder[string]
	cfg.Middleware = []Middleware{func(ctx context.Context, call Call, next func(context.Context) error) error {
		if call.Attempt == 1 {
			attempts.Add("first")
			panic("boom")
		}
		err := next(ctx)
		attempts.Add(strings.Repeat("again ", call.Attempt-1) + call.Transport)
		return err
	}}
	a := started(t, cfg, service{On("t", func(context.Context, note) error { return nil }, decodeNote, single()...)})
	publish(t, a, "t", note{"x"})
	is.Equal(attempts.Wait(t, 2), []string{"first", "again pulse"}) // its panic failed the attempt
}
