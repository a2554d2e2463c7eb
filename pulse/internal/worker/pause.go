package worker

import (
	"github.com/orionjs/orion-go/pulse/internal/delivery"
	"github.com/orionjs/orion-go/pulse/internal/store"
)

// What operators ask of a pool (spec 9.2).

// resting tells whether nothing of the lane may be claimed or begin: it was removed, or its subscription is paused.
func (l *lane) resting() bool { return l.removed || l.receiver.Paused() }

// Pause is called when the topic's subscription was paused: claims that wait for a worker are handed back, also for
// the sake of clients that know no pause. Running handlers go on, and what is claimed in this moment is handed back
// when it comes in.
func (p *Pool) Pause(topic string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.lane(topic)
	if l == nil {
		return
	}
	l.order.forgetHeads()
	inOrder := len(l.buffer) > 0 && l.buffer[0].inOrder
	p.handBack(l.buffer)
	l.buffer = nil
	p.flushOrder(l)
	if inOrder {
		// A resume must not find what is on its way back: claimed attempts at the head are waited for.
		l.order.blocked = true
		p.orderStored(l)
	}
	for _, src := range l.sources {
		src.needy = 0
	}
	p.unreserve(l, 0)
	p.dispatch()
	p.wakeClaims() // drops the candidates, which will be stale by the time of the resume
}

// Resume is called when the topic's subscription is no longer paused: its deliveries go on at once.
func (p *Pool) Resume(topic string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if l := p.lane(topic); l != nil {
		for format := range l.sources {
			p.wake(l, format)
		}
	}
}

// mayClaimAhead tells whether a delivery may be claimed before a worker is free for it. A granted attempt may not: it
// is the last one, whatever the policy.
func mayClaimAhead(c store.Candidate, policy delivery.Policy) bool {
	return !c.Granted && delivery.MayClaimAhead(c.Attempts, policy)
}
