package worker

import (
	"slices"
	"time"

	"github.com/orionjs/orion-go/pulse/internal/clock"
	"github.com/orionjs/orion-go/pulse/internal/receiver"
	"github.com/orionjs/orion-go/pulse/internal/store"
	"github.com/orionjs/orion-go/pulse/observe"
)

// lane is one topic's way through the pool. Guarded by Pool.mu.
type lane struct {
	receiver *receiver.Receiver
	removed  bool
	sources  map[store.Format]*source
	running  int
	reserved int // slots reserved for this lane's next claim
	births   births
	picked   chan struct{} // closed and replaced when candidates were picked
	buffer   []*task
	pace     pace
	order    order
	refill   *time.Timer // for the rate limit's next token; nil when it is not armed
}

// source is what is known of one format's due deliveries of a lane. Every client drains both formats of
// its group (spec 4.11); the one that has no work costs nothing but its share of a poll.
type source struct {
	format store.Format
	ready  bool        // the database may have due deliveries that candidates does not show
	needy  int         // candidates that can only be claimed for a reserved slot
	timer  *time.Timer // for the nearest of dues
	dues   []time.Time // when deliveries become due, by the server's clock, nearest first

	// Changed by the claim loop alone, which reads them without the lock.
	candidates []store.Candidate
	contended  bool // others claimed from the last page as well
	misses     int  // claims in a row that won nothing
}

func newLane(r *receiver.Receiver) *lane {
	l := &lane{receiver: r, sources: map[store.Format]*source{}, picked: make(chan struct{})}
	for _, format := range store.Formats {
		l.sources[format] = &source{format: format, ready: true}
	}
	return l
}

// ready tells whether the database may have work for the lane.
func (l *lane) ready() bool { return l.sources[store.V1].ready || l.sources[store.V2].ready }

// needy counts the known candidates that wait for a slot.
func (l *lane) needy() int { return l.sources[store.V1].needy + l.sources[store.V2].needy }

// busy tells whether the lane has work or may have.
func (l *lane) busy() bool {
	return !l.receiver.Paused() && (l.ready() || l.needy() > 0 || len(l.buffer) > 0)
}

// inOrder tells whether the lane's version 1 deliveries run in order. A subscription that was ordered and
// is no longer keeps its order until the lease is given up.
func (l *lane) inOrder() bool { return l.receiver.Settings().InOrder() }

// limit is how many invocations of the lane may run at once.
func (p *Pool) limit(l *lane) int { return min(l.receiver.Most(p.Workers), p.Workers) }

// Wake says that the topic may have due deliveries of the format.
func (p *Pool) Wake(topic string, format store.Format) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if l := p.lane(topic); l != nil {
		p.wake(l, format)
	}
}

func (p *Pool) wake(l *lane, format store.Format) {
	l.sources[format].ready = true
	p.wakeClaims()
}

// The bounds of what a lane remembers of the future. Times are rounded up, so that a thousand failures of
// one moment cause one look and not a thousand; what does not fit is found by the poll.
const (
	dueGrain = 5 * time.Millisecond
	maxDues  = 1024
)

// WakeAt says that the topic has a delivery of the format that is due at a time of the server's clock. All
// such times are remembered, not only the nearest: the look at one does not see what becomes due later.
func (p *Pool) WakeAt(topic string, format store.Format, due time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if l := p.lane(topic); l != nil && !p.closing {
		p.wakeAt(l, format, due)
	}
}

func (p *Pool) wakeAt(l *lane, format store.Format, due time.Time) {
	if !due.After(p.Store.Now()) {
		p.wake(l, format)
		return
	}
	if rounded := due.Truncate(dueGrain); rounded.Before(due) {
		due = rounded.Add(dueGrain)
	}
	src := l.sources[format]
	at, known := slices.BinarySearchFunc(src.dues, due, time.Time.Compare)
	if known || at == maxDues {
		return
	}
	src.dues = slices.Insert(src.dues, at, due)
	src.dues = src.dues[:min(len(src.dues), maxDues)]
	if at == 0 {
		p.arm(l, src)
	}
}

// arm sets the source's timer for the nearest due time; p.mu is held.
func (p *Pool) arm(l *lane, src *source) {
	if src.timer != nil {
		src.timer.Stop()
	}
	if len(src.dues) == 0 {
		return
	}
	wait := src.dues[0].Sub(p.Store.Now()) + time.Millisecond
	src.timer = clock.AfterFunc(wait, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		now, passed := p.Store.Now(), 0
		for passed < len(src.dues) && !src.dues[passed].After(now) {
			passed++
		}
		src.dues = slices.Delete(src.dues, 0, passed)
		if p.Observer != nil {
			p.Observer.Woken(observe.Woken{Group: p.Group, Topic: l.receiver.Topic, Source: observe.Timer})
		}
		p.wake(l, src.format)
		p.arm(l, src)
	})
}

// disarm forgets what becomes due; p.mu is held.
func (p *Pool) disarm(l *lane) {
	for _, src := range l.sources {
		src.dues = nil
		p.arm(l, src)
	}
	if l.refill != nil {
		l.refill.Stop()
		l.refill = nil
	}
}

// Quiet returns, for each format, the topics of which the pool does not know that they have due
// deliveries of it.
func (p *Pool) Quiet() map[store.Format][]string {
	p.mu.Lock()
	defer p.mu.Unlock()
	quiet := map[store.Format][]string{}
	for _, l := range p.lanes {
		for format, src := range l.sources {
			if l.quiet(src) && !l.receiver.Paused() {
				quiet[format] = append(quiet[format], l.receiver.Topic)
			}
		}
	}
	return quiet
}

// LookAgain makes the lanes that are not quiet look for due deliveries once more when they are through
// with what they know of.
func (p *Pool) LookAgain() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range p.lanes {
		for _, src := range l.sources {
			if !l.quiet(src) {
				src.ready = true
			}
		}
	}
}

// LookAtHeads makes the ordered lanes that wait for the retry of their head read again when it is due.
func (p *Pool) LookAtHeads() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range p.lanes {
		if !l.order.wait.IsZero() {
			l.order.wait = time.Time{}
			p.wake(l, store.V1)
		}
	}
}

// quiet tells whether the lane does not know of due deliveries of the source; Pool.mu is held.
func (l *lane) quiet(src *source) bool { return !src.ready && src.needy == 0 && len(l.buffer) == 0 }
