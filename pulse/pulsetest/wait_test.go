package pulsetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/matryer/is"

	"github.com/orionjs/orion-go/pulse/internal/clock"
)

func TestRecorder_WaitsForWhatManyGoroutinesAdd(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	var seen Recorder[int]
	var all sync.WaitGroup
	for i := range 100 {
		all.Go(func() { seen.Add(2*i, 2*i+1) })
	}
	values := seen.Wait(t, 200)
	all.Wait()
	slices.Sort(values)
	for i, value := range values {
		is.Equal(value, i)
	}
	is.Equal(seen.Len(), 200)
}

func TestRecorder_ReturnsCopies(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	var seen Recorder[string]
	seen.Add("a", "b")
	seen.Values()[0] = "changed"
	seen.Wait(t, 2)[1] = "changed"
	is.Equal(seen.Values(), []string{"a", "b"})
}

func TestRecorder_WaitsForACondition(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		var seen Recorder[string]
		for i, value := range []string{"first", "wanted", "third"} {
			clock.AfterFunc(time.Duration(i)*time.Second, func() { seen.Add(value) })
		}
		values := seen.WaitFor(t, "the wanted one", func(values []string) bool { return slices.Contains(values, "wanted") })
		is.Equal(values, []string{"first", "wanted"}) // woken by it, not later
		seen.Wait(t, 3)
	})
}

func TestRecorder_FailurePrintsWhatArrived(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		var seen Recorder[struct{ ID string }]
		start := clock.Now()
		wantParts(t, (&fakeT{TB: t}).run(func(t testing.TB) { seen.Wait(t, 1) }), "still waiting for 1 values", "nothing arrived")
		is.Equal(clock.Since(start), Patience)
		for i := range 60 {
			seen.Add(struct{ ID string }{fmt.Sprintf("e%d", i+1)})
		}
		text := (&fakeT{TB: t}).run(func(t testing.TB) {
			seen.WaitFor(t, "a miracle", func([]struct{ ID string }) bool { return false })
		})
		wantParts(t, text, "still waiting for a miracle", "60 arrived:", "1: {ID:e1}", "50: {ID:e50}", "and 10 more")
	})
}

// What still arrives is worth waiting for, but not without end.
func TestRecorder_IsPatientWithProgress(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		var seen Recorder[int]
		start := clock.Now()
		for i := range 20 {
			clock.AfterFunc(time.Duration(i)*(Patience-time.Second), func() { seen.Add(i) })
		}
		seen.Wait(t, 5)
		is.Equal(clock.Since(start), 4*(Patience-time.Second))
		start = clock.Now()
		wantParts(t, (&fakeT{TB: t}).run(func(t testing.TB) { seen.Wait(t, 20) }), "still waiting for 20 values")
		is.Equal(clock.Since(start), mostPatience)
		seen.Wait(t, 15)
	})
}

func TestRecorder_StopsInTimeForTheTestsOwnDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		start := clock.Now()
		fake := &fakeT{TB: t, deadline: start.Add(20 * time.Second)}
		wantParts(t, fake.run(func(t testing.TB) { new(Recorder[int]).Wait(t, 1) }), "still waiting")
		is.Equal(clock.Since(start), 20*time.Second-reportTime)
	})
}

func TestEventually_AsksUntilTheConditionHolds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		start, asked := clock.Now(), 0
		Eventually(t, "ten seconds pass", func(context.Context) error {
			asked++
			if clock.Since(start) < 10*time.Second {
				return errors.New("not yet")
			}
			return nil
		})
		is.True(clock.Since(start) < 10*time.Second+longestPause)
		is.True(asked < 70) // 8 growing pauses, then five a second
	})
}

func TestEventually_IsPatientWithProgress(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := clock.Now()
		passed := func(step time.Duration) int { return int(clock.Since(start) / step) }
		Eventually(t, "the third step", func(context.Context) error {
			if n := passed(Patience - time.Second); n < 3 {
				return fmt.Errorf("%d steps", n)
			}
			return nil
		})
		start = clock.Now()
		text := (&fakeT{TB: t}).run(func(t testing.TB) {
			Eventually(t, "a miracle", func(context.Context) error { return fmt.Errorf("%d seconds", passed(time.Second)) })
		})
		wantParts(t, text, "not within 5m0s: a miracle: ")
	})
}

func TestEventually_FailsWithTheLastDiagnosis(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		left := 5
		text := (&fakeT{TB: t}).run(func(t testing.TB) {
			Eventually(t, "all deliveries succeed", func(ctx context.Context) error {
				if left--; left >= 3 {
					return fmt.Errorf("%d of 5 deliveries are pending", left)
				}
				<-ctx.Done() // a call that hangs until the end of the wait
				return ctx.Err()
			})
		})
		wantParts(t, text, "not within 1m0.001s: all deliveries succeed: 3 of 5 deliveries are pending")
	})
}
