package worker

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/orionjs/orion-go/pulse/internal/backoff"
	"github.com/orionjs/orion-go/pulse/internal/clock"
	"github.com/orionjs/orion-go/pulse/internal/delivery"
	"github.com/orionjs/orion-go/pulse/internal/store"
)

// settleAtOnce bounds one settling command. Each document finds its own values in an array of this length, so
// that much larger commands would cost more and not less.
const settleAtOnce = 200

// handBackPause is how long a delivery that could not be run rests before this client looks at it again.
const handBackPause = time.Second

// settler stores outcomes. It does not wait for more to come: what arrives while one write is on its way
// goes with the next. Its tasks stay held, and their leases renewed, until their outcome is stored; a
// failing write is repeated, and the store knows which outcomes it has already.
type settler struct {
	pool *Pool

	mu      sync.Mutex
	queue   []settled
	pending int           // queued or being written
	of      map[*lane]int // the same, by lane
	wake    chan struct{} // something was queued
	empty   chan struct{} // closed while pending is 0
}

// settled is a task at its end: with an outcome, or handed back unrun.
type settled struct {
	task       *task
	settlement store.Settlement
	handBack   bool
	inOrder    bool  // stands or falls with the other outcomes of its lane
	next       *task // of the order, about to start: marked as started together with this outcome
	step       *task // of the order, claimed and started by the write of this outcome
	head       *store.Head
}

func newSettler(p *Pool) *settler {
	s := &settler{pool: p, of: map[*lane]int{}, wake: make(chan struct{}, 1), empty: make(chan struct{})}
	close(s.empty)
	return s
}

// add queues an outcome; Pool.mu is held.
func (s *settler) add(t *task, settlement store.Settlement) {
	s.pool.finish(t)
	s.push(settled{task: t, settlement: settlement})
}

// handBack queues tasks to be given back with their attempt not consumed; p.mu is held.
func (p *Pool) handBack(tasks []*task) {
	for _, t := range tasks {
		if !t.lost {
			p.handBackLost(t)
		}
	}
}

// handBackLost is handBack of a task that may be lost; p.mu is held.
func (p *Pool) handBackLost(t *task) {
	t.events, t.bytes = nil, 0
	p.finish(t)
	p.settler.push(settled{task: t, handBack: true})
}

// push queues outcomes together: those of one flush go with one write, as far as that has room.
func (s *settler) push(all ...settled) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pending == 0 {
		s.empty = make(chan struct{})
	}
	for _, e := range all {
		s.pending++
		s.of[e.task.lane]++
		s.queue = append(s.queue, e)
	}
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *settler) loop(ctx context.Context) {
	failures := backoff.NewExponential(50*time.Millisecond, 2*time.Second)
	for {
		batch := s.take()
		if len(batch) == 0 {
			select {
			case <-s.wake:
				continue
			case <-ctx.Done():
				return
			}
		}
		for {
			err := s.write(ctx, batch)
			if err == nil {
				break
			}
			if ctx.Err() != nil {
				return
			}
			s.pool.Report(err)
			if clock.Sleep(ctx, failures.Next()) != nil {
				return
			}
		}
		failures.Reset()
		s.done(batch)
	}
}

func (s *settler) take() []settled {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := min(settleAtOnce, len(s.queue))
	batch := s.queue[:n:n]
	s.queue = s.queue[n:]
	return batch
}

func (s *settler) done(batch []settled) {
	lanes := map[*lane]bool{}
	s.mu.Lock()
	for _, e := range batch {
		l := e.task.lane
		lanes[l] = true
		if s.of[l]--; s.of[l] == 0 {
			delete(s.of, l)
		}
	}
	if s.pending -= len(batch); s.pending == 0 {
		close(s.empty)
	}
	s.mu.Unlock()
	s.pool.mu.Lock()
	defer s.pool.mu.Unlock()
	for l := range lanes {
		s.pool.orderStored(l)
	}
}

// none tells whether nothing of the lane is on its way.
func (s *settler) none(l *lane) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.of[l] == 0
}

// waitEmpty waits until every outcome is stored, and returns how many are not when ctx ends.
func (s *settler) waitEmpty(ctx context.Context) int {
	s.mu.Lock()
	empty := s.empty
	s.mu.Unlock()
	select {
	case <-empty:
		return 0
	case <-ctx.Done():
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.pending
	}
}

// write stores one batch.
func (s *settler) write(ctx context.Context, batch []settled) error {
	p := s.pool
	var leases []store.Lease
	var settlements []store.Settlement
	lost := map[string]bool{}
	ordered := map[*lane][]settled{}
	var steps []settled
	tasks := make([]*task, len(batch))
	superseded := p.superseded(batch)
	for i, e := range batch {
		tasks[i] = e.task
		switch {
		case e.step != nil:
			steps = append(steps, e)
		case superseded[e.task]:
		case e.handBack:
			leases = append(leases, e.task.leaseRef())
		case e.inOrder && p.void(e.task):
			lost[e.task.ID] = true
		case e.inOrder:
			ordered[e.task.lane] = append(ordered[e.task.lane], e)
		default:
			settlements = append(settlements, e.settlement)
		}
	}
	for _, e := range steps {
		stored, err := s.writeStep(ctx, e)
		if err != nil {
			return fmt.Errorf("%w (tried again until it is known; the leases stay renewed meanwhile)", err)
		}
		if !stored {
			lost[e.task.ID] = true
			p.voidOrder(e.task)
		}
	}
	for l, outcomes := range ordered {
		if err := p.pay(ctx, l, true); err != nil { // first what comes before these
			return err
		}
		stored, held, err := s.writeInOrder(ctx, outcomes)
		if err != nil {
			return fmt.Errorf("%w (tried again until it is known; the leases stay renewed meanwhile)", err)
		}
		switch {
		case !stored:
			for _, e := range outcomes {
				lost[e.task.ID] = true
			}
			p.voidOrder(outcomes[0].task)
		case !held:
			p.mu.Lock()
			p.loseOrder(l, "its order was lost")
			p.mu.Unlock()
		}
	}
	for _, e := range steps {
		if err := p.pay(ctx, e.task.lane, false); err != nil && ctx.Err() == nil {
			p.Report(err) // tried again later, and found by the next holder at the latest
		}
	}
	if len(settlements) > 0 {
		ids, err := p.Store.Settle(ctx, settlements, p.HistoryRetention)
		if err != nil {
			return fmt.Errorf("%w (tried again until it is known; the leases stay renewed meanwhile)", err)
		}
		for _, id := range ids {
			lost[id] = true
		}
	}
	if len(leases) > 0 {
		if err := p.Store.HandBack(ctx, leases); err != nil {
			return err
		}
	}
	p.mu.Lock()
	p.forget(tasks)
	p.dispatch() // handlers wait while too many outcomes do
	reported := make(map[*task]bool)
	for _, t := range tasks {
		reported[t] = t.lost // it was, when it was lost
	}
	p.mu.Unlock()
	for _, e := range batch {
		topic := e.task.lane.receiver.Topic
		switch {
		case e.handBack && e.task.inOrder: // the order wakes itself
		case e.handBack:
			p.WakeAt(topic, e.task.Format, p.Store.Now().Add(handBackPause))
		case lost[e.task.ID] || superseded[e.task]:
			if !reported[e.task] {
				p.reportLost(e.task, "its outcome came too late and changed nothing")
			}
			continue
		case e.settlement.Verdict == delivery.Retried:
			p.WakeAt(topic, e.task.Format, e.settlement.EndedAt.Add(e.settlement.Delay))
		}
		if e.settlement.Failure != nil {
			p.logFailure(e, topic)
		}
		if p.Observer != nil && !e.handBack {
			p.observeSettled(e.settlement)
		}
	}
	return nil
}

// writeInOrder stores the outcomes of one order, all or none, and tells whether the order is still held.
func (s *settler) writeInOrder(ctx context.Context, outcomes []settled) (stored, held bool, err error) {
	settlements := make([]store.Settlement, len(outcomes))
	for i, e := range outcomes {
		settlements[i] = e.settlement
	}
	// Behind other outcomes the next one of an earlier flush has ended meanwhile: its own is among these, and it is not
	// locked any more. That would pass for a lease that was lost.
	var next *store.Lease
	if last := outcomes[len(outcomes)-1]; last.next != nil {
		lease := last.next.leaseRef()
		next = &lease
	}
	return s.pool.Store.SettleInOrder(ctx, settlements, next, s.pool.HistoryRetention)
}

// superseded returns those of the batch whose delivery this pool has claimed anew meanwhile: lost for
// certain. They must stay out of the write, which matches IDs and tokens crosswise: beside the outcome of
// a task that was claimed together with the newer one, the older would pass for the newer.
func (p *Pool) superseded(batch []settled) map[*task]bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	gone := make(map[*task]bool)
	for _, e := range batch {
		if newer := p.held[e.task.ID]; newer != nil && newer != e.task {
			gone[e.task] = true
		}
	}
	return gone
}

func (p *Pool) logFailure(e settled, topic string) {
	f := e.settlement.Failure
	attrs := []any{"group", p.Group, "topic", topic, "delivery", e.task.deliveryID(), "event", e.settlement.EventID, "attempt", e.task.attempt(), "code", f.Code, "error", f.Message}
	if f.Stack != "" {
		attrs = append(attrs, "stack", f.Stack)
	}
	if e.settlement.Verdict == delivery.Retried {
		p.Logger.Warn("pulse: attempt failed, will be retried", append(attrs, "delay", e.settlement.Delay)...)
		return
	}
	p.Logger.Error("pulse: delivery ended with an error", attrs...)
}
