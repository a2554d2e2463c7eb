package worker

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/orionjs/orion-go/pulse/internal/clock"
	"github.com/orionjs/orion-go/pulse/internal/receiver"
	"github.com/orionjs/orion-go/pulse/internal/store"
)

// Config is what a Pool needs.
type Config struct {
	Store *store.Store
	Group string
	// Owner is stored with each claim, for people to read.
	Owner string
	// Workers is how many handlers run at once, over all topics.
	Workers int
	// Lease is how long a claim holds without being renewed.
	Lease time.Duration
	// HistoryRetention is how long terminal deliveries stay; zero or less keeps them.
	HistoryRetention time.Duration
	Report           func(error)
	Logger           *slog.Logger
}

// Pool runs the deliveries of one client. Its methods are safe for concurrent use.
type Pool struct {
	Config
	settler *settler
	claims  chan struct{} // wakes the claim loop

	mu      sync.Mutex
	lanes   []*lane // in rotation
	turn    int     // the lane that gets the next free slot
	running int     // handlers
	slots   int     // slots reserved for claims in flight
	held    map[string]*task
	closing bool
	changed chan struct{} // closed and replaced when a handler ends
}

// lane is one topic's way through the pool. Guarded by Pool.mu, but for candidates, which only the
// claim loop uses.
type lane struct {
	receiver *receiver.Receiver
	removed  bool
	ready    bool // the database may have due deliveries that candidates does not show
	running  int
	reserved int // slots reserved for this lane's next claim
	needy    int // candidates that can only be claimed for a reserved slot
	buffer   []*task
	pace     pace
	timer    *time.Timer // for the nearest of dues
	dues     []time.Time // when deliveries become due, by the server's clock, nearest first

	candidates []store.Candidate
	contended  bool // others claimed from the last page as well
	misses     int  // claims in a row that won nothing
}

// limit is how many invocations of the lane may run at once.
func (p *Pool) limit(l *lane) int { return min(l.receiver.Limit, p.Workers) }

// New returns a pool without lanes.
func New(cfg Config) *Pool {
	p := &Pool{
		Config: cfg, claims: make(chan struct{}, 1),
		held: map[string]*task{}, changed: make(chan struct{}),
	}
	p.settler = newSettler(p)
	return p
}

// Loops returns the pool's loops by name. The claim loop is to be stopped before Drain, the others
// after it.
func (p *Pool) Loops() (claim, renew, settle func(context.Context)) {
	return p.claimLoop, p.renewLoop, p.settler.loop
}

// Add gives a topic a lane.
func (p *Pool) Add(r *receiver.Receiver) {
	p.mu.Lock()
	p.lanes = append(p.lanes, &lane{receiver: r, ready: true})
	p.mu.Unlock()
	p.wakeClaims()
}

// lane returns the topic's lane; p.mu is held.
func (p *Pool) lane(topic string) *lane {
	for _, l := range p.lanes {
		if l.receiver.Topic == topic {
			return l
		}
	}
	return nil
}

// Wake says that the topic may have due deliveries.
func (p *Pool) Wake(topic string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if l := p.lane(topic); l != nil {
		p.wake(l)
	}
}

func (p *Pool) wake(l *lane) {
	l.ready = true
	p.wakeClaims()
}

func (p *Pool) wakeClaims() {
	select {
	case p.claims <- struct{}{}:
	default:
	}
}

// The bounds of what a lane remembers of the future. Times are rounded up, so that a thousand failures of
// one moment cause one look and not a thousand; what does not fit is found by the poll.
const (
	dueGrain = 5 * time.Millisecond
	maxDues  = 1024
)

// WakeAt says that the topic has a delivery that is due at a time of the server's clock. All such times are
// remembered, not only the nearest: the look at one does not see what becomes due later.
func (p *Pool) WakeAt(topic string, due time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.lane(topic)
	if l == nil || p.closing {
		return
	}
	if !due.After(p.Store.Now()) {
		p.wake(l)
		return
	}
	if rounded := due.Truncate(dueGrain); rounded.Before(due) {
		due = rounded.Add(dueGrain)
	}
	at, known := slices.BinarySearchFunc(l.dues, due, time.Time.Compare)
	if known || at == maxDues {
		return
	}
	l.dues = slices.Insert(l.dues, at, due)
	l.dues = l.dues[:min(len(l.dues), maxDues)]
	if at == 0 {
		p.arm(l)
	}
}

// arm sets the lane's timer for the nearest due time; p.mu is held.
func (p *Pool) arm(l *lane) {
	if l.timer != nil {
		l.timer.Stop()
	}
	if len(l.dues) == 0 {
		return
	}
	wait := l.dues[0].Sub(p.Store.Now()) + time.Millisecond
	l.timer = clock.AfterFunc(wait, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		now, passed := p.Store.Now(), 0
		for passed < len(l.dues) && !l.dues[passed].After(now) {
			passed++
		}
		l.dues = slices.Delete(l.dues, 0, passed)
		p.wake(l)
		p.arm(l)
	})
}

// disarm forgets what becomes due; p.mu is held.
func (p *Pool) disarm(l *lane) {
	l.dues = nil
	p.arm(l)
}

// Quiet returns the topics of which the pool does not know that they have due deliveries.
func (p *Pool) Quiet() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var quiet []string
	for _, l := range p.lanes {
		if l.quiet() {
			quiet = append(quiet, l.receiver.Topic)
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
		if !l.quiet() {
			l.ready = true
		}
	}
}

// quiet tells whether the lane does not know of due deliveries; Pool.mu is held.
func (l *lane) quiet() bool { return !l.ready && l.needy == 0 && len(l.buffer) == 0 }

// dispatch gives free slots away, lane by lane in rotation: to a buffered task, which starts, or to
// candidates that need a slot before they are claimed. p.mu is held.
func (p *Pool) dispatch() {
	for p.running+p.slots < p.Workers && !p.closing {
		l := p.nextLane()
		if l == nil {
			return
		}
		if len(l.buffer) > 0 {
			t := l.buffer[0]
			l.buffer = l.buffer[1:]
			if !p.loseOverdue(t) {
				p.start(t)
			}
			continue
		}
		p.slots++
		l.reserved++
		p.wakeClaims()
	}
}

// nextLane returns the next lane in rotation that has use for a slot, or nil.
func (p *Pool) nextLane() *lane {
	for i := range p.lanes {
		at := (p.turn + i) % len(p.lanes)
		l := p.lanes[at]
		if l.running+l.reserved < p.limit(l) && (len(l.buffer) > 0 || l.reserved < l.needy) {
			p.turn = at + 1
			return l
		}
	}
	return nil
}

// start runs a task on a free slot; p.mu is held.
func (p *Pool) start(t *task) {
	p.running++
	t.lane.running++
	t.state = started
	go p.run(t)
}

// slotFreed is called when a handler has ended; p.mu is held.
func (p *Pool) slotFreed(l *lane) {
	p.running--
	l.running--
	close(p.changed)
	p.changed = make(chan struct{})
	p.dispatch()
	if p.ahead(l) > 0 || len(l.buffer) == 0 {
		p.wakeClaims() // its candidates may be claimed ahead now, or need a slot
	}
}
