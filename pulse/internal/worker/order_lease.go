package worker

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/orionjs/orion-go/pulse/internal/clock"
	"github.com/orionjs/orion-go/pulse/internal/store"
)

// orderLease is how long the ordered lease lasts: longer than its attempts' leases, which are renewed
// after it, so that none outlives it.
func (p *Pool) orderLease() time.Duration { return p.Lease + p.Lease/4 }

// holdOrder makes sure that this client holds the ordered lease.
func (p *Pool) holdOrder(ctx context.Context, l *lane) (bool, error) {
	p.mu.Lock()
	held := l.order.token != "" && clock.Until(l.order.deadline) > p.Lease/4
	l.order.idle = clock.Now()
	if held {
		p.mu.Unlock()
		return true, nil
	}
	// The same token until there is an answer: a lease whose answer was lost would be nobody's. But not for so
	// long that little would be left of it.
	if t := l.order.try; t.token == "" || clock.Until(t.asked.Add(p.orderLease())) <= p.Lease/2 {
		l.order.try = try{token: uuid.NewString(), asked: clock.Now()}
	}
	token, asked := l.order.try.token, l.order.try.asked
	p.mu.Unlock()
	// Not interrupted by the end of the pool, which releases what it knows of.
	lease := store.Lease{ID: l.receiver.SubscriptionID, Token: token}
	won, until, err := p.Store.AcquireOrdered(context.WithoutCancel(ctx), lease, p.Owner, p.orderLease())
	if err == nil && won {
		p.mu.Lock()
		removed := l.removed
		p.mu.Unlock()
		if removed { // by an Unsubscribe, which has seen nothing to release
			return false, p.Store.ReleaseOrdered(context.WithoutCancel(ctx), []store.Lease{lease})
		}
	}
	if err != nil {
		return false, fmt.Errorf("topic %s: %w", l.receiver.Topic, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	l.order.try = try{}
	if !won {
		l.order.forgetHeads()
		l.sources[store.V1].ready = false
		p.wakeAt(l, store.V1, until)
		return false, nil
	}
	l.order.forgetHeads()
	l.order.token, l.order.deadline = token, asked.Add(p.orderLease())
	l.order.wait = time.Time{}
	return true, nil
}

// loseOrder gives up the order: the lease is gone, or must be taken for gone. p.mu is held.
func (p *Pool) loseOrder(l *lane, why string) {
	l.order.token, l.order.wait = "", time.Time{}
	l.order.forgetHeads()
	for _, t := range p.tasksOf(l) {
		if t.inOrder {
			p.lose(t, why)
		}
	}
	p.forgetDone(l)
	p.wakeAt(l, store.V1, p.Store.Now().Add(p.orderLease()))
}

func (p *Pool) tasksOf(l *lane) []*task {
	var tasks []*task
	for _, t := range p.held {
		if t.lane == l {
			tasks = append(tasks, t)
		}
	}
	return tasks
}

// voidOrder gives up the order because an outcome of it found its lease gone. Others of the same term may be on
// their way behind it, each with a lease that holds: stored, they would leave a hole in what must be a prefix.
func (p *Pool) voidOrder(t *task) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if t.lane.order.token == t.term {
		p.loseOrder(t.lane, "its order was lost")
	}
	t.lane.order.void = t.term
}

// void tells whether an outcome of the task's term of the order was lost.
func (p *Pool) void(t *task) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return t.term == t.lane.order.void
}

// renewOrders renews the ordered leases that are in use, and releases those that have been idle for a
// whole lease, so that another client gets its turn.
func (p *Pool) renewOrders(ctx context.Context) error {
	var renew, release []store.Lease
	p.mu.Lock()
	for _, l := range p.lanes {
		if l.order.token == "" {
			continue
		}
		lease := store.Lease{ID: l.receiver.SubscriptionID, Token: l.order.token}
		working := l.running > 0 || len(l.buffer) > 0 || l.order.blocked || l.reserved > 0
		if !working && clock.Since(l.order.idle) > p.Lease {
			release = append(release, lease)
			l.order.token, l.order.wait = "", time.Time{}
			continue
		}
		renew = append(renew, lease)
	}
	p.mu.Unlock()
	if len(release) > 0 {
		if err := p.Store.ReleaseOrdered(ctx, release); err != nil {
			p.Report(err)
		}
	}
	if len(renew) == 0 {
		return nil
	}
	asked := clock.Now()
	held, err := p.Store.RenewOrdered(ctx, renew, p.orderLease())
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range p.lanes {
		for _, lease := range renew {
			if l.order.token != lease.Token {
				continue
			}
			switch {
			case err == nil && held[lease.ID]:
				l.order.deadline = asked.Add(p.orderLease())
			case err == nil || clock.Until(l.order.deadline) <= 0:
				p.loseOrder(l, "the ordered lease was lost")
			}
		}
	}
	return err
}

// releaseOrders ends the ordered leases of lanes that have come to rest.
func (p *Pool) releaseOrders(ctx context.Context, lanes []*lane) error {
	for _, l := range lanes {
		if err := p.pay(ctx, l, true); err != nil {
			p.Report(err) // the next holder finds it
		}
	}
	var leases []store.Lease
	p.mu.Lock()
	for _, l := range lanes {
		if l.order.token != "" && l.running == 0 {
			leases = append(leases, store.Lease{ID: l.receiver.SubscriptionID, Token: l.order.token})
			l.order.token = ""
		} else if l.order.try.token != "" { // asked for, and not answered
			leases = append(leases, store.Lease{ID: l.receiver.SubscriptionID, Token: l.order.try.token})
		}
	}
	p.mu.Unlock()
	if len(leases) == 0 {
		return nil
	}
	return p.Store.ReleaseOrdered(ctx, leases)
}
