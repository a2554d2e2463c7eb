package worker

import (
	"time"

	"github.com/orionjs/orion-go/pulse/internal/clock"
	"github.com/orionjs/orion-go/pulse/internal/receiver"
	"github.com/orionjs/orion-go/pulse/internal/store"
)

// lane is one topic's way through the pool. Guarded by Pool.mu.
type lane struct {
	receiver *receiver.Receiver
	removed  bool
	sources  map[store.Format]*source
	running  int
	reserved int // slots reserved for this lane's next claim
	buffer   []*task
	pace     pace
	order    order
}

// source is what is known of one format's due deliveries of a lane. Every client drains both formats of
// its group (spec 4.11); the one that has no work costs nothing but its share of a poll.
type source struct {
	format store.Format
	ready  bool // the database may have due deliveries that candidates does not show
	needy  int  // candidates that can only be claimed for a reserved slot
	timer  *time.Timer
	due    time.Time // when timer fires; zero when it is not armed

	// Used by the claim loop alone.
	candidates []store.Candidate
	contended  bool // others claimed from the last page as well
	misses     int  // claims in a row that won nothing
}

func newLane(r *receiver.Receiver) *lane {
	l := &lane{receiver: r, sources: map[store.Format]*source{}}
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
func (l *lane) busy() bool { return l.ready() || l.needy() > 0 || len(l.buffer) > 0 }

// inOrder tells whether the lane's version 1 deliveries run in order. A subscription that was ordered and
// is no longer keeps its order until the lease is given up.
func (l *lane) inOrder() bool { return l.receiver.Settings().InOrder() }

// limit is how many invocations of the lane may run at once.
func (p *Pool) limit(l *lane) int {
	if l.inOrder() {
		return 1
	}
	return min(l.receiver.Limit, p.Workers)
}

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

// WakeAt says that the topic has a delivery of the format that is due at a time of the server's clock.
// Only the nearest such time is remembered: waking then finds the next.
func (p *Pool) WakeAt(topic string, format store.Format, due time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if l := p.lane(topic); l != nil && !p.closing {
		p.wakeAt(l, format, due)
	}
}

func (p *Pool) wakeAt(l *lane, format store.Format, due time.Time) {
	wait := due.Sub(p.Store.Now())
	if wait <= 0 {
		p.wake(l, format)
		return
	}
	s := l.sources[format]
	if !s.due.IsZero() && !due.Before(s.due) {
		return
	}
	s.disarm()
	s.due = due
	s.timer = clock.AfterFunc(wait+time.Millisecond, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		s.due = time.Time{}
		p.wake(l, format)
	})
}

func (s *source) disarm() {
	if s.timer != nil {
		s.timer.Stop()
	}
	s.due = time.Time{}
}

func (l *lane) disarm() {
	for _, s := range l.sources {
		s.disarm()
	}
}

// Quiet returns, for each format, the topics of which the pool does not know that they have due
// deliveries of it.
func (p *Pool) Quiet() map[store.Format][]string {
	p.mu.Lock()
	defer p.mu.Unlock()
	quiet := map[store.Format][]string{}
	for _, l := range p.lanes {
		if len(l.buffer) > 0 {
			continue
		}
		for format, s := range l.sources {
			if !s.ready && s.needy == 0 {
				quiet[format] = append(quiet[format], l.receiver.Topic)
			}
		}
	}
	return quiet
}
