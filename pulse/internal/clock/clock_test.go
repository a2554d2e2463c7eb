package clock_test

import (
	"context"
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/matryer/is"
	"pgregory.net/rapid"

	"github.com/orionjs/orion-go/pulse/internal/clock"
)

func TestSleep_WaitsExactlyTheDuration(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		start := clock.Now()
		is.NoErr(clock.Sleep(t.Context(), 3*time.Second))
		is.Equal(clock.Since(start), 3*time.Second)
		is.Equal(clock.Until(start), -3*time.Second)
	})
}

func TestSleep_EndsWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := clock.Now()
		is.True(errors.Is(clock.Sleep(ctx, time.Hour), context.DeadlineExceeded))
		is.Equal(clock.Since(start), time.Second)
	})
}

func TestSleep_EndedContextWinsOverNoPause(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	ctx, cancel := context.WithCancel(t.Context())
	is.NoErr(clock.Sleep(ctx, 0))
	is.NoErr(clock.Sleep(ctx, -time.Second))
	cancel()
	for _, d := range []time.Duration{-time.Second, 0, time.Nanosecond} {
		is.True(errors.Is(clock.Sleep(ctx, d), context.Canceled))
	}
}

func TestTimers_FireWhenDue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		start := clock.Now()
		fired := make(chan time.Duration, 1)
		stopped := clock.AfterFunc(time.Second, func() { t.Error("a stopped function was called") })
		is.True(stopped.Stop())
		clock.AfterFunc(2*time.Second, func() { fired <- clock.Since(start) })
		is.Equal(<-fired, 2*time.Second)
		is.Equal((<-clock.After(time.Second)).Sub(start), 3*time.Second)
		is.Equal((<-clock.NewTimer(time.Second).C).Sub(start), 4*time.Second)
	})
}

func TestJitter_StaysWithinItsBounds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		d := time.Duration(rapid.Int64().Draw(t, "d"))
		fraction := rapid.Float64().Draw(t, "fraction")
		got := clock.Jitter(d, fraction)
		if got < d {
			t.Fatalf("Jitter(%d, %g) = %d is shorter than what was asked for", d, fraction, got)
		}
		if d <= 0 || fraction <= 0 {
			if got != d {
				t.Fatalf("Jitter(%d, %g) = %d, want no change", d, fraction, got)
			}
			return
		}
		// The sum in float64 may be rounded by one part in 2^52.
		if most := float64(d) * (1 + fraction); float64(got) > most*(1+1e-12) {
			t.Fatalf("Jitter(%d, %g) = %d, want at most %g", d, fraction, got, most)
		}
	})
}

func TestJitter_OddFractions(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	is.Equal(clock.Jitter(time.Second, math.NaN()), time.Second)
	is.Equal(clock.Jitter(time.Second, math.Inf(-1)), time.Second)
	is.True(clock.Jitter(time.Second, math.Inf(1)) >= time.Second)
	is.Equal(clock.Jitter(math.MaxInt64, 1), time.Duration(math.MaxInt64))
}

func TestJitter_Spreads(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	low, high := 0, 0
	for range 1000 {
		if clock.Jitter(time.Second, 0.5) < 1250*time.Millisecond {
			low++
		} else {
			high++
		}
	}
	is.True(low > 300 && high > 300) // uniform: 500 each, with a deviation of 16
}
