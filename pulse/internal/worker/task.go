package worker

import (
	"context"
	"fmt"
	"time"

	"github.com/orionjs/orion-go/pulse/internal/clock"
	"github.com/orionjs/orion-go/pulse/internal/delivery"
	"github.com/orionjs/orion-go/pulse/internal/store"
	"github.com/orionjs/orion-go/pulse/observe"
)

// task is one claimed delivery, from its claim until its outcome is stored or it is handed back.
// Guarded by Pool.mu, but for what is set before it starts.
type task struct {
	store.Candidate
	lane  *lane
	token string

	events []store.Event // nil until they were read
	loaded bool
	bytes  int  // of events
	over   bool // the delivery has ended without this attempt, which must not run

	ctx      context.Context
	cancel   context.CancelCauseFunc
	deadline time.Time   // on the monotonic clock: later the lease may be another's
	expiry   *time.Timer // cancels ctx at the deadline
	state    state
	begun    time.Time // when it started
	toldLong bool
	lost     bool
	inOrder  bool   // claimed in the order of its topic,
	term     string // under this token of the ordered lease
	stepped  bool   // the step from it to the next one is through, and
	stepLost bool   // its outcome came too late
}

type state int

const (
	waiting   state = iota // for a slot
	started                // the handler runs
	settling               // the outcome is on its way to the store
	forgotten              // it has been stored
)

// attempt is the number of the attempt that the claim began, from 1.
func (t *task) attempt() int { return t.Attempts + 1 }

func (t *task) leaseRef() store.Lease {
	return store.Lease{ID: t.ID, Token: t.token, Format: t.Format}
}

// deliveryID names the delivery, for people and in settlements.
func (t *task) deliveryID() string {
	if t.Format == store.V1 {
		return t.DeliveryID
	}
	return t.ID
}

// settlement is the end of the task, as it is to be stored.
func (p *Pool) settlement(t *task, out delivery.Outcome, verdict delivery.Verdict, delay time.Duration, startedAt, endedAt time.Time) store.Settlement {
	s := store.Settlement{
		Lease: t.leaseRef(), Verdict: verdict, StartedAt: startedAt, EndedAt: endedAt,
		Failure: out.Failure, Delay: delay, Expired: out.Expired, Attempt: t.attempt(),
		DeliveryID: t.deliveryID(), ConsumerGroup: p.Group, Topic: t.lane.receiver.Topic,
	}
	if len(t.EventIDs) > 0 {
		s.EventID = t.EventIDs[len(t.EventIDs)-1]
	}
	return s
}

func (p *Pool) newTask(l *lane, c store.Candidate, token string, deadline time.Time) *task {
	t := &task{Candidate: c, lane: l, token: token, deadline: deadline}
	ctx := context.WithValue(context.Background(), handlerKey{}, p)
	t.ctx, t.cancel = context.WithCancelCause(ctx)
	t.expiry = clock.AfterFunc(clock.Until(deadline), func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if clock.Until(t.deadline) <= 0 { // else it was renewed while the timer fired
			p.lose(t, notRenewed)
		}
	})
	return t
}

// hold registers claims whose leases are to be renewed.
func (p *Pool) hold(tasks []*task) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, t := range tasks {
		if t.lost {
			continue // by its deadline, before it came here: it would be renewed for ever
		}
		// A delivery that we still hold under an older token was lost and won again. The older task
		// must go: renewals match IDs and tokens crosswise and would keep it alive.
		if older := p.held[t.ID]; older != nil {
			p.lose(older, "it was claimed again")
		}
		p.held[t.ID] = t
	}
}

// finish takes a task out of its handler's hands, until its end is stored; p.mu is held.
func (p *Pool) finish(t *task) {
	if t.state != settling {
		t.state = settling
		p.unsettled++
	}
}

// forget ends the holding of tasks; p.mu is held.
func (p *Pool) forget(tasks []*task) {
	for _, t := range tasks {
		if t.state == settling {
			t.state = forgotten
			p.unsettled--
		}
		t.expiry.Stop()
		t.cancel(nil)
		if p.held[t.ID] == t {
			delete(p.held, t.ID)
		}
	}
}

// lose ends a task whose lease is gone, or must be taken for gone: it is no longer renewed, its handler
// is told, and a buffered one never starts. One that has not started is handed back all the same, since the database
// may still know it as ours: the claim's own answer may have been what came too late, or the renewals, and nobody else
// holds what would wait for the reaper and lose an attempt. The fence leaves alone what another has taken. p.mu is held.
func (p *Pool) lose(t *task, why string) {
	if t.lost || t.state >= settling {
		return // the settler learns from the store whether the outcome counted
	}
	t.lost = true
	if t.inOrder && t.lane.order.token != "" {
		defer p.loseOrder(t.lane, why) // what follows in the order must not go on without this one
	}
	t.cancel(delivery.ErrLockLost)
	if p.held[t.ID] == t {
		delete(p.held, t.ID)
	}
	if t.state == waiting {
		for i, buffered := range t.lane.buffer {
			if buffered == t {
				t.lane.buffer = append(t.lane.buffer[:i:i], t.lane.buffer[i+1:]...)
				break
			}
		}
	}
	if t.state == waiting {
		p.handBackLost(t)
		if t.inOrder {
			return // nothing was done that another could repeat: the loss of the running one says enough
		}
	}
	go p.reportLost(t, why) // not under the lock: the user's code may call back
}

// loseOverdue tells whether the task is lost, and loses it if its deadline has passed: in a process that was
// frozen, the timers fire when it wakes, and anything else may come before them. p.mu is held.
func (p *Pool) loseOverdue(t *task) bool {
	if clock.Until(t.deadline) <= 0 {
		p.lose(t, notRenewed)
	}
	return t.lost
}

// notRenewed is why a lease ends by the local clock.
const notRenewed = "it was not renewed in time"

// reportLost tells the user, and the observer, of a lost task.
func (p *Pool) reportLost(t *task, why string) {
	topic := t.lane.receiver.Topic
	p.Report(fmt.Errorf("topic %s, delivery %s, attempt %d: %s: %w", topic, t.deliveryID(), t.attempt(), why, delivery.ErrLockLost))
	if p.Observer != nil {
		p.Observer.LeaseLost(observe.LeaseLost{System: observe.Pulse, Group: p.Group, Topic: topic, Attempt: t.attempt()})
	}
}
