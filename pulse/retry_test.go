package pulse_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/matryer/is"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/orionjs/orion-go/pulse"
	"github.com/orionjs/orion-go/pulse/pulsetest"
)

// Errors as handlers of users may have them.
type (
	// quotaError has a name of its own.
	quotaError struct{ left int }
	// panickyError breaks whoever asks it anything.
	panickyError struct{}
	// emptyError works on a pointer that may be nil.
	emptyError struct{ text string }
	// listError cannot be compared.
	listError []string
)

func (e quotaError) Error() string         { return fmt.Sprintf("%d left", e.left) }
func (e *panickyError) Error() string      { panic("no text") }
func (e *panickyError) Is(error) bool      { panic("not comparable") }
func (e *panickyError) As(any) bool        { panic("not convertible") }
func (e *panickyError) Unwrap() error      { panic("not wrapped") }
func (e *emptyError) Error() string        { return e.text }
func (e listError) Error() string          { return strings.Join(e, ", ") }
func (e listError) Unwrap() (errs []error) { return nil }

// outcome is what a failed handler leaves behind.
type outcome struct {
	name string
	run  func() error
	// code, errorName and message as stored; message is the beginning of it, stack a part of the stack.
	code, errorName, message, stack string
}

var outcomes = []outcome{
	{"an error", func() error { return errors.New("boom") }, "handler_error", "*errors.errorString", "boom", ""},
	{"an error with a type", func() error { return quotaError{3} }, "handler_error", "pulse_test.quotaError", "3 left", ""},
	{"a wrapped error", func() error { return fmt.Errorf("bill: %w", quotaError{3}) }, "handler_error", "pulse_test.quotaError", "bill: 3 left", ""},
	{"joined errors", func() error { return errors.Join(quotaError{1}, quotaError{2}) }, "handler_error", "*errors.joinError", "1 left\n2 left", ""},
	{"a permanent error", func() error { return pulse.Permanent(quotaError{3}) }, "handler_error", "pulse_test.quotaError", "3 left", ""},
	{"a decode error of the handler", func() error {
		return fmt.Errorf("x: %w", &pulse.DecodeError{Topic: "t", EventID: "e", Err: errors.New("lines[0]: want int")})
	}, "decode_error", "DecodeError", "x: pulse: topic t, event e: cannot decode the data: lines[0]: want int", ""},
	{"a panic", func() error { panic("boom") }, "handler_error", "panic", "panic: boom", "retry_test.go"},
	{"a panic with an error", func() error { panic(quotaError{3}) }, "handler_error", "panic", "panic: 3 left", "retry_test.go"},
	{"a panic with nil", func() error { panic(nil) }, "handler_error", "panic", "panic: panic called with nil argument", "retry_test.go"},
	{"a panic of the runtime", func() error { return errors.New(strings.Repeat("x", 1)[len(os.Args)+5:]) }, "handler_error", "panic", "panic: runtime error: slice bounds out of range", "retry_test.go"},
	{"a panic with a hostile value", func() error { panic(&panickyError{}) }, "handler_error", "panic", "panic: ", "retry_test.go"},
	{"runtime.Goexit", func() error { runtime.Goexit(); return nil }, "handler_error", "panic", "panic: the handler called runtime.Goexit", ""},
	{"a megabyte of text", func() error { return errors.New(strings.Repeat("é", 1<<20)) }, "handler_error", "*errors.errorString", strings.Repeat("é", 2048), ""},
	{"text that is not UTF-8", func() error { return errors.New("a\xff\xfeb\x00c" + strings.Repeat("\xf0\x9f", 5000)) }, "handler_error", "*errors.errorString", "a\uFFFDb\x00c\uFFFD", ""},
	{"an error whose methods panic", func() error { return &panickyError{} }, "handler_error", "*pulse_test.panickyError", "(the error's own Error method panicked", ""},
	{"a wrapped error whose methods panic", func() error { return fmt.Errorf("x: %w", &panickyError{}) }, "handler_error", "*pulse_test.panickyError", "x: ", ""},
	{"a typed nil", func() error { return (*emptyError)(nil) }, "handler_error", "*pulse_test.emptyError", "(the error's own Error method panicked", ""},
	{"an error that cannot be compared", func() error { return listError{"a", "b"} }, "handler_error", "pulse_test.listError", "a, b", ""},
}

func TestRetry_4_2_OutcomesOfFailedHandlers(t *testing.T) {
	t.Parallel()
	for _, batch := range []bool{false, true} {
		t.Run(fmt.Sprint("batch=", batch), func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			db := pulsetest.Database(t)
			c := startClient(t, fast(db))
			ids := publishMany(t, deliverOrders, c, len(outcomes))
			opts := []pulse.SubscribeOption{pulse.OffsetReset(pulse.Earliest), pulse.MaxRetries(0)}
			var err error
			if batch {
				_, err = deliverOrders.SubscribeBatch(t.Context(), c, 1, func(_ context.Context, es []*pulse.Event[order]) error {
					return outcomes[es[0].Data.Number].run()
				}, opts...)
			} else {
				_, err = deliverOrders.Subscribe(t.Context(), c, func(_ context.Context, e *pulse.Event[order]) error {
					return outcomes[e.Data.Number].run()
				}, unordered(opts...)...)
			}
			is.NoErr(err)
			eventually(t, len(outcomes), deliveriesOf(db), bson.D{{Key: "status", Value: "v2-error"}})
			for i, o := range outcomes {
				d := only(t, deliveriesOf(db), bson.D{{Key: "eventId", Value: ids[i]}})
				stored := d.Lookup("error").Document()
				t.Log(o.name)
				is.Equal(stored.Lookup("code").StringValue(), o.code)
				is.Equal(stored.Lookup("name").StringValue(), o.errorName)
				message := stored.Lookup("message").StringValue()
				is.True(strings.HasPrefix(message, o.message))
				is.True(utf8.ValidString(message))
				is.True(utf8.RuneCountInString(message) <= 2048)
				stack, hasStack := stored.Lookup("stack").StringValueOK()
				is.Equal(hasStack, o.stack != "")
				is.True(strings.Contains(stack, o.stack))
				is.True(utf8.RuneCountInString(stack) <= 4096)
				is.Equal(attemptsIn(d)[0].Lookup("error"), d.Lookup("error")) // the attempt says the same
			}
		})
	}
}

// The data does not fit the handler's type; the handler is not called.
func TestRetry_4_2_DataThatDoesNotFit(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	db := pulsetest.Database(t)
	c := startClient(t, fast(db))
	e, err := pulse.NewTopic[string]("order.created").Publish(t.Context(), c, "no order")
	is.NoErr(err)
	_, err = deliverOrders.Subscribe(t.Context(), c, func(context.Context, *pulse.Event[order]) error {
		t.Error("the handler was called")
		return nil
	}, unordered(pulse.OffsetReset(pulse.Earliest), pulse.MaxRetries(1), pulse.RetryDelay(time.Millisecond))...)
	is.NoErr(err)
	d := eventually(t, 1, deliveriesOf(db), bson.D{{Key: "status", Value: "v2-error"}})[0]
	is.Equal(codeOf(d), "decode_error")
	is.True(strings.Contains(d.Lookup("error", "message").StringValue(), e.ID))
	is.Equal(len(attemptsIn(d)), 2) // the retry policy decides: a deploy may bring the type that fits
}

// delays returns the pauses that were scheduled between a delivery's attempts.
func delays(d bson.Raw) []time.Duration {
	attempts := attemptsIn(d)
	var out []time.Duration
	for i, a := range attempts[1:] {
		out = append(out, a.Lookup("nextAttemptAt").Time().Sub(attempts[i].Lookup("endedAt").Time()))
	}
	return out
}

func TestRetry_2_4_DelaysGrowAndRetriesAreCounted(t *testing.T) {
	everySetup(t, func(t *testing.T, g *group) {
		is := is.New(t)
		received := make(chan int, 10)
		for _, c := range g.clients {
			_, err := deliverOrders.Subscribe(t.Context(), c, func(_ context.Context, e *pulse.Event[order]) error {
				received <- e.Attempt
				return errors.New("never")
			}, unordered(pulse.MaxRetries(3), pulse.RetryDelay(20*time.Millisecond), pulse.RetryBackoffMultiplier(3))...)
			is.NoErr(err)
		}
		published(t, deliverOrders, g.clients[0], 1)
		d := eventually(t, 1, deliveriesOf(g.db), bson.D{{Key: "status", Value: "v2-error"}})[0]
		is.Equal(delays(d), []time.Duration{20 * time.Millisecond, 60 * time.Millisecond, 180 * time.Millisecond})
		is.Equal(d.Lookup("attempt").AsInt64(), int64(4))
		is.Equal(d.Lookup("finalAttempt").AsInt64(), int64(4))
		for i, a := range attemptsIn(d) {
			is.Equal(a.Lookup("attempt").AsInt64(), int64(i+1))
			is.Equal(<-received, i+1) // what the handler saw
			// It did not start before it was due.
			is.True(!a.Lookup("startedAt").Time().Before(a.Lookup("nextAttemptAt").Time()))
		}
		g.close(t)
		is.Equal(len(received), 0)
	})
}

func TestRetry_4_6_PermanentEndsAtOnce(t *testing.T) {
	everySetup(t, func(t *testing.T, g *group) {
		is := is.New(t)
		received := g.handleErrors(t, map[int]error{1: errors.New("once more"), 2: fmt.Errorf("order 7: %w", pulse.Permanent(quotaError{0}))})
		published(t, deliverOrders, g.clients[0], 1)
		d := eventually(t, 1, deliveriesOf(g.db), bson.D{{Key: "status", Value: "v2-error"}})[0]
		g.close(t)
		is.Equal(received.Values(), []int{1, 2})
		is.Equal(d.Lookup("error", "message").StringValue(), "order 7: 0 left")
	})
}

// handleErrors subscribes all clients with a handler that returns the errors of its attempts, and records
// the attempts.
func (g *group) handleErrors(t *testing.T, results map[int]error, opts ...pulse.SubscribeOption) *pulsetest.Recorder[int] {
	t.Helper()
	var received pulsetest.Recorder[int]
	for _, c := range g.clients {
		_, err := deliverOrders.Subscribe(t.Context(), c, func(_ context.Context, e *pulse.Event[order]) error {
			received.Add(e.Attempt)
			return results[e.Attempt]
		}, unordered(append([]pulse.SubscribeOption{pulse.OffsetReset(pulse.Earliest), pulse.RetryDelay(30 * time.Millisecond)}, opts...)...)...)
		is.New(t).NoErr(err)
	}
	return &received
}

// RetryAfter replaces one delay, in either direction, and grants no attempt.
func TestRetry_4_6_RetryAfterReplacesTheNextDelay(t *testing.T) {
	everySetup(t, func(t *testing.T, g *group) {
		is := is.New(t)
		failed := errors.New("failed")
		received := g.handleErrors(t, map[int]error{
			1: pulse.RetryAfter(failed, 250*time.Millisecond),
			2: fmt.Errorf("wrapped: %w", pulse.RetryAfter(failed, 0)),
			3: failed, // by the policy: 30 ms x 2^2
			4: pulse.RetryAfter(failed, -time.Hour),
			5: pulse.RetryAfter(failed, time.Millisecond), // the last
		}, pulse.MaxRetries(4))
		published(t, deliverOrders, g.clients[0], 1)
		d := eventually(t, 1, deliveriesOf(g.db), bson.D{{Key: "status", Value: "v2-error"}})[0]
		g.close(t)
		is.Equal(received.Values(), []int{1, 2, 3, 4, 5})
		is.Equal(delays(d), []time.Duration{250 * time.Millisecond, 0, 120 * time.Millisecond, 0})
	})
}

// The window holds the last ten outcomes, the total stays exact.
func TestRetry_4_10_WindowOfTenAttempts(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	g := newGroup(t, setup{streams: true, clients: 1})
	var last int
	_, err := deliverOrders.Subscribe(t.Context(), g.clients[0], func(_ context.Context, e *pulse.Event[order]) error {
		if last = e.Attempt; e.Attempt < 13 {
			return pulse.RetryAfter(fmt.Errorf("attempt %d", e.Attempt), 0)
		}
		return nil
	}, unordered(pulse.MaxRetries(20), pulse.RetryDelay(time.Millisecond), pulse.RetryBackoffMultiplier(1))...)
	is.NoErr(err)
	published(t, deliverOrders, g.clients[0], 1)
	d := eventually(t, 1, deliveriesOf(g.db), bson.D{{Key: "status", Value: "v2-success"}})[0]
	g.close(t)
	is.Equal(last, 13)
	is.Equal(d.Lookup("attempt").AsInt64(), int64(13))
	is.Equal(d.Lookup("finalAttempt").AsInt64(), int64(13))
	attempts := attemptsIn(d)
	is.Equal(len(attempts), 10)
	var ids []string
	for i, a := range attempts {
		is.Equal(a.Lookup("attempt").AsInt64(), int64(i+4))
		ids = append(ids, a.Lookup("_id").StringValue())
	}
	slices.Sort(ids)
	is.Equal(len(slices.Compact(ids)), 10) // each attempt has an ID of its own
	is.Equal(attempts[8].Lookup("error", "message").StringValue(), "attempt 12")
	is.Equal(attempts[9].Lookup("status").StringValue(), "success")
	_, err = d.LookupErr("error")
	is.True(err != nil) // a success has none
}
