package worker

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/orionjs/orion-go/pulse/internal/clock"
	"github.com/orionjs/orion-go/pulse/internal/receiver"
	"github.com/orionjs/orion-go/pulse/internal/store"
	"github.com/orionjs/orion-go/pulse/observe"
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
	// Observer may be nil.
	Observer observe.Observer
}

// Pool runs the deliveries of one client. Its methods are safe for concurrent use.
type Pool struct {
	Config
	settler *settler
	claims  chan struct{} // wakes the claim loop
	// patience is how long new deliveries wait for older ones to be claimed.
	patience time.Duration
	// payloadsAtOnce and payloadsWaiting bound the bytes of events that are read before their handlers start.
	payloadsAtOnce, payloadsWaiting int

	mu      sync.Mutex
	lanes   []*lane // in rotation
	turn    int     // the lane that gets the next free slot
	running int     // handlers
	slots   int     // slots reserved for claims in flight
	held    map[string]*task
	doubts  []doubt // claims whose answer was lost
	// unsettled counts tasks whose end is not stored yet. While there are many, no handler starts: what
	// they did would be lost with this process.
	unsettled int
	closing   bool
	changed   chan struct{} // closed and replaced when a handler ends
}

// New returns a pool without lanes.
func New(cfg Config) *Pool {
	p := &Pool{
		Config: cfg, claims: make(chan struct{}, 1), patience: olderPatience,
		payloadsAtOnce: payloadsAtOnce, payloadsWaiting: payloadsWaiting,
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
	p.lanes = append(p.lanes, newLane(r))
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

func (p *Pool) wakeClaims() {
	select {
	case p.claims <- struct{}{}:
	default:
	}
}

// maxUnsettled is how many outcomes may wait to be stored before handlers do.
const maxUnsettled = 2 * settleAtOnce

// dispatch gives free slots away, lane by lane in rotation: to a buffered task, which starts, or to
// candidates that need a slot before they are claimed. p.mu is held.
func (p *Pool) dispatch() {
	defer p.awaitTokens()
	for p.running+p.slots < p.Workers && p.unsettled < maxUnsettled && !p.closing {
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
		if p.wantsSlot(l) {
			p.turn = at + 1
			return l
		}
	}
	return nil
}

// wantsSlot tells whether the lane has use for a slot; p.mu is held.
func (p *Pool) wantsSlot(l *lane) bool {
	used := l.running + l.reserved + l.births.slots
	if l.order.steps.slot {
		used++
	}
	if used >= p.limit(l) {
		return false
	}
	return len(l.buffer) > 0 && l.mayBegin() || len(l.buffer) == 0 && l.reserved < l.needy() && l.allowance() > 0
}

// start runs a task on a free slot; p.mu is held.
func (p *Pool) start(t *task) {
	p.running++
	t.lane.running++
	t.lane.spend()
	t.state, t.begun = started, clock.Now()
	if t.inOrder {
		t.lane.order.running = t
	}
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
