package pulse_test

import (
	"context"
	"fmt"
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

// failing returns a handler that records its attempts and returns the errors of them.
func failing(runs *pulsetest.Recorder[int], results func(attempt int) error) suiteHandler {
	return func(_ context.Context, es []*pulse.Event[order]) error {
		runs.Add(es[0].Attempt)
		return results(es[0].Attempt)
	}
}

// The delays are in what is stored; how long the machine took beyond them says nothing.
func TestSuite_2_4_DelaysGrowAndRetriesAreCounted(t *testing.T) {
	everyCell(t, func(t *testing.T, is *is.I, s *suite) {
		var runs pulsetest.Recorder[int]
		s.attachAll(t, failing(&runs, func(int) error { return errPlanned }),
			pulse.MaxRetries(3), pulse.RetryDelay(7*time.Millisecond), pulse.RetryBackoffMultiplier(3))
		published(t, orderedTopic, s.clients[0], 0)
		d := s.ended(t, "error", 1)[0]
		s.close(t)
		is.Equal(runs.Values(), []int{1, 2, 3, 4}) // three retries after the first attempt
		is.Equal(d.delays(), []time.Duration{7 * time.Millisecond, 21 * time.Millisecond, 63 * time.Millisecond})
		is.Equal(d.Lookup("finalAttempt").AsInt64(), int64(4))
		for i, a := range d.attempts {
			is.Equal(a.Lookup("attempt").AsInt64(), int64(i+1))
			is.True(!dateIn(a, "startedAt").Before(dateIn(a, "nextAttemptAt"))) // not before it was due
		}
	})
}

// At most once: whatever the handler wants, nothing runs again.
func TestSuite_2_5_AtMostOnceNeverRetries(t *testing.T) {
	everyCell(t, func(t *testing.T, is *is.I, s *suite) {
		s.oneByOne()
		var runs pulsetest.Recorder[int]
		s.attachAll(t, failing(&runs, func(int) error { return pulse.RetryAfter(errPlanned, 0) }), pulse.DeliveryMode(pulse.AtMostOnce))
		is.Equal(storedSubscription(t, s.db, "billing", orderedTopic.Name()).Lookup("maxRetries").AsInt64(), int64(0))
		publishFrom(t, s.clients[0], 0, 3)
		for _, d := range s.ended(t, "error", 3) {
			is.Equal(len(d.attempts), 1)
			is.Equal(codeOf(d.Raw), "handler_error")
			is.Equal(d.Lookup("finalAttempt").AsInt64(), int64(1))
		}
		s.close(t)
		is.Equal(runs.Values(), []int{1, 1, 1})
	})
}

// What a failed handler leaves behind, on the attempt and on the delivery that ended with it.
func TestSuite_4_2_OutcomesOfFailedHandlers(t *testing.T) {
	names := []string{"an error with a type", "a decode error of the handler", "a panic", "runtime.Goexit", "text that is not UTF-8", "a megabyte of text"}
	chosen := slices.DeleteFunc(slices.Clone(outcomes), func(o outcome) bool { return !slices.Contains(names, o.name) })
	everyCell(t, func(t *testing.T, is *is.I, s *suite) {
		s.oneByOne()
		is.Equal(len(chosen), len(names))
		publishMany(t, orderedTopic, s.clients[0], len(chosen))
		undecodable, err := pulse.NewTopic[string](orderedTopic.Name()).Publish(t.Context(), s.clients[0], "no order")
		is.NoErr(err)
		s.attachAll(t, func(_ context.Context, es []*pulse.Event[order]) error {
			if es[0].ID == undecodable.ID {
				t.Error("the handler was called with data that does not fit")
			}
			return chosen[es[0].Data.Number].run()
		}, pulse.OffsetReset(pulse.Earliest), pulse.MaxRetries(0))
		failed := s.ended(t, "error", len(chosen)+1)
		for i, o := range append(slices.Clone(chosen), outcome{
			name: "data that does not fit", code: "decode_error", errorName: "DecodeError",
			message: fmt.Sprintf("pulse: topic order.created, event %s: ", undecodable.ID),
		}) {
			d := failed[i]
			t.Log(o.name)
			is.Equal(len(d.attempts), 1)
			is.Equal(d.attempts[0].Lookup("error"), d.Lookup("error"))
			stored := d.Lookup("error").Document()
			is.Equal(stored.Lookup("code").StringValue(), o.code)
			is.Equal(stored.Lookup("name").StringValue(), o.errorName)
			message := stored.Lookup("message").StringValue()
			is.True(strings.HasPrefix(message, o.message))
			is.True(utf8.ValidString(message) && utf8.RuneCountInString(message) <= 2048)
			stack, has := stored.Lookup("stack").StringValueOK()
			is.Equal(has, o.stack != "")
			is.True(strings.Contains(stack, o.stack) && utf8.RuneCountInString(stack) <= 4096)
		}
	})
}

func TestSuite_4_6_PermanentEndsAtOnce(t *testing.T) {
	everyCell(t, func(t *testing.T, is *is.I, s *suite) {
		var runs pulsetest.Recorder[int]
		s.attachAll(t, failing(&runs, func(attempt int) error {
			if attempt == 1 {
				return errPlanned
			}
			return fmt.Errorf("order 7: %w", pulse.Permanent(quotaError{0}))
		}), pulse.RetryDelay(time.Millisecond), pulse.MaxRetries(5))
		published(t, orderedTopic, s.clients[0], 0)
		d := s.ended(t, "error", 1)[0]
		s.close(t)
		is.Equal(runs.Values(), []int{1, 2})
		is.Equal(len(d.attempts), 2)
		is.Equal(d.Lookup("error", "message").StringValue(), "order 7: 0 left")
		is.Equal(d.Lookup("error", "name").StringValue(), "pulse_test.quotaError")
	})
}

// RetryAfter replaces one delay, in either direction, and grants no attempt.
func TestSuite_4_6_RetryAfterReplacesTheNextDelay(t *testing.T) {
	everyCell(t, func(t *testing.T, is *is.I, s *suite) {
		var runs pulsetest.Recorder[int]
		s.attachAll(t, failing(&runs, func(attempt int) error {
			return map[int]error{
				1: pulse.RetryAfter(errPlanned, 80*time.Millisecond),
				2: errPlanned, // by the policy: 10 ms x 2^1
				3: fmt.Errorf("wrapped: %w", pulse.RetryAfter(errPlanned, 0)),
				4: pulse.RetryAfter(errPlanned, time.Millisecond), // the last
			}[attempt]
		}), pulse.RetryDelay(10*time.Millisecond), pulse.MaxRetries(3))
		published(t, orderedTopic, s.clients[0], 0)
		d := s.ended(t, "error", 1)[0]
		s.close(t)
		is.Equal(runs.Values(), []int{1, 2, 3, 4})
		is.Equal(d.delays(), []time.Duration{80 * time.Millisecond, 20 * time.Millisecond, 0})
	})
}

// twoOutcomes leaves a delivery that succeeded at its second attempt and one that failed for good.
func (s *suite) twoOutcomes(t *testing.T) (succeeded, failed suiteDelivery) {
	t.Helper()
	s.oneByOne()
	s.attachAll(t, func(_ context.Context, es []*pulse.Event[order]) error {
		if es[0].Data.Number == 0 && es[0].Attempt == 2 {
			return nil
		}
		return errPlanned
	}, pulse.RetryDelay(time.Millisecond), pulse.MaxRetries(1))
	publishFrom(t, s.clients[0], 0, 2)
	succeeded, failed = s.ended(t, "success", 1)[0], s.ended(t, "error", 1)[0]
	for _, d := range []suiteDelivery{succeeded, failed} {
		is := is.New(t)
		is.Equal(len(d.attempts), 2)
		is.Equal(dateIn(d.Raw, "expiresAt"), dateIn(d.Raw, "endedAt").Add(7*24*time.Hour))
		is.Equal(dateIn(d.Raw, "endedAt"), dateIn(d.attempts[1], "endedAt"))
		is.True(!d.attempts[0].Lookup("lockToken").Equal(d.attempts[1].Lookup("lockToken")))
		is.True(!d.attempts[0].Lookup("_id").Equal(d.attempts[1].Lookup("_id")))
		for _, a := range d.attempts {
			is.Equal(dateIn(a, "endedAt").Sub(dateIn(a, "startedAt")).Milliseconds(), a.Lookup("durationMs").AsInt64())
		}
	}
	return succeeded, failed
}

const suiteError = `error {code "handler_error", message "as planned", name "*errors.errorString"}`

// Version 1: the end on the delivery, each attempt a document of the history.
func TestSuite_4_8_OutcomeFields(t *testing.T) {
	cellsOf(t, []kind{v1Kind, orderedKind}, func(t *testing.T, is *is.I, s *suite) {
		succeeded, failed := s.twoOutcomes(t)
		end := plus(baseFields, append(slices.Clone(endFields), int32Field("finalAttempt", 2))...)
		is.Equal(layoutOf(succeeded.Raw), plus(end, `status "success"`))
		is.Equal(layoutOf(failed.Raw), plus(end, `status "error"`, suiteError))
		attempt := func(n int, more ...string) []string {
			return plus(plus(plus(historyFields, claimFields...), endFields...), append(more, int32Field("attempt", n), "durationMs milliseconds")...)
		}
		is.Equal(layoutOf(succeeded.attempts[0]), attempt(1, `status "error"`, suiteError))
		is.Equal(layoutOf(succeeded.attempts[1]), attempt(2, `status "success"`))
		is.Equal(layoutOf(failed.attempts[1]), attempt(2, `status "error"`, suiteError))
	})
}

// Version 2 and batches: everything on the delivery, and only a single delivery says its version.
func TestSuite_4_10_OutcomeFields(t *testing.T) {
	cellsOf(t, []kind{v2Kind, batchKind}, func(t *testing.T, is *is.I, s *suite) {
		succeeded, failed := s.twoOutcomes(t)
		own := int32Field("executionVersion", 2)
		if s.batch > 0 {
			own = "eventIds [id]"
		}
		end := plus(plus(baseFields, endFields...), own, int32Field("attempt", 2), int32Field("finalAttempt", 2))
		first := attemptLayout(1, "error", suiteError)
		is.Equal(layoutOf(succeeded.Raw), plus(end, `status "v2-success"`, "attempts ["+first+", "+attemptLayout(2, "success", "")+"]"))
		is.Equal(layoutOf(failed.Raw), plus(end, `status "v2-error"`, suiteError, "attempts ["+first+", "+attemptLayout(2, "error", suiteError)+"]"))
		is.Equal(len(mustFind(t, historyOf(s.db), bson.D{})), 0)
	})
}
