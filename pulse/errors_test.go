package pulse_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/orionjs/orion-go/pulse"
	"github.com/orionjs/orion-go/pulse/observe"
	"github.com/orionjs/orion-go/pulse/pulsetest"
)

// hostile is an error whose methods cannot be trusted.
type hostile struct{}

func (hostile) Error() string { panic("no text") }
func (hostile) Unwrap() error { panic("no cause") }

// declined is an error type of a service.
type declined struct{ card string }

func (d *declined) Error() string { return "card declined: " + d.card }

// What a handler does, and what is recorded of it (4.2, 4.6).
func TestErrors_4_2_WhatIsStoredOfAFailure(t *testing.T) {
	t.Parallel()
	c, db := publisher(t)
	for i, test := range []struct {
		name     string
		handler  func(context.Context, *pulse.Event[int]) error
		attempts int
		code     string
		typ      string
		message  string // how it begins
		stack    string
	}{
		{"error", func(context.Context, *pulse.Event[int]) error { return &declined{"1234"} }, 2, "handler_error", "*pulse_test.declined", "card declined: 1234", ""},
		{"wrapped", func(context.Context, *pulse.Event[int]) error { return fmt.Errorf("pay: %w", &declined{"1234"}) }, 2, "handler_error", "*pulse_test.declined", "pay: card declined: 1234", ""},
		{"permanent", func(context.Context, *pulse.Event[int]) error { return pulse.Permanent(&declined{"1234"}) }, 1, "handler_error", "*pulse_test.declined", "card declined: 1234", ""},
		{"permanent, wrapped", func(context.Context, *pulse.Event[int]) error {
			return fmt.Errorf("pay: %w", pulse.Permanent(&declined{"1234"}))
		}, 1, "handler_error", "*pulse_test.declined", "pay: card declined: 1234", ""},
		{"panic", func(context.Context, *pulse.Event[int]) error { panic("boom") }, 2, "handler_error", "panic", "panic: boom", "pulse_test.TestErrors_4_2_WhatIsStoredOfAFailure"},
		{"panic with an error", func(context.Context, *pulse.Event[int]) error { panic(&declined{"1234"}) }, 2, "handler_error", "panic", "panic: card declined: 1234", "goroutine "},
		{"panic with nil", func(context.Context, *pulse.Event[int]) error { panic(nil) }, 2, "handler_error", "panic", "panic: panic called with nil argument", "goroutine "},
		{"goexit", func(context.Context, *pulse.Event[int]) error { runtime.Goexit(); return nil }, 2, "handler_error", "panic", "panic: the handler called runtime.Goexit", ""},
		{"hostile error", func(context.Context, *pulse.Event[int]) error { return hostile{} }, 2, "handler_error", "pulse_test.hostile", "(the error's own Error method panicked: string)", ""},
		{"hostile error, joined", func(context.Context, *pulse.Event[int]) error { return errors.Join(hostile{}) }, 2, "handler_error", "*errors.joinError", "(the error's own Error method panicked: string)", ""},
		{"nil of a type", func(context.Context, *pulse.Event[int]) error { return (*declined)(nil) }, 2, "handler_error", "*pulse_test.declined", "(the error's own Error method panicked: runtime.", ""},
		{"decode error of its own", func(context.Context, *pulse.Event[int]) error {
			return fmt.Errorf("read: %w", &pulse.DecodeError{Topic: "t", EventID: "e", Err: errors.New("no JSON")})
		}, 2, "decode_error", "DecodeError", "read: pulse: topic t, event e: cannot decode the data: no JSON", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			topic := pulse.NewTopic[int](fmt.Sprint("t", i))
			_, err := topic.Subscribe(t.Context(), c, test.handler, unordered(pulse.MaxRetries(1), pulse.RetryDelay(time.Millisecond))...)
			is.NoErr(err)
			is.NoErr(second(topic.Publish(t.Context(), c, 1)))
			doc := ended(t, db, "billing", topic.Name(), "v2-error", 1)[0]
			failure := doc.Lookup("error").Document()
			is.Equal(failure.Lookup("code").StringValue(), test.code)
			is.Equal(failure.Lookup("name").StringValue(), test.typ)
			if message := failure.Lookup("message").StringValue(); !strings.HasPrefix(message, test.message) {
				t.Errorf("message %q, want %q", message, test.message)
			}
			stack, _ := failure.Lookup("stack").StringValueOK()
			is.True(strings.Contains(stack, test.stack))
			is.Equal(stack == "", test.stack == "")
			is.Equal(doc.Lookup("finalAttempt").AsInt64(), int64(test.attempts))
			attempts, err := doc.Lookup("attempts").Array().Values()
			is.NoErr(err)
			is.Equal(len(attempts), test.attempts)
			for _, attempt := range attempts { // each says the same
				is.Equal(attempt.Document().Lookup("error", "message").StringValue(), failure.Lookup("message").StringValue())
			}
		})
	}
}

// Data that does not fit the handler's type fails each attempt with decode_error; the handler is not called.
func TestErrors_4_2_DecodeError(t *testing.T) {
	t.Parallel()
	c, db := publisher(t)
	called := func(context.Context, *pulse.Event[order]) error { return errors.New("the handler was called") }
	single, batch := pulse.NewTopic[order]("single"), pulse.NewTopic[order]("batch")
	is.New(t).NoErr(second(single.Subscribe(t.Context(), c, called, unordered(pulse.MaxRetries(0))...)))
	is.New(t).NoErr(second(batch.SubscribeBatch(t.Context(), c, 10, func(context.Context, []*pulse.Event[order]) error {
		return errors.New("the handler was called")
	}, pulse.MaxRetries(0))))
	for _, topic := range []string{"single", "batch"} {
		t.Run(topic, func(t *testing.T) {
			is := is.New(t)
			event, err := pulse.NewTopic[bson.M](topic).Publish(t.Context(), c, bson.M{"number": "seven"})
			is.NoErr(err)
			doc := ended(t, db, "billing", topic, "v2-error", 1)[0]
			is.Equal(doc.Lookup("error", "code").StringValue(), "decode_error")
			is.Equal(doc.Lookup("error", "name").StringValue(), "DecodeError")
			is.Equal(doc.Lookup("error", "message").StringValue(),
				"pulse: topic "+topic+", event "+event.ID+": cannot decode the data: error decoding key number: cannot decode string into an integer type")
		})
	}
	t.Run("panicking decoder", func(t *testing.T) {
		is := is.New(t)
		topic := pulse.NewTopic[exploding]("exploding")
		is.NoErr(second(topic.Subscribe(t.Context(), c, ignore[exploding], unordered(pulse.MaxRetries(0))...)))
		is.NoErr(second(pulse.NewTopic[bson.M]("exploding").Publish(t.Context(), c, bson.M{"n": 1})))
		doc := ended(t, db, "billing", "exploding", "v2-error", 1)[0]
		is.Equal(doc.Lookup("error", "code").StringValue(), "decode_error")
		is.True(strings.HasSuffix(doc.Lookup("error", "message").StringValue(), "cannot decode the data: its decoding panicked: no decoding today"))
	})
}

func TestErrors_4_6_RetryAfterReplacesTheDelay(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	c, db := publisher(t)
	topic := pulse.NewTopic[int]("t")
	is.NoErr(second(topic.Subscribe(t.Context(), c, func(_ context.Context, e *pulse.Event[int]) error {
		switch e.Attempt {
		case 1:
			return fmt.Errorf("busy: %w", pulse.RetryAfter(errors.New("later"), 7*time.Millisecond))
		case 2:
			return pulse.RetryAfter(errors.New("at once"), -time.Hour)
		default:
			return pulse.RetryAfter(errors.New("no further attempt"), 0) // grants none
		}
	}, unordered(pulse.MaxRetries(2), pulse.RetryDelay(time.Hour))...)))
	is.NoErr(second(topic.Publish(t.Context(), c, 1)))
	doc := ended(t, db, "billing", "t", "v2-error", 1)[0]
	attempts, err := doc.Lookup("attempts").Array().Values()
	is.NoErr(err)
	is.Equal(len(attempts), 3)
	for i, pause := range []time.Duration{7 * time.Millisecond, 0} {
		failed, due := attempts[i].Document().Lookup("endedAt").Time(), attempts[i+1].Document().Lookup("nextAttemptAt").Time()
		is.Equal(due.Sub(failed), pause)
	}
}

// What the user's code does with an error ends no loop of ours and holds none up, and an observer that panics changes
// nothing.
func TestErrors_4_2_CarelessCallbacks(t *testing.T) {
	t.Parallel()
	for name, onError := range map[string]func(release <-chan struct{}){
		"ends its goroutine": func(<-chan struct{}) { runtime.Goexit() },
		"never returns":      func(release <-chan struct{}) { <-release },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			release := make(chan struct{})
			c, _ := publisher(t, func(c *pulse.Config) {
				c.Observer = panics{}
				c.OnError = func(error) { onError(release) }
			})
			t.Cleanup(func() { close(release) })
			topic := pulse.NewTopic[int]("t")
			var runs pulsetest.Recorder[int]
			is.NoErr(second(topic.Subscribe(t.Context(), c, func(_ context.Context, e *pulse.Event[int]) error {
				runs.Add(e.Attempt)
				if e.Attempt == 1 {
					return neverEnds{}
				}
				return nil
			}, unordered(pulse.RetryDelay(0))...)))
			is.NoErr(second(topic.Publish(t.Context(), c, 1)))
			runs.Wait(t, 2)
		})
	}
}

// panics is an observer of a user who does not know better.
type panics struct{ observe.Nothing }

func (panics) Publish(context.Context, observe.Publish) (context.Context, observe.Publishing) {
	panic("Publish")
}

func (panics) Attempt(context.Context, observe.Attempt) (context.Context, func(*observe.Failure)) {
	panic("Attempt")
}
func (panics) Settled(observe.Settled) { panic("Settled") }
func (panics) Claimed(observe.Claimed) { panic("Claimed") }
func (panics) Woken(observe.Woken)     { panic("Woken") }

// neverEnds is an error that unwraps to itself.
type neverEnds struct{}

func (neverEnds) Error() string   { return "never ends" }
func (e neverEnds) Unwrap() error { return e }

// Background trouble is logged and reported; what the user's code does with it stops nothing.
func TestErrors_OnErrorIsToldAndMayPanic(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	var log logged
	reported := pulsetest.Recorder[string]{}
	c, db := publisher(t, func(c *pulse.Config) {
		c.Logger = slog.New(&log)
		c.OnError = func(err error) {
			reported.Add(err.Error())
			panic("of the user")
		}
	})
	topic := pulse.NewTopic[int]("t")
	is.NoErr(second(topic.Subscribe(t.Context(), c, ignore[int], unordered()...)))
	_, err := db.Collection("orionjs.pulse.subscriptions").DeleteMany(t.Context(), bson.D{})
	is.NoErr(err)
	const text = "pulse: consumer group billing, topic t: the stored subscription is gone: someone deleted it; restart this service to create it again (it then starts by its offset reset)"
	reported.WaitFor(t, "the report", func(all []string) bool { return len(all) == 1 && all[0] == text })
	log.WaitFor(t, "the log", func(lines []string) bool {
		all := strings.Join(lines, "\n")
		return strings.Contains(all, "ERROR pulse: background error group=billing error="+text) &&
			strings.Contains(all, "ERROR pulse: Config.OnError failed group=billing error=it panicked: of the user")
	})
	other := pulse.NewTopic[int]("u")
	seen := newBarrier()
	close(seen.open)
	is.NoErr(second(other.Subscribe(t.Context(), c, seen.handle, unordered()...)))
	is.NoErr(second(other.Publish(t.Context(), c, 1)))
	seen.entered.Wait(t, 1)
	// Each loss is told once, not at every poll.
	_, err = db.Collection("orionjs.pulse.subscriptions").DeleteMany(t.Context(), bson.D{})
	is.NoErr(err)
	reported.WaitFor(t, "the other report", func(all []string) bool {
		return len(all) == 2 && strings.Contains(all[1], "topic u: the stored subscription is gone")
	})
}
