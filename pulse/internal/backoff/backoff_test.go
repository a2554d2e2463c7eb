package backoff_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"
	"pgregory.net/rapid"

	"github.com/orionjs/orion-go/pulse/internal/backoff"
)

func TestDelay_2_4_Defaults(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	// The defaults of spec 2.3: one second, doubled, three retries.
	for attempt, want := range map[int]time.Duration{1: time.Second, 2: 2 * time.Second, 3: 4 * time.Second} {
		is.Equal(backoff.Delay(time.Second, 2, attempt), want)
	}
	is.Equal(backoff.Delay(1500*time.Millisecond, 1.5, 2), 2250*time.Millisecond)
	is.Equal(backoff.Delay(time.Second, 0.5, 3), 250*time.Millisecond)
}

func TestDelay_2_4_EdgesOfTheArguments(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name       string
		base       time.Duration
		multiplier float64
		attempt    int
		want       time.Duration
	}{
		{"attempt zero is the first", time.Second, 2, 0, time.Second},
		{"negative attempt is the first", time.Second, 2, -7, time.Second},
		{"smallest attempt", time.Second, 2, math.MinInt, time.Second},
		{"no delay", 0, 2, 5, 0},
		{"negative delay", -time.Second, 2, 5, 0},
		{"no delay, endless growth", 0, math.Inf(1), 5, 0},
		{"not a number", time.Second, math.NaN(), 9, time.Second},
		{"zero multiplier", time.Second, 0, 2, 0},
		{"negative multiplier", time.Second, -2, 3, 0},
		{"negative infinity", time.Second, math.Inf(-1), 3, 0},
		{"infinity", time.Second, math.Inf(1), 2, backoff.MaxDelay},
		{"infinity is not used for the first", time.Second, math.Inf(1), 1, time.Second},
		{"saturates", time.Second, 2, 1000, backoff.MaxDelay},
		{"huge attempt", time.Second, 2, math.MaxInt, backoff.MaxDelay},
		{"huge attempt without growth", time.Second, 1, math.MaxInt, time.Second},
		{"huge base", math.MaxInt64, 1, 1, backoff.MaxDelay},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			is.New(t).Equal(backoff.Delay(c.base, c.multiplier, c.attempt), c.want)
		})
	}
}

func TestDelay_2_4_AlwaysWithinItsRange(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		base := time.Duration(rapid.Int64().Draw(t, "base"))
		multiplier := rapid.Float64().Draw(t, "multiplier")
		attempt := rapid.Int().Draw(t, "attempt")
		if got := backoff.Delay(base, multiplier, attempt); got < 0 || got > backoff.MaxDelay {
			t.Fatalf("Delay(%d, %g, %d) = %d", base, multiplier, attempt, got)
		}
	})
}

func TestDelay_2_4_GrowsWithTheAttempt(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		base := time.Duration(rapid.Int64Range(0, int64(backoff.MaxDelay)).Draw(t, "base"))
		multiplier := rapid.Float64Min(1).Draw(t, "multiplier")
		attempt := rapid.IntRange(1, 2000).Draw(t, "attempt")
		before, after := backoff.Delay(base, multiplier, attempt), backoff.Delay(base, multiplier, attempt+1)
		// One part in 2^52 may be lost where the exact base changes to floating point.
		if after < before-before>>40 {
			t.Fatalf("Delay(%d, %g, %d) = %d but the next is %d", base, multiplier, attempt, before, after)
		}
	})
}

func TestLargest_2_4_IsTheLongestDelay(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		base := time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "base"))
		multiplier := rapid.Float64Range(0, 10).Draw(t, "multiplier")
		retries := rapid.IntRange(0, 12).Draw(t, "retries")
		var longest time.Duration
		for attempt := 1; attempt <= retries; attempt++ {
			longest = max(longest, backoff.Delay(base, multiplier, attempt))
		}
		largest := min(backoff.Largest(base, multiplier, retries), float64(backoff.MaxDelay/time.Millisecond))
		if math.Abs(largest-float64(longest)/1e6) > 1e-6*math.Max(1, largest) {
			t.Fatalf("Largest(%v, %g, %d) = %g ms, want %v", base, multiplier, retries, largest, longest)
		}
	})
}

func TestCheckRange_2_4_RefusesWhatLeavesTheRangeOfDates(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, c := range []struct {
		name       string
		base       time.Duration
		multiplier float64
		retries    int
		refused    string // part of the error, "" when accepted
	}{
		{"defaults", time.Second, 2, 3, ""},
		{"no retries", math.MaxInt64, 1e300, 0, ""},
		{"longest base", math.MaxInt64, 1, math.MaxInt, ""},
		{"last that fits", time.Second, 2, 43, ""},
		{"first that does not", time.Second, 2, 44, "before retry 44"},
		{"overflow", time.Second, 1e300, 3, "before retry 3"},
		{"shrinking", time.Hour, 0.1, math.MaxInt, ""},
		{"zero multiplier", time.Hour, 0, 3, ""},
		{"negative delay", -1, 2, 3, "is negative"},
		{"negative multiplier", time.Second, -1, 0, "multiplier -1"},
		{"not a number", time.Second, math.NaN(), 0, "multiplier NaN"},
		{"infinite", time.Second, math.Inf(1), 1, "multiplier +Inf"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			err := backoff.CheckRange(c.base, c.multiplier, c.retries, now)
			if c.refused == "" {
				is.NoErr(err)
				return
			}
			is.True(err != nil)                               // refused
			is.True(strings.Contains(err.Error(), c.refused)) // says what
		})
	}
}

func TestExponential_GrowsToItsMaximumAndStartsAgain(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		least := time.Duration(rapid.Int64Range(int64(time.Millisecond), int64(time.Second)).Draw(t, "least"))
		most := least * time.Duration(rapid.Int64Range(1, 100).Draw(t, "factor"))
		e := backoff.NewExponential(least, most)
		for round := range 2 {
			want := least
			for n := 1; n <= 12; n++ {
				got := e.Next()
				if got < want || got > want+want/2+1 {
					t.Fatalf("round %d, pause %d = %v, want %v and at most half of it more", round, n, got, want)
				}
				if e.Failures() != n {
					t.Fatalf("Failures() = %d, want %d", e.Failures(), n)
				}
				want = min(2*want, most)
			}
			e.Reset()
		}
	})
}

func TestExponential_NeverSpins(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	e := backoff.NewExponential(0, -time.Second)
	for range 5000 {
		is.True(e.Next() >= time.Millisecond)
	}
}
