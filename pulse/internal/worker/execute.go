package worker

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/orionjs/orion-go/pulse/internal/clock"
	"github.com/orionjs/orion-go/pulse/internal/delivery"
	"github.com/orionjs/orion-go/pulse/internal/receiver"
	"github.com/orionjs/orion-go/pulse/observe"
)

// run executes one task in a goroutine of its own.
func (p *Pool) run(t *task) {
	p.mu.Lock()
	if clock.Until(t.deadline) <= 0 {
		p.lose(t, "it was not renewed in time") // this process was frozen, and the timer has not fired yet
	}
	if t.lost { // its handler has not begun
		t.lane.order.ended(t)
		p.handBackLost(t)
		p.slotFreed(t.lane)
		p.mu.Unlock()
		return
	}
	p.mu.Unlock()
	if !t.loaded {
		found, err := p.Store.Events(t.ctx, t.EventIDs)
		if err != nil {
			if t.ctx.Err() == nil {
				p.Report(fmt.Errorf("pulse: topic %s, delivery %s: handed back unrun: %w", t.lane.receiver.Topic, t.ID, err))
			}
			p.mu.Lock()
			defer p.mu.Unlock()
			t.lane.order.ended(t)
			p.handBackLost(t)
			p.slotFreed(t.lane)
			return
		}
		t.take(payloads{found, true})
	}
	begun, startedAt := clock.Now(), p.Store.Now()
	expired := len(t.EventIDs) - len(t.events)
	out := delivery.Outcome{Failure: delivery.EventExpired(expired)}
	var observed func(*observe.Failure)
	// In a deferred call, since a handler that calls runtime.Goexit ends this goroutine.
	defer func() {
		out.Expired = expired
		if observed != nil {
			observed((*observe.Failure)(out.Failure))
		}
		p.conclude(t, startedAt, clock.Since(begun), out)
	}()
	if t.over {
		out = delivery.Outcome{Failure: delivery.AlreadyTerminal(), Permanent: true}
		return
	}
	if len(t.events) > 0 {
		ctx := t.ctx
		if p.Observer != nil {
			ctx, observed = p.observe(t, startedAt)
		}
		out = delivery.FromHandler(errGoexit)
		out = p.invoke(ctx, t)
	}
}

// invoke calls the handler: once with all events, or for a handler of single events once with each, all
// of them whatever fails, so that the delivery's retry repeats as few first tries as possible (spec 4.12).
func (p *Pool) invoke(ctx context.Context, t *task) delivery.Outcome {
	r := t.lane.receiver
	if r.Batch || len(t.events) == 1 {
		return delivery.FromHandler(protect(ctx, r, receiver.Call{Events: t.events, Attempt: t.attempt()}))
	}
	var errs []error
	permanent, after := true, (*time.Duration)(nil)
	for i := range t.events {
		if ctx.Err() != nil {
			// The lease is gone, or the client closes: what has not begun is run by whoever takes over.
			errs = append(errs, fmt.Errorf("%d of %d events were not begun: %w", len(t.events)-i, len(t.events), context.Cause(ctx)))
			permanent = false
			break
		}
		err := inGoroutine(func() error { return protect(ctx, r, receiver.Call{Events: t.events[i : i+1], Attempt: t.attempt()}) })
		if err == nil {
			continue
		}
		errs = append(errs, fmt.Errorf("event %s: %w", t.events[i].ID, err))
		one := delivery.FromHandler(err)
		permanent = permanent && one.Permanent
		if one.RetryAfter != nil && (after == nil || *one.RetryAfter > *after) {
			after = one.RetryAfter
		}
	}
	if len(errs) == 0 {
		return delivery.Outcome{}
	}
	out := delivery.FromHandler(errors.Join(errs...))
	// Together they are permanent only if each is, and wait for the one that waits longest.
	out.Permanent, out.RetryAfter = permanent, after
	return out
}

// errGoexit is the failure of a handler that ends its goroutine.
var errGoexit = &delivery.PanicError{Value: "the handler called runtime.Goexit"}

// inGoroutine calls a handler in a goroutine of its own, which is all that one can end that calls
// runtime.Goexit.
func inGoroutine(call func() error) error {
	ended := make(chan error)
	go func() {
		err := error(errGoexit)
		defer func() { ended <- err }()
		err = call()
	}()
	return <-ended
}

// protect calls the handler and turns a panic into an error with its stack.
func protect(ctx context.Context, r *receiver.Receiver, call receiver.Call) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &delivery.PanicError{Value: v, Stack: string(debug.Stack())}
		}
	}()
	return r.Handle(ctx, call)
}

// conclude hands the outcome to the settler and frees the slot.
func (p *Pool) conclude(t *task, startedAt time.Time, took time.Duration, out delivery.Outcome) {
	policy := t.lane.receiver.Policy()
	out.Permanent = out.Permanent || t.Granted // one more attempt and no other (spec 9.2)
	p.mu.Lock()
	defer p.mu.Unlock()
	t.events, t.bytes = nil, 0 // hundreds may wait to be stored
	t.lane.pace.observe(took)
	t.lane.order.ended(t)
	cancelled := errors.Is(context.Cause(t.ctx), delivery.ErrClosed)
	switch {
	case cancelled && out.Failure != nil && !policy.AtMostOnce:
		p.flushOrder(t.lane)
		p.handBack([]*task{t}) // interrupted by us: the attempt does not count
	case t.lost && (out.Failure != nil || t.inOrder):
		// The failure is the loss's. Whoever finds the expired lease decides, and it was reported.
		p.forget([]*task{t})
	default:
		if cancelled && out.Failure != nil {
			out.Failure.Code = delivery.CodeCancelled
		}
		verdict, delay := delivery.Decide(t.attempt(), out, policy)
		s := p.settlement(t, out, verdict, delay, startedAt, startedAt.Add(took.Truncate(time.Millisecond)))
		if t.inOrder {
			p.concludeInOrder(t, s)
		} else {
			p.settler.add(t, s)
		}
	}
	p.slotFreed(t.lane)
}

// handlerKey marks the context of a handler with its pool.
type handlerKey struct{}

// InHandler tells whether the caller runs inside a handler of any client: then it must not wait for
// handlers, since it would wait for itself. The context tells, or, when the handler passed another one,
// the caller's stack.
func InHandler(ctx context.Context) bool {
	if ctx.Value(handlerKey{}) != nil {
		return true
	}
	pcs := make([]uintptr, 256)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs)])
	for {
		frame, more := frames.Next()
		if strings.HasSuffix(frame.Function, "worker.protect") {
			return true
		}
		if !more {
			return false
		}
	}
}
