package lifecycle_test

import (
	"context"
	"errors"
	"io"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/matryer/is"
	"go.uber.org/goleak"

	"github.com/orionjs/orion-go/pulse/internal/lifecycle"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func untilCancelled(ctx context.Context) { <-ctx.Done() }

func TestGroup_RunsLoopsAddedBeforeAndAfterStart(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	g := lifecycle.New(nil)
	ran := make(chan string, 2)
	loop := func(name string) func(context.Context) {
		return func(ctx context.Context) {
			ran <- name
			<-ctx.Done()
			if context.Cause(ctx) != lifecycle.ErrStopped {
				t.Errorf("cause %v", context.Cause(ctx))
			}
		}
	}
	is.NoErr(g.Go("before", loop("before")))
	select {
	case name := <-ran:
		t.Fatalf("loop %s ran before Start", name)
	default:
	}
	is.NoErr(g.Start())
	is.Equal(<-ran, "before")
	is.NoErr(g.Go("after", loop("after")))
	is.Equal(<-ran, "after")
	is.NoErr(g.Stop(t.Context()))
	is.NoErr(g.Stop(t.Context())) // idempotent
	is.True(g.Context().Err() != nil)
}

func TestGroup_RefusesASecondStart(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	g := lifecycle.New(nil)
	is.NoErr(g.Start())
	is.Equal(g.Start(), lifecycle.ErrStarted)
	is.NoErr(g.Stop(t.Context()))
	is.Equal(g.Start(), lifecycle.ErrStopped)
	is.Equal(g.Go("late", untilCancelled), lifecycle.ErrStopped)
}

func TestGroup_StopBeforeStartRunsNothing(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	g := lifecycle.New(nil)
	is.NoErr(g.Go("never", func(context.Context) { t.Error("the loop ran") }))
	is.NoErr(g.Stop(t.Context()))
	is.Equal(g.Start(), lifecycle.ErrStopped)
}

func TestGroup_StopIsBoundedAndNamesWhatStillRuns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		g := lifecycle.New(nil)
		release := make(chan struct{})
		is.NoErr(g.Go("obedient", untilCancelled))
		is.NoErr(g.Go("stubborn", func(context.Context) { <-release }))
		is.NoErr(g.Go("slow", func(context.Context) { <-release }))
		is.NoErr(g.Start())
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := g.Stop(ctx)
		is.True(errors.Is(err, context.DeadlineExceeded))
		is.Equal(err.Error(), "background loops still run (slow, stubborn): context deadline exceeded")
		close(release)
		is.NoErr(g.Stop(t.Context())) // waits for the rest
		is.NoErr(g.Stop(ctx))         // nothing to wait for: no error although ctx has ended
	})
}

func TestGroup_ReportsPanicsBeforeStopReturns(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	reports := make(chan *lifecycle.PanicError, 1)
	replaced := make(chan struct{})
	var g *lifecycle.Group
	g = lifecycle.New(func(e *lifecycle.PanicError) {
		reports <- e
		if err := g.Go("replacement", func(context.Context) { close(replaced) }); err != nil {
			t.Error(err)
		}
	})
	is.NoErr(g.Start())
	is.NoErr(g.Go("broken", func(context.Context) { panic(io.ErrUnexpectedEOF) }))
	<-replaced
	is.NoErr(g.Stop(t.Context()))
	e := <-reports
	is.Equal(e.Loop, "broken")
	is.True(errors.Is(e, io.ErrUnexpectedEOF))
	is.True(strings.Contains(e.Error(), `"broken" panicked`))
	is.True(strings.Contains(string(e.Stack), "ReportsPanicsBeforeStopReturns"))
}

func TestGroup_CountsALoopThatEndsByGoexit(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	g := lifecycle.New(func(e *lifecycle.PanicError) { t.Error(e) })
	is.NoErr(g.Start())
	is.NoErr(g.Go("goexit", func(context.Context) { runtime.Goexit() }))
	is.NoErr(g.Stop(t.Context()))
}

// Start, Go, Stop and ending loops race in every order; whatever ran must have ended when Stop returns.
func TestGroup_StressesEveryOrder(t *testing.T) {
	t.Parallel()
	for range 500 {
		var alive, panics, reported atomic.Int64
		g := lifecycle.New(func(*lifecycle.PanicError) { reported.Add(1) })
		loop := func(panicking bool) func(context.Context) {
			return func(ctx context.Context) {
				alive.Add(1)
				defer alive.Add(-1)
				if panicking {
					panics.Add(1)
					panic("stress")
				}
				<-ctx.Done()
			}
		}
		var all sync.WaitGroup
		var starts atomic.Int64
		for i := range 4 {
			all.Go(func() {
				if g.Start() == nil {
					starts.Add(1)
				}
			})
			all.Go(func() { _ = g.Go("loop", loop(i == 0)) })
			if i < 2 {
				all.Go(func() {
					if err := g.Stop(context.Background()); err != nil {
						t.Error(err)
					}
					if alive.Load() != 0 || panics.Load() != reported.Load() {
						t.Error("Stop returned before the loops had ended")
					}
				})
			}
		}
		all.Wait()
		if starts.Load() > 1 {
			t.Fatal("started twice")
		}
	}
}
