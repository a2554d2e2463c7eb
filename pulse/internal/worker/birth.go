package worker

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/orionjs/orion-go/pulse/internal/clock"
	"github.com/orionjs/orion-go/pulse/internal/delivery"
	"github.com/orionjs/orion-go/pulse/internal/store"
)

// births are what a lane expects of a write that is on its way: so many of the new deliveries are claimed by it, for
// slots that are kept for them and for its buffer.
type births struct{ slots, ahead int }

// Born stores new deliveries of a topic, of one format, by put, which must store all or none. As many as the
// topic's lane has room for are claimed by the same write: nobody has to look for them and to claim them, which
// would be half of the way from an event to its handler, and of the database's work. For the others the lane is
// woken.
//
// While the lane knows of older deliveries, or may not know all of them, none is claimed so: it would overtake them,
// and under a load that is too high they would wait for ever. If it has room for them it is about to claim them, and
// that is waited for.
func (p *Pool) Born(ctx context.Context, topic string, deliveries []store.NewDelivery, put func() error) error {
	if len(deliveries) == 0 {
		return put()
	}
	p.awaitOlder(ctx, topic, deliveries[0].Format)
	l, room := p.expect(topic, deliveries)
	n := room.slots + room.ahead
	if n == 0 {
		err := put()
		if err == nil {
			p.Wake(topic, deliveries[0].Format)
		}
		return err
	}
	token, deadline := uuid.NewString(), clock.Now().Add(p.trust())
	lock := &store.Lock{Owner: p.Owner, Token: token, Lease: p.Lease}
	born := make([]store.Candidate, n)
	for i := range born {
		deliveries[i].Lock = lock
		born[i] = deliveries[i].Candidate()
	}
	loaded := p.readAhead(ctx, born)
	err := put()
	read, unread := loaded()
	won := born
	// Claims that are older than their leases must not begin, and nothing of them has: they are handed back as well,
	// before a reaper takes an attempt for each.
	if err != nil || clock.Until(deadline) <= 0 {
		won = nil
		if !errors.Is(err, store.ErrLeaseLost) && !errors.Is(err, store.ErrDelivered) {
			won = p.lookUp(ctx, born, token, deadline)
			p.doubtClaim(l, store.V2, born, won, token)
		}
	}
	if p.Observer != nil && len(won) > 0 {
		p.observeClaim(l, n, len(won))
	}
	tasks := p.holdClaims(l, won, token, deadline)
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, t := range tasks {
		if unread == nil && len(t.EventIDs) == 1 {
			t.take(read)
		}
	}
	l.births.slots -= room.slots
	l.births.ahead -= room.ahead
	p.slots -= room.slots
	p.place(ctx, l, tasks, room.slots, unread)
	if err == nil && len(deliveries) > n {
		p.wake(l, store.V2)
	}
	p.dispatch()
	return err
}

// olderPatience bounds the wait for older deliveries to be claimed: other clients may have room for the new ones.
const olderPatience = 250 * time.Millisecond

// awaitOlder waits until the lane has claimed the older deliveries that it has room for. Stored meanwhile, the new
// ones would be older themselves by the time it has: a lane that was behind once would stay so for as long as events
// keep coming, and look for each of them.
func (p *Pool) awaitOlder(ctx context.Context, topic string, format store.Format) {
	patience := clock.NewTimer(p.patience)
	defer patience.Stop()
	for {
		p.mu.Lock()
		l := p.lane(topic)
		if l == nil || !p.mayBear(l, format) || l.inOrder() || !l.behind() || !p.hasRoom(l) {
			p.mu.Unlock()
			return
		}
		picked := l.picked
		p.mu.Unlock()
		select {
		case <-picked:
		case <-patience.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// mayBear tells whether new deliveries of the lane may be claimed as they are stored; Pool.mu is held.
func (p *Pool) mayBear(l *lane, format store.Format) bool {
	return !l.resting() && !p.closing && format == store.V2 && p.Store.Transactions()
}

// hasRoom tells whether the lane could claim something now; Pool.mu is held.
func (p *Pool) hasRoom(l *lane) bool {
	return p.hasSlot(l) || l.reserved > 0 && p.unsettled < maxUnsettled || p.ahead(l) > 0
}

// hasSlot tells whether a handler of the lane could begin now; Pool.mu is held.
func (p *Pool) hasSlot(l *lane) bool {
	return p.running+p.slots < p.Workers && p.unsettled < maxUnsettled &&
		l.running+l.reserved+l.births.slots < p.limit(l) && l.allowance() > 0
}

// expect keeps room in the topic's lane for what is about to be stored.
func (p *Pool) expect(topic string, deliveries []store.NewDelivery) (*lane, births) {
	var room births
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.lane(topic)
	if l == nil || !p.mayBear(l, deliveries[0].Format) || l.behind() {
		return nil, room
	}
	for room.slots < len(deliveries) && p.hasSlot(l) {
		room.slots++
		l.births.slots++
		p.slots++
	}
	if delivery.MayClaimAhead(0, l.receiver.Policy()) {
		room.ahead = min(p.ahead(l), len(deliveries)-room.slots)
		l.births.ahead += room.ahead
	}
	return l, room
}

// behind tells whether there may be deliveries that the lane has not claimed; Pool.mu is held.
func (l *lane) behind() bool {
	for _, src := range l.sources {
		if src.ready || len(src.candidates) > 0 {
			return true
		}
	}
	return false
}

// readAhead reads the events of single deliveries while these are stored. The returned function waits for them.
func (p *Pool) readAhead(ctx context.Context, born []store.Candidate) func() (payloads, error) {
	var ids []string
	for _, c := range born {
		if len(c.EventIDs) == 1 {
			ids = append(ids, c.EventIDs[0])
		}
	}
	read := payloads{all: true}
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		if len(ids) > 0 {
			read, err = p.readPayloads(ctx, ids)
		}
	}()
	return func() (payloads, error) {
		<-done
		return read, err
	}
}
