package worker

import (
	"context"
	"time"

	"github.com/orionjs/orion-go/pulse/internal/clock"
	"github.com/orionjs/orion-go/pulse/internal/store"
)

// renewChunk bounds one renewing command.
const renewChunk = 1000

// renewLoop renews the leases of all held claims about every third of their length, with one command
// whatever their number.
func (p *Pool) renewLoop(ctx context.Context) {
	for clock.Sleep(ctx, clock.Jitter(p.Lease/4, 1.0/3)) == nil {
		if err := p.renewOrders(ctx); err != nil && ctx.Err() == nil {
			p.Report(err)
		}
		if err := p.resolveDoubts(ctx); err != nil && ctx.Err() == nil {
			p.Report(err)
		}
		tasks := p.heldTasks()
		p.tellLong(tasks)
		for len(tasks) > 0 {
			n := min(renewChunk, len(tasks))
			if err := p.renew(ctx, tasks[:n]); err != nil && ctx.Err() == nil {
				p.Report(err) // each task's own deadline decides how long that is bearable
			}
			tasks = tasks[n:]
		}
	}
}

// longRun is after how many leases a running handler is logged. There is no limit for handlers, but one that
// never returns holds its worker for ever, and nothing else would tell of it.
const longRun = 10

// tellLong logs, once for each, the handlers that run for a long time.
func (p *Pool) tellLong(tasks []*task) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, t := range tasks {
		if t.state != started || t.toldLong || clock.Since(t.begun) < longRun*p.Lease {
			continue
		}
		t.toldLong = true
		p.Logger.Warn("pulse: a handler has been running for a long time; it holds a worker until it returns", "group", p.Group,
			"topic", t.lane.receiver.Topic, "delivery", t.deliveryID(), "attempt", t.attempt(), "duration", clock.Since(t.begun).Round(time.Second))
	}
}

func (p *Pool) heldTasks() []*task {
	p.mu.Lock()
	defer p.mu.Unlock()
	tasks := make([]*task, 0, len(p.held))
	for _, t := range p.held {
		tasks = append(tasks, t)
	}
	return tasks
}

func (p *Pool) renew(ctx context.Context, tasks []*task) error {
	leases := make([]store.Lease, len(tasks))
	for i, t := range tasks {
		leases[i] = t.leaseRef()
	}
	asked := clock.Now()
	held, err := p.Store.Renew(ctx, leases, p.Lease)
	if err != nil {
		return err
	}
	deadline := asked.Add(p.trust())
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, t := range tasks {
		switch {
		case p.held[t.ID] != t:
			// Settled, lost or handed back while the command was on its way.
		case held[t.ID]:
			t.deadline = deadline
			t.expiry.Reset(clock.Until(deadline))
		default:
			p.lose(t, "another worker or the reaper took it")
		}
	}
	return nil
}
