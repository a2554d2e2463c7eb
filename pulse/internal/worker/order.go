package worker

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/orionjs/orion-go/pulse/internal/clock"
	"github.com/orionjs/orion-go/pulse/internal/delivery"
	"github.com/orionjs/orion-go/pulse/internal/store"
)

// Ordered delivery (spec 4.9). One client at a time holds a topic's ordered lease, and only the holder
// claims. It reads the head of the order, claims from it one attempt or, where that is safe and the
// handlers are fast, a window of consecutive first attempts, and runs them one after the other. Outcomes
// of a window are stored together, all or nothing; the next window waits for that. So what is stored is
// always a prefix of the order: an event is never settled before its predecessors.
//
// A window is claimed ahead of its handlers. If the process dies, only the attempt marked as started
// counts as lost; the new holder hands the others back, last to first, and goes through all of them in
// single steps, as it does with every repeated attempt: an event that kills processes then costs no
// innocent one an attempt.
const (
	headLimit     = 200                    // of the order, read at once
	windowLimit   = 100                    // attempts claimed at once
	windowTime    = 250 * time.Millisecond // of handler time in a window
	stepPace      = 20 * time.Millisecond  // slower handlers gain nothing from windows
	flushInterval = 200 * time.Millisecond // the longest that outcomes of a window wait
)

// order is the state of an ordered lane. Guarded by Pool.mu; heads changes in the claim loop while nothing of
// the lane runs, and by steps while something does.
type order struct {
	token    string    // of the ordered lease; empty when it is not held
	void     string    // the token under which an outcome was lost: nothing behind it may be stored any more
	deadline time.Time // on the monotonic clock: later the lease may be another's
	try      try
	idle     time.Time // when the lane last had work

	running *task          // its handler runs
	blocked bool           // until outcomes on their way are stored
	wait    time.Time      // by the server's clock: nothing runs before, since the head waits for its retry
	lost    store.Position // up to here a holder was lost: one attempt at a time
	done    []settled      // outcomes of the window that are not on their way yet
	flushed time.Time      // when outcomes were last sent
	flusher *time.Timer    // sends them when the next handler takes long; nil when it is not armed

	heads    []store.Head    // read and not yet claimed
	repaired map[string]bool // broken heads that were repaired when they were read last; of the claim loop alone
	steps    steps
}

// try is a request for the ordered lease that may have been granted, and when it was first made.
type try struct {
	token string
	asked time.Time
}

// ended says that a handler has ended; Pool.mu is held.
func (o *order) ended(t *task) {
	if o.running == t {
		o.running = nil
	}
}

// claimInOrder claims the next attempt or window of an ordered lane for a slot that was reserved.
func (p *Pool) claimInOrder(ctx context.Context, l *lane, src *source) (progress bool, err error) {
	if err := p.loadSteps(ctx, l); err != nil {
		return false, err
	}
	p.mu.Lock()
	src.candidates = nil // of a time before the order
	mayClaim := (src.ready || len(l.order.heads) > 0) && !l.resting() && !l.order.blocked &&
		len(l.buffer) == 0 && l.running == 0 && !l.order.wait.After(p.Store.Now())
	src.needy = boolInt(mayClaim)
	if mayClaim && l.reserved == 0 {
		p.dispatch()
	}
	mayClaim = mayClaim && l.reserved > 0
	p.mu.Unlock()
	if !mayClaim {
		return false, nil
	}
	claimed, err := p.advanceOrder(ctx, l, src)
	p.mu.Lock()
	src.needy = 0
	if err != nil {
		src.ready = true
		l.order.forgetHeads()
	}
	p.dispatch()
	p.mu.Unlock()
	return claimed, err
}

// advanceOrder makes one step: it becomes the holder, reads the head, recovers, or claims.
func (p *Pool) advanceOrder(ctx context.Context, l *lane, src *source) (progress bool, err error) {
	if held, err := p.holdOrder(ctx, l); err != nil || !held {
		return false, err
	}
	topic := l.receiver.Topic
	if len(l.order.heads) == 0 {
		if err := p.pay(ctx, l, true); err != nil { // else it would be found as half-done steps
			return false, err
		}
		p.mu.Lock()
		src.ready = false // whoever wakes the lane from now on saw something that the look may miss
		p.mu.Unlock()
		heads, err := p.Store.Heads(ctx, p.Group, topic, headLimit)
		if err != nil || len(heads) == 0 {
			return false, err
		}
		if ready, err := p.mendOrder(ctx, l, heads); err != nil || !ready {
			return false, err
		}
		l.order.heads = heads
		if len(heads) == headLimit {
			p.Wake(topic, store.V1) // there may be more behind these
		}
	}
	head := l.order.heads[0]
	if head.Due.After(p.Store.Now()) {
		p.mu.Lock()
		l.order.forgetHeads()
		l.order.wait = head.Due
		p.wakeAt(l, store.V1, head.Due)
		p.mu.Unlock()
		return false, nil
	}
	window := l.order.heads[:p.window(l)]
	return p.claimWindow(ctx, l, window)
}

// mendOrder brings the head of the order into a state from which it can go on: steps that a crash left half
// done are finished, locks of lost holders removed. It tells whether the heads can be used as they were
// read.
func (p *Pool) mendOrder(ctx context.Context, l *lane, heads []store.Head) (ready bool, err error) {
	topic, policy := l.receiver.Topic, l.receiver.Policy()
	again := func() (bool, error) {
		p.Wake(topic, store.V1)
		return false, nil
	}
	var broken []store.Head
	var locked []store.Head
	for _, h := range heads {
		if h.Broken {
			broken = append(broken, h)
		}
		if h.Locked {
			locked = append(locked, h)
			if h.LockedUntil.After(p.Store.Now()) {
				p.WakeAt(topic, store.V1, h.LockedUntil)
				return false, nil
			}
		}
	}
	if len(broken) > 0 {
		return false, p.repairHeads(ctx, l, broken)
	}
	l.order.repaired = nil
	if len(locked) == 0 {
		return true, nil
	}
	p.mu.Lock()
	l.order.lost = locked[len(locked)-1].At
	p.mu.Unlock()
	owners := make([]string, len(locked))
	for i, h := range locked {
		owners[i] = h.Owner()
	}
	if err := p.Store.AbortLeft(ctx, owners...); err != nil {
		return false, err
	}
	for i := len(locked) - 1; i >= 0; i-- {
		verdict, delay := delivery.Decide(locked[i].Attempts+1, delivery.Outcome{Failure: delivery.WorkerLost(), Permanent: locked[i].Granted}, policy)
		recovered, err := p.Store.Recover(ctx, locked[i], verdict, delay, p.HistoryRetention)
		if err != nil {
			return false, err
		}
		if p.Observer != nil && recovered {
			p.observeRecovered(topic, locked[i], verdict)
		}
		p.Logger.Warn("pulse: the holder of an order was lost", "group", p.Group, "topic", topic, "delivery", locked[i].DeliveryID, "started", locked[i].Started)
	}
	return again()
}

// repairHeads finishes steps that a crash left half done. What is broken after that as well is of nobody's making,
// and is ended, since all the rest of the order waits behind it.
func (p *Pool) repairHeads(ctx context.Context, l *lane, broken []store.Head) error {
	topic := l.receiver.Topic
	again, progress := map[string]bool{}, false
	var ids []string
	for _, h := range broken {
		again[h.Key()] = true
		if !l.order.repaired[h.Key()] {
			ids = append(ids, h.DeliveryID)
			continue
		}
		ended, err := p.Store.EndHopeless(ctx, h, p.HistoryRetention)
		if err != nil {
			return err
		}
		if progress = progress || ended; ended {
			p.Report(fmt.Errorf("pulse: topic %s, delivery %s: its documents cannot be run, it has ended as an error so that the order goes on", topic, h.Key()))
		}
	}
	l.order.repaired = again
	if len(ids) > 0 {
		if err := p.Store.RepairDeliveries(ctx, ids, p.HistoryRetention, p.decide); err != nil {
			return fmt.Errorf("pulse: topic %s: repair half-done steps at the head of the order: %w", topic, err)
		}
	}
	if progress || len(ids) > 0 {
		p.Wake(topic, store.V1)
	} else { // nothing helps; the reason is reported by what failed, or was seen to by another client
		p.WakeAt(topic, store.V1, p.Store.Now().Add(handBackPause))
	}
	return nil
}

// decide is what a topic's policy makes of a failure that a repair finds.
func (p *Pool) decide(topic string, attempt int, code string) (delivery.Verdict, time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var policy delivery.Policy
	if l := p.lane(topic); l != nil {
		policy = l.receiver.Policy()
	}
	return delivery.Decide(attempt, delivery.Outcome{Failure: &delivery.Failure{Code: code}}, policy)
}

// window is how many of the heads are claimed together.
func (p *Pool) window(l *lane) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	policy, pace := l.receiver.Policy(), l.pace.average
	if pace == 0 || pace > stepPace {
		return 1
	}
	most := min(windowLimit, max(1, int(min(windowTime, p.Lease/3)/pace)))
	if spare := l.allowance(); spare < most {
		most = spare + 1 // beside the slot's own
	}
	n, now := 0, p.Store.Now()
	for n < len(l.order.heads) && n < most {
		h := l.order.heads[n]
		if !mayClaimAhead(h.Candidate, policy) || !h.At.After(l.order.lost) || h.Due.After(now) {
			break
		}
		n++
	}
	return max(n, 1)
}

// claimWindow claims the window and puts it into the lane's buffer; the first of it starts.
func (p *Pool) claimWindow(ctx context.Context, l *lane, window []store.Head) (bool, error) {
	p.mu.Lock()
	term := l.order.token
	p.mu.Unlock()
	token := uuid.NewString()
	deadline := clock.Now().Add(p.trust())
	// Not interrupted by the end of the pool, as in claim.
	n, err := p.Store.ClaimOrdered(context.WithoutCancel(ctx), window, p.Owner, token, p.Lease)
	if err != nil {
		claims := make([]store.Candidate, len(window))
		for i, h := range window {
			claims[i] = h.Candidate
		}
		p.doubtClaim(l, store.V1, claims, nil, token)
	}
	if p.Observer != nil {
		p.observeClaim(l, len(window), n)
	}
	tasks := make([]*task, len(window))
	p.mu.Lock() // a deadline that has passed already ends the task as soon as the lock is free
	for i, h := range window {
		tasks[i] = p.newTask(l, h.Candidate, token, deadline)
		tasks[i].inOrder, tasks[i].term = true, term
	}
	p.mu.Unlock()
	p.hold(tasks)
	if err == nil && n == len(window) {
		err = p.loadWindow(ctx, l, tasks)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil || n < len(window) || l.resting() || p.closing || l.order.token == "" {
		// Whatever was claimed goes back; the fence lets what was not claimed be. Of tasks that were lost
		// already nothing goes back, and nothing else would end the wait for it.
		l.order.forgetHeads()
		l.order.blocked = true
		p.handBack(tasks)
		p.orderStored(l)
		return false, err
	}
	l.order.heads = l.order.heads[len(window):]
	l.order.flushed = clock.Now()
	p.slots--
	l.reserved--
	p.start(tasks[0])
	l.buffer = append(l.buffer, tasks[1:]...)
	return true, nil
}

// loadWindow reads what the window's tasks need, unless it was read for steps.
func (p *Pool) loadWindow(ctx context.Context, l *lane, tasks []*task) error {
	p.mu.Lock()
	loaded, ok := l.order.steps.loaded[tasks[0].DeliveryID]
	delete(l.order.steps.loaded, tasks[0].DeliveryID)
	if ok = ok && len(tasks) == 1; ok {
		loaded.into(tasks[0])
	}
	p.mu.Unlock()
	if !ok {
		return p.load(ctx, tasks)
	}
	return nil
}

// concludeInOrder takes the outcome of an ordered attempt. A success waits for those that follow it; a
// failure stops the order until it is stored, and hands back what was claimed behind it. p.mu is held.
func (p *Pool) concludeInOrder(t *task, s store.Settlement) {
	l := t.lane
	p.finish(t)
	if s.Verdict == delivery.Succeeded {
		if next, head := p.nextStep(l); next != nil {
			p.beginStep(l)
			p.settler.push(settled{task: t, settlement: s, step: next, head: head})
			return
		}
	}
	l.order.done = append(l.order.done, settled{task: t, settlement: s, inOrder: true})
	if s.Verdict != delivery.Succeeded {
		l.order.forgetHeads()
		l.order.wait = time.Time{}
		if s.Verdict == delivery.Retried {
			l.order.wait = s.EndedAt.Add(s.Delay)
		}
		p.handBack(l.buffer)
		l.buffer = nil
	}
	if len(l.buffer) == 0 || clock.Since(l.order.flushed) >= flushInterval || p.closing || l.resting() {
		p.flushOrder(l)
	} else if l.order.flusher == nil {
		l.order.flusher = clock.AfterFunc(flushInterval-clock.Since(l.order.flushed), func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			l.order.flusher = nil
			p.flushOrder(l)
		})
	}
}

// flushOrder sends the outcomes of the window so far on their way; p.mu is held.
func (p *Pool) flushOrder(l *lane) {
	if len(l.order.done) == 0 {
		return
	}
	last := &l.order.done[len(l.order.done)-1]
	switch {
	case l.order.running != nil:
		last.next = l.order.running
	case len(l.buffer) > 0:
		last.next = l.buffer[0]
	default:
		l.order.blocked = true
	}
	p.settler.push(l.order.done...)
	l.order.done, l.order.flushed = nil, clock.Now()
}

// orderStored is called when outcomes or hand-backs of an ordered lane have been stored; p.mu is held.
func (p *Pool) orderStored(l *lane) {
	if l.order.blocked && l.running == 0 && len(l.buffer) == 0 && p.settler.none(l) {
		l.order.blocked = false
		p.wake(l, store.V1)
	}
}

// forgetDone drops outcomes that must not be stored any more; p.mu is held.
func (p *Pool) forgetDone(l *lane) {
	for _, e := range l.order.done {
		p.forget([]*task{e.task})
	}
	l.order.done = nil
}
