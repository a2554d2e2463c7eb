package worker

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/orionjs/orion-go/pulse/internal/delivery"
)

// cancelGrace is how long cancelled handlers get to return, and their outcomes to be stored.
const cancelGrace = 5 * time.Second

// Remove takes a topic's lane away: nothing of it starts any more, and its buffered claims are handed back.
// The returned function waits for its running handlers until its context ends; it must not be called by one
// of them.
func (p *Pool) Remove(topic string) (wait func(context.Context) error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.lane(topic)
	if l == nil {
		return func(context.Context) error { return nil }
	}
	l.removed = true
	p.lanes = slices.DeleteFunc(p.lanes, func(other *lane) bool { return other == l })
	p.turn = 0
	p.disarm(l)
	p.flushOrder(l)
	p.handBack(l.buffer)
	l.buffer = nil
	p.unreserve(l, 0)
	p.dispatch()
	return func(ctx context.Context) error {
		if n := p.waitFor(ctx, func() int { return l.running }); n > 0 {
			return fmt.Errorf("pulse: topic %s: %d handlers still run: %w", topic, n, context.Cause(ctx))
		}
		p.settler.waitEmpty(ctx)
		return p.releaseOrders(ctx, []*lane{l})
	}
}

// Drain ends the pool's work: nothing starts any more, buffered claims are handed back, running handlers
// finish. When ctx ends first they are cancelled, and get a short grace. Then what they left is stored.
// The error says what could not be finished; its deliveries are run again when their leases expire.
func (p *Pool) Drain(ctx context.Context) error {
	p.mu.Lock()
	p.closing = true
	for _, l := range p.lanes {
		p.disarm(l)
		p.flushOrder(l)
		p.handBack(l.buffer)
		l.buffer = nil
	}
	p.mu.Unlock()

	running := func() int { return p.running }
	var problem error
	if p.waitFor(ctx, running) > 0 {
		p.mu.Lock()
		for _, t := range p.held {
			t.cancel(delivery.ErrClosed)
		}
		p.mu.Unlock()
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), cancelGrace)
		defer cancel()
		if n := p.waitFor(grace, running); n > 0 {
			problem = fmt.Errorf("pulse: %d handlers did not return although their context ended %v ago; their deliveries run again once their leases expire", n, cancelGrace)
		}
	}
	if _, bounded := ctx.Deadline(); bounded {
		// On a busy server storing them takes its time too: the caller's, as far as it goes.
		p.settler.waitEmpty(ctx)
	}
	flush, cancel := context.WithTimeout(context.WithoutCancel(ctx), cancelGrace)
	defer cancel()
	if n := p.settler.waitEmpty(flush); n > 0 && problem == nil {
		problem = fmt.Errorf("pulse: %d outcomes could not be stored within %v; their deliveries run again once their leases expire", n, cancelGrace)
	}
	if err := p.resolveDoubts(flush); err != nil {
		p.Logger.Warn("pulse: claims whose answers were lost may wait for the end of their leases", "group", p.Group, "error", err)
	}
	p.mu.Lock()
	lanes := slices.Clone(p.lanes)
	p.mu.Unlock()
	if err := p.releaseOrders(flush, lanes); err != nil {
		p.Logger.Warn("pulse: ordered leases were not released, others take over when they expire", "group", p.Group, "error", err)
	}
	return problem
}

// Abandon stops what still runs from being renewed and cancels it; after Drain, when nothing is left to
// be stored.
func (p *Pool) Abandon() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, t := range p.held {
		p.forget([]*task{t})
	}
}

// waitFor waits until count is 0 or ctx ends, and returns it. The counts change when handlers end.
func (p *Pool) waitFor(ctx context.Context, count func() int) int {
	for {
		p.mu.Lock()
		n, changed := count(), p.changed
		p.mu.Unlock()
		if n == 0 {
			return 0
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return n
		}
	}
}
