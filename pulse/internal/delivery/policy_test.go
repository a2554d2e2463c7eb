package delivery

import (
	"math"
	"testing"
	"time"

	"github.com/matryer/is"
	"pgregory.net/rapid"

	"github.com/orionjs/orion-go/pulse/internal/backoff"
)

// anyPolicy draws policies as stored documents may hold them, sound or not.
func anyPolicy() *rapid.Generator[Policy] {
	return rapid.Custom(func(t *rapid.T) Policy {
		return Policy{
			MaxRetries: rapid.OneOf(rapid.IntRange(-2, 12), rapid.Int()).Draw(t, "retries"),
			RetryDelay: time.Duration(rapid.OneOf(rapid.Int64Range(0, int64(time.Minute)), rapid.Int64()).Draw(t, "delay")),
			Multiplier: rapid.OneOf(rapid.Float64Range(0.5, 4), rapid.Float64(), rapid.SampledFrom([]float64{0, 1, math.NaN(), math.Inf(1)})).Draw(t, "multiplier"),
			AtMostOnce: rapid.Bool().Draw(t, "at most once"),
		}
	})
}

// anyFailure draws outcomes that are no success and leave the decision to the policy.
func anyFailure() *rapid.Generator[Outcome] {
	return rapid.Custom(func(t *rapid.T) Outcome {
		o := Outcome{Failure: &Failure{Code: rapid.SampledFrom([]string{CodeHandlerError, CodeDecodeError, CodeWorkerLost, CodeCancelled}).Draw(t, "code")}}
		if rapid.Bool().Draw(t, "retry after") {
			d := time.Duration(rapid.Int64().Draw(t, "after"))
			o.RetryAfter = &d
		}
		return o
	})
}

func TestDecide_2_4_GrantsExactlyTheRetriesOfThePolicy(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := anyPolicy().Draw(t, "policy")
		want := max(p.MaxRetries, 0)
		if p.AtMostOnce {
			want = 0 // 2.5
		}
		if got := p.Retries(); got != want {
			t.Fatalf("Retries() = %d, want %d", got, want)
		}
		attempt := rapid.OneOf(rapid.IntRange(1, 15), rapid.IntRange(1, math.MaxInt)).Draw(t, "attempt")
		verdict, delay := Decide(attempt, anyFailure().Draw(t, "outcome"), p)
		switch {
		case attempt <= want && verdict != Retried, attempt > want && verdict != Failed:
			t.Fatalf("attempt %d of %d retries: verdict %d", attempt, want, verdict)
		case verdict == Failed && delay != 0:
			t.Fatalf("a delivery that has ended waits for %v", delay)
		case delay < 0 || delay > backoff.MaxDelay:
			t.Fatalf("delay %v is out of range", delay)
		}
	})
}

func TestDecide_4_6_OverridesOfThePolicy(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p, attempt := anyPolicy().Draw(t, "policy"), rapid.IntRange(1, 5).Draw(t, "attempt")
		if verdict, delay := Decide(attempt, Outcome{}, p); verdict != Succeeded || delay != 0 {
			t.Fatalf("a success: %d, %v", verdict, delay)
		}
		failure := anyFailure().Draw(t, "outcome")
		final := failure
		final.Permanent = true
		expired := failure
		expired.Failure = EventExpired(1)
		for _, o := range []Outcome{final, expired} {
			if verdict, delay := Decide(attempt, o, p); verdict != Failed || delay != 0 {
				t.Fatalf("%+v: %d, %v", o, verdict, delay)
			}
		}
		verdict, delay := Decide(attempt, failure, p)
		if failure.RetryAfter == nil || verdict != Retried {
			return
		}
		if want := min(max(*failure.RetryAfter, 0), backoff.MaxDelay); delay != want {
			t.Fatalf("RetryAfter(%v): %v, want %v", *failure.RetryAfter, delay, want)
		}
	})
}

func TestDecide_2_4_DelayGrowsByTheMultiplier(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	p := Policy{MaxRetries: 4, RetryDelay: time.Second, Multiplier: 3}
	for attempt, want := range []time.Duration{0, 1, 3, 9, 27} {
		if attempt > 0 {
			_, delay := Decide(attempt, Outcome{Failure: WorkerLost()}, p)
			is.Equal(delay, want*time.Second)
		}
	}
}

// A claim that is buffered and lost with its process costs one attempt: that must never end the delivery.
func TestMayClaimAhead_4_7_ALostClaimIsNeverTerminal(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p, attempts := anyPolicy().Draw(t, "policy"), rapid.IntRange(0, 5).Draw(t, "attempts")
		if !MayClaimAhead(attempts, p) {
			return
		}
		if verdict, _ := Decide(attempts+1, Outcome{Failure: WorkerLost()}, p); verdict != Retried {
			t.Fatalf("after %d attempts a claim ahead of a worker ends the delivery when it is lost (%+v)", attempts, p)
		}
	})
}

// The bound and the jitter shorten pauses, and never the one that the handler asked for.
func TestDecide_2_4_BoundAndJitter(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := anyPolicy().Draw(t, "policy")
		p.MaxRetries, p.AtMostOnce = math.MaxInt, false
		attempt := rapid.IntRange(1, 100).Draw(t, "attempt")
		o := anyFailure().Draw(t, "outcome")
		_, full := Decide(attempt, o, p)
		p.MaxDelay = time.Duration(rapid.Int64Range(1, int64(time.Hour)).Draw(t, "bound"))
		p.Jitter = rapid.Float64Range(0, 1).Draw(t, "jitter")
		_, got := Decide(attempt, o, p)
		if o.RetryAfter != nil {
			if got != full {
				t.Fatalf("RetryAfter %v became %v", full, got)
			}
			return
		}
		most := min(full, p.MaxDelay)
		if least := time.Duration(float64(most) * (1 - p.Jitter)); got > most || got < least-1 {
			t.Fatalf("%v is not between %v and %v", got, least, most)
		}
	})
}
