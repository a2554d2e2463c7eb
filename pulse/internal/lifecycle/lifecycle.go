// Package lifecycle starts and stops the background loops of a client.
//
// Every loop of a component belongs to one Group. Start lets them run, Stop cancels their context and
// waits for them, however the two race with each other and with loops that are added meanwhile.
package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"

	"github.com/orionjs/orion-go/internal/hostile"
)

var (
	// ErrStarted is returned by a second Start.
	ErrStarted = errors.New("already started")
	// ErrStopped is returned by Start and Go after Stop, and is the cause of the loops' cancelled context.
	ErrStopped = errors.New("stopped")
)

// PanicError is a panic of a loop, with the stack of where it happened.
type PanicError struct {
	Loop  string
	Value any
	Stack []byte
}

func (e *PanicError) Error() string {
	return fmt.Sprintf("background loop %q panicked and has ended: %s\n%s", e.Loop, hostile.Print(e.Value), e.Stack)
}

// Unwrap returns the panic's value if it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// Group runs named loops. All methods may be called by several goroutines at once. Make one with New.
type Group struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	report func(*PanicError)

	mu               sync.Mutex
	started, stopped bool
	waiting          []func()       // loops added before Start
	running          map[string]int // by name; a loop counts until its panic has been reported
	idle             chan struct{}  // closed once stopped and nothing runs
}

// New returns a group that has not started. The loops' context carries no values and no deadline: loops
// outlive the call that starts them, and must not inherit the session of a transaction from it.
//
// A loop that panics ends, and its panic goes to report, in the loop's goroutine and before Stop can
// return; report may add a replacement with Go. With a nil report the panic ends the process.
func New(report func(*PanicError)) *Group {
	g := &Group{report: report, running: map[string]int{}, idle: make(chan struct{})}
	g.ctx, g.cancel = context.WithCancelCause(context.Background())
	return g
}

// Start lets the loops run that have been added, and those that Go adds later. A second call returns
// ErrStarted, one after Stop returns ErrStopped: a group is not used twice.
func (g *Group) Start() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.stopped:
		return ErrStopped
	case g.started:
		return ErrStarted
	}
	g.started = true
	for _, run := range g.waiting {
		go run()
	}
	g.waiting = nil
	return nil
}

// Go adds a loop: it runs at once when the group has started, otherwise from Start on. It must return
// soon after its context ends; it may return earlier. After Stop nothing runs and Go returns ErrStopped.
// The name appears in errors and as the label "loop" in profiles; several loops may share one.
func (g *Group) Go(name string, loop func(ctx context.Context)) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.stopped {
		return ErrStopped
	}
	run := func() {
		defer g.ended(name)
		if g.report != nil {
			defer func() {
				if value := recover(); value != nil {
					g.report(&PanicError{Loop: name, Value: value, Stack: debug.Stack()})
				}
			}()
		}
		pprof.Do(g.ctx, pprof.Labels("loop", name), loop)
	}
	g.running[name]++
	if g.started {
		go run()
	} else {
		g.waiting = append(g.waiting, run)
	}
	return nil
}

func (g *Group) ended(name string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.running[name]--; g.running[name] == 0 {
		delete(g.running, name)
	}
	if g.stopped && len(g.running) == 0 {
		close(g.idle)
	}
}

// Stop cancels the loops and waits until all have returned, or until ctx ends: then the error names those
// that still run, and a further Stop waits for them again. Any number of calls, before, during or after
// Start, is safe. A loop that stops its own group must not wait for it: it would wait for itself.
func (g *Group) Stop(ctx context.Context) error {
	g.mu.Lock()
	if !g.stopped {
		g.stopped = true
		g.cancel(ErrStopped)
		if !g.started { // what waits for Start never runs
			g.waiting, g.running = nil, nil
		}
		if len(g.running) == 0 {
			close(g.idle)
		}
	}
	g.mu.Unlock()
	select {
	case <-g.idle: // preferred when both are ready: a finished group is no error
		return nil
	default:
	}
	select {
	case <-g.idle:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("background loops still run (%s): %w", strings.Join(g.names(), ", "), context.Cause(ctx))
	}
}

// Context returns the context that the loops get: it ends when Stop is called, with cause ErrStopped.
func (g *Group) Context() context.Context { return g.ctx }

func (g *Group) names() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	var names []string
	for name := range g.running {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
