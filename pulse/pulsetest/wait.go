package pulsetest

import (
	"context"
	"testing"
	"time"

	"github.com/orionjs/orion-go/pulse/internal/clock"
)

// Patience is how long Recorder and Eventually wait at most: far longer than anything they wait for takes,
// also on a busy machine under the race detector. A test that nears its own deadline (go test -timeout)
// stops waiting earlier, while it can still say what it was waiting for.
const Patience = 60 * time.Second

// reportTime is what a test keeps of its deadline for its report and its clean-ups.
const reportTime = 5 * time.Second

// waitContext returns a context that ends with the patience, the test's deadline, or the test.
func waitContext(t testing.TB) (context.Context, context.CancelFunc) {
	patience := Patience
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

// Eventually waits until check returns nil, and fails the test with the last error of check if that does
// not happen within Patience. It is for conditions in a database that send no signal: it asks again after
// pauses that grow from 1 ms to 200 ms. What is the condition in words, as in "all deliveries succeeded";
// the error of check is the diagnosis, as in "3 of 5 deliveries are pending". The context of check ends
// with the wait. Call it from the test's goroutine.
func Eventually(t testing.TB, what string, check func(ctx context.Context) error) {
	t.Helper()
	ctx, cancel := waitContext(t)
	defer cancel()
	start := clock.Now()
	var last error
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		err := check(ctx)
		if err == nil {
			return
		}
		// What check says after the wait is over is mostly that its context has ended: the diagnosis is the
		// one before.
		if ctx.Err() == nil || last == nil {
			last = err
		}
		if clock.Sleep(ctx, pause) != nil {
			t.Fatalf("not within %v: %s: %v", clock.Since(start).Round(time.Millisecond), what, last)
		}
	}
}
