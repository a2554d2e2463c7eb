package pulsetest

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/orionjs/orion-go/pulse/internal/clock"
)

// Recorder collects what handlers receive and lets the test wait for it. The zero value is ready; it must
// not be copied. Add may be called by any number of goroutines; Wait and WaitFor belong to the goroutine
// of the test, and are woken by Add: nothing polls.
type Recorder[T any] struct {
	mu      sync.Mutex
	values  []T
	changed chan struct{} // closed and replaced by Add; nil while nobody waits
}

// Add appends values. Those of one call appear together.
func (r *Recorder[T]) Add(values ...T) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.values = append(r.values, values...)
	if r.changed != nil {
		close(r.changed)
		r.changed = nil
	}
}

// Values returns a copy of all values so far, in the order of their arrival.
func (r *Recorder[T]) Values() []T {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.values)
}

// Len returns the number of values so far.
func (r *Recorder[T]) Len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.values)
}

// Wait returns all values as soon as there are at least n, and fails the test with those that arrived if
// nothing does for as long as Patience. Further ones may arrive later: check for unwanted ones where everything
// must have ended, after closing the client.
func (r *Recorder[T]) Wait(t testing.TB, n int) []T {
	t.Helper()
	return r.WaitFor(t, fmt.Sprintf("%d values", n), func(values []T) bool { return len(values) >= n })
}

// WaitFor returns all values as soon as arrived says yes to them, and fails the test with those that
// arrived if nothing does for as long as Patience. What is the condition in words.
func (r *Recorder[T]) WaitFor(t testing.TB, what string, arrived func(values []T) bool) []T {
	t.Helper()
	for start := clock.Now(); ; {
		values, changed := r.snapshot()
		if arrived(values) {
			return values
		}
		if !awaitChange(t, start, changed) {
			t.Fatalf("still waiting for %s; %s", what, describe(r.Values()))
		}
	}
}

func awaitChange(t testing.TB, start time.Time, changed <-chan struct{}) bool {
	ctx, cancel := waitContext(t, start)
	defer cancel()
	select {
	case <-changed:
		return true
	case <-ctx.Done():
		return false
	}
}

// snapshot returns the values, and a channel that is closed when there are more.
func (r *Recorder[T]) snapshot() ([]T, <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.changed == nil {
		r.changed = make(chan struct{})
	}
	return slices.Clone(r.values), r.changed
}

// shown bounds how many values a failure prints.
const shown = 50

func describe[T any](values []T) string {
	if len(values) == 0 {
		return "nothing arrived"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d arrived:", len(values))
	for i, value := range values[:min(len(values), shown)] {
		fmt.Fprintf(&b, "\n  %d: %+v", i+1, value)
	}
	if len(values) > shown {
		fmt.Fprintf(&b, "\n  and %d more", len(values)-shown)
	}
	return b.String()
}
