package pulsetest

import (
	"context"
	"testing"
	"time"

	"github.com/orionjs/orion-go/pulse/internal/clock"
)

// Patience is how long Recorder and Eventually wait without progress, which is a new value, or a new error of the
// condition: far longer than any step takes, also on a busy machine under the race detector. However much happens, no
// wait is longer than five times that, and a test that nears its own deadline (go test -timeout) stops waiting earlier,
// while it can still say what it was waiting for.
const Patience = 60 * time.Second

const (
	// mostPatience is how long a wait with progress may last.
	mostPatience = 5 * Patience
	// reportTime is what a test keeps of its deadline for its report and its clean-ups.
	reportTime = 5 * time.Second
)

// waitContext returns the context of one step of a wait that began at start: it ends with the patience, the test's
// deadline, or the test.
func waitContext(t testing.TB, start time.Time) (context.Context, context.CancelFunc) {
	patience := min(Patience, mostPatience-clock.Since(start))
	if deadline, ok := deadlineOf(t); ok {
		patience = min(patience, clock.Until(deadline)-reportTime)
	}
	return context.WithTimeout(t.Context(), patience)
}

func deadlineOf(t testing.TB) (deadline time.Time, ok bool) {
	limited, ok := t.(interface{ Deadline() (time.Time, bool) })
	if !ok {
		return time.Time{}, false
	}
	// A test of testing/synctest has no deadline on its clock, and panics when it is asked for it.
	defer func() {
		if recover() != nil {
			ok = false
		}
	}()
	return limited.Deadline()
}

const (
	firstPause   = time.Millisecond
	longestPause = 200 * time.Millisecond
)

// Eventually waits until check returns nil, and fails the test with the last error of check if Patience passes
// without that and without another error than before. It is for conditions in a database that send no signal: it asks again after
// pauses that grow from 1 ms to 200 ms. What is the condition in words, as in "all deliveries succeeded";
// the error of check is the diagnosis, as in "3 of 5 deliveries are pending". The context of check ends
// with the wait. Call it from the test's goroutine.
func Eventually(t testing.TB, what string, check func(ctx context.Context) error) {
	t.Helper()
	start := clock.Now()
	ctx, cancel := waitContext(t, start)
	defer func() { cancel() }()
	var last error
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		err := check(ctx)
		switch {
		case err == nil:
			return
		case last == nil:
			last = err
		case ctx.Err() != nil:
			// What check says after the wait is over is mostly that its context has ended: the diagnosis is the one
			// before.
		case err.Error() != last.Error():
			last = err
			cancel()
			ctx, cancel = waitContext(t, start)
		}
		if clock.Sleep(ctx, pause) != nil {
			t.Fatalf("not within %v: %s: %v", clock.Since(start).Round(time.Millisecond), what, last)
		}
	}
}
