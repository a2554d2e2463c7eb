package worker

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/orionjs/orion-go/pulse/internal/clock"
	"github.com/orionjs/orion-go/pulse/internal/delivery"
	"github.com/orionjs/orion-go/pulse/internal/store"
)

// Steps. Where no window may be claimed ahead, because handlers are slow or a lost attempt would be the last, the
// order goes from one attempt to the next with a single command that stores the outcome of the one and claims the
// other. The slot stays with the lane meanwhile, unless another lane waits for one. The ends of the deliveries,
// which follow from the outcomes, are owed, and stored for many together; after a crash the next holder finds
// what is owed at the head of the order.
const (
	stepLoad  = 50              // events read at once for coming steps
	stepOwed  = 200             // ends of deliveries that may be owed
	stepDebt  = 2 * time.Second // how long they may be
	stepReady = 5               // with fewer loaded the next are read
)

// steps is the state of an ordered lane that goes step by step. Guarded by Pool.mu.
type steps struct {
	loaded map[string]loadedHead // by delivery
	slot   bool                  // a step is on its way, and keeps the lane's slot
	owed   []store.Settlement
	since  time.Time // when the first of them was stored
}

// loadedHead is what a head's task needs to run.
type loadedHead struct {
	events       []store.Event
	bytes        int
	loaded, over bool
}

// into copies what was loaded into a task.
func (h loadedHead) into(t *task) {
	t.events, t.bytes, t.loaded, t.over = h.events, h.bytes, h.loaded, h.over
}

// loadSteps reads what the coming steps need; only the claim loop calls it.
func (p *Pool) loadSteps(ctx context.Context, l *lane) error {
	p.mu.Lock()
	var heads []store.Head
	if l.order.token != "" && !l.resting() && !p.closing && l.order.stepping(l) && len(l.order.steps.loaded) < stepReady {
		for _, h := range l.order.heads {
			if _, known := l.order.steps.loaded[h.DeliveryID]; !known && len(heads) < stepLoad {
				heads = append(heads, h)
			}
		}
	}
	p.mu.Unlock()
	if len(heads) == 0 {
		return nil
	}
	tasks := make([]*task, len(heads))
	for i, h := range heads {
		tasks[i] = &task{Candidate: h.Candidate}
	}
	if err := p.load(ctx, tasks); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if l.order.heads == nil {
		return nil // the order has stopped meanwhile
	}
	if l.order.steps.loaded == nil {
		l.order.steps.loaded = map[string]loadedHead{}
	}
	for _, t := range tasks {
		l.order.steps.loaded[t.DeliveryID] = loadedHead{events: t.events, bytes: t.bytes, loaded: t.loaded, over: t.over}
	}
	return nil
}

// stepping tells whether the lane goes step by step: nothing is claimed ahead.
func (o *order) stepping(l *lane) bool {
	return l.pace.average > stepPace || !delivery.MayClaimAhead(0, l.receiver.Policy())
}

// forgetHeads drops what was read of the order; p.mu is held.
func (o *order) forgetHeads() { o.heads, o.steps.loaded = nil, nil }

// nextStep takes the next head if the order can step to it now, and makes its task; p.mu is held.
func (p *Pool) nextStep(l *lane) (*task, *store.Head) {
	o := &l.order
	if p.closing || l.resting() || len(l.buffer) > 0 || len(o.done) > 0 || len(o.heads) == 0 ||
		o.token == "" || clock.Until(o.deadline) <= p.Lease/4 || !o.stepping(l) || l.allowance() == 0 || p.othersWait(l) {
		return nil, nil
	}
	head := o.heads[0]
	loaded, ok := o.steps.loaded[head.DeliveryID]
	if !ok || head.Due.After(p.Store.Now()) {
		return nil, nil
	}
	o.heads = o.heads[1:]
	delete(o.steps.loaded, head.DeliveryID)
	t := p.newTask(l, head.Candidate, uuid.NewString(), clock.Now().Add(p.trust()))
	t.inOrder, t.term = true, o.token
	loaded.into(t)
	if len(o.steps.loaded) < stepReady {
		p.wakeClaims()
	}
	return t, &head
}

// othersWait tells whether another lane has use for a slot that l would keep; p.mu is held.
func (p *Pool) othersWait(l *lane) bool {
	for _, other := range p.lanes {
		if other != l && p.wantsSlot(other) {
			return true
		}
	}
	return false
}

// beginStep keeps the slot of the attempt that has just ended, until the step is stored; p.mu is held.
func (p *Pool) beginStep(l *lane) {
	l.order.steps.slot, l.order.blocked, l.order.idle = true, true, clock.Now()
	p.slots++
}

// writeStep stores a step and starts the attempt that it claimed. It may be repeated.
func (s *settler) writeStep(ctx context.Context, e settled) (stored bool, err error) {
	p, l, next := s.pool, e.task.lane, e.step
	p.mu.Lock()
	o := &l.order
	void := e.task.term == o.void
	begun, held := e.task.stepped, o.token != "" && clock.Until(o.deadline) > p.Lease/4
	p.mu.Unlock()
	claimed := false
	switch {
	case begun: // repeated for the sake of another lane
		return !e.task.stepLost, nil
	case void: // nothing behind a lost outcome
	case held:
		stored, claimed, err = p.Store.StepInOrder(ctx, e.settlement, *e.head, p.Owner, next.token, p.Lease)
	default: // only the holder claims
		stored, _, err = p.Store.SettleInOrder(ctx, []store.Settlement{e.settlement}, nil, p.HistoryRetention)
	}
	if err != nil {
		return false, err
	}
	if claimed {
		p.hold([]*task{next})
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	e.task.stepped, e.task.stepLost = true, !stored
	o.steps.slot = false
	p.slots--
	if stored && held {
		if len(o.steps.owed) == 0 {
			o.steps.since = clock.Now()
		}
		o.steps.owed = append(o.steps.owed, e.settlement)
	}
	switch {
	case !claimed:
		p.forget([]*task{next}) // another client took it, it has ended, or an earlier try has claimed it unanswered
		p.doubts = append(p.doubts, doubt{lane: l, format: store.V1, leases: []store.Lease{next.leaseRef()}, until: clock.Now().Add(p.Lease)})
		o.forgetHeads()
	case !stored, l.resting(), p.closing, o.token == "", next.lost:
		p.handBackLost(next)
		o.forgetHeads()
	default:
		o.blocked = false
		p.start(next)
	}
	return stored, nil
}

// pay stores what a lane owes, if it is time to.
func (p *Pool) pay(ctx context.Context, l *lane, now bool) error {
	p.mu.Lock()
	o := &l.order
	owed := o.steps.owed
	if len(owed) == 0 || !now && len(owed) < stepOwed && clock.Since(o.steps.since) < stepDebt {
		p.mu.Unlock()
		return nil
	}
	o.steps.owed = nil
	p.mu.Unlock()
	err := p.Store.FollowInOrder(ctx, owed, p.HistoryRetention)
	if err != nil {
		p.mu.Lock()
		o.steps.owed = append(owed, o.steps.owed...)
		p.mu.Unlock()
	}
	return err
}
