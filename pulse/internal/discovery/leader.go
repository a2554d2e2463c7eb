package discovery

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/orionjs/orion-go/pulse/internal/clock"
	"github.com/orionjs/orion-go/pulse/internal/receiver"
	"github.com/orionjs/orion-go/pulse/internal/store"
	"github.com/orionjs/orion-go/pulse/internal/wakeup"
)

// looksAtOnce is how many topics are looked at together: one slow answer must not hold up the others.
const looksAtOnce = 4

// giveBackTimeout bounds the attempt to give a lease back that may not be ours.
const giveBackTimeout = 2 * time.Second

// Config is what a Leader needs.
type Config struct {
	Store *store.Store
	Group string
	// Owner is stored with the leases; it begins with "go:" (spec 3.1).
	Owner string
	Lease time.Duration
	// Window is how long after its sequence's time an event may become visible. Retention is how long
	// deliveries are kept at least; zero or less: for ever.
	Window, Retention time.Duration
	// Born is given new deliveries of a topic, which it may mark as claimed, and has put store them.
	Born   func(ctx context.Context, topic string, deliveries []store.NewDelivery, put func() error) error
	Report func(error)
	Logger *slog.Logger
}

// Leader leads those topics of one client whose lease it could get.
type Leader struct {
	Config
	queue *wakeup.Queue

	mu    sync.Mutex
	terms map[string]*term
}

// term is one holding of one topic's lease.
type term struct {
	receiver *receiver.Receiver
	lease    store.Lease

	// Guarded by Leader.mu.
	deadline time.Time // on the monotonic clock: later the lease may be another's
	cursor   store.Position
	settled  settled
	// How often there was reason to think that events lie ahead of the cursor that no change stream shows, and up
	// to which of these times a read has reached the end of the topic since.
	asked, answered int

	// Owned by whoever took the topic from the queue.
	uncertain bool // what is stored at and behind the cursor is not known
}

// New returns a leader of nothing.
func New(cfg Config) *Leader {
	return &Leader{Config: cfg, queue: wakeup.NewQueue(), terms: map[string]*term{}}
}

// Look asks for a look at the topic's events; nothing happens unless this client leads it.
func (l *Leader) Look(topic string) {
	l.mu.Lock()
	t := l.terms[topic]
	if t != nil {
		t.asked++
	}
	l.mu.Unlock()
	if t != nil {
		l.queue.Add(topic)
	}
}

// Missed says that a change stream begins here: what happened before it is to be read before what it shows counts.
func (l *Leader) Missed() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, t := range l.terms {
		t.asked++
	}
}

func (l *Leader) term(topic string) *term {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.terms[topic]
}

// Cursors returns the topics that this client leads, with their cursors.
func (l *Leader) Cursors() map[string]store.Position {
	l.mu.Lock()
	defer l.mu.Unlock()
	cursors := make(map[string]store.Position, len(l.terms))
	for topic, t := range l.terms {
		cursors[topic] = t.cursor
	}
	return cursors
}

// Leading returns the receivers of the topics that this client leads.
func (l *Leader) Leading() []*receiver.Receiver {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make([]*receiver.Receiver, 0, len(l.terms))
	for _, t := range l.terms {
		out = append(out, t.receiver)
	}
	return out
}

// Campaign tries to become the leader of a topic whose lease is free as sub was read.
func (l *Leader) Campaign(ctx context.Context, r *receiver.Receiver, sub store.Subscription) error {
	if l.term(r.Topic) != nil || sub.LeaderUntil.After(l.Store.Now()) {
		return nil
	}
	// Stop does not interrupt the commands: the server might carry one out after the lease was given back.
	ctx = context.WithoutCancel(ctx)
	if sub.LeftBy != "" {
		if err := l.Store.AbortLeft(ctx, sub.LeftBy); err != nil {
			return err
		}
	}
	lease := store.Lease{ID: r.SubscriptionID, Token: uuid.NewString()}
	asked := clock.Now()
	current, won, err := l.Store.AcquireDiscovery(ctx, lease, l.Owner, l.Lease)
	if err != nil {
		// It may be ours all the same, its answer was lost. Nobody would renew it, and the topic would wait
		// for its end.
		soon, cancel := context.WithTimeout(ctx, giveBackTimeout)
		defer cancel()
		return errors.Join(err, l.Store.ReleaseDiscovery(soon, []store.Lease{lease}))
	}
	if !won {
		return nil
	}
	l.mu.Lock()
	t := &term{receiver: r, lease: lease, deadline: asked.Add(l.Lease), uncertain: true}
	t.begin(current)
	l.terms[r.Topic] = t
	l.mu.Unlock()
	l.Logger.Debug("pulse: leading", "group", l.Group, "topic", r.Topic)
	l.queue.Add(r.Topic)
	return nil
}

// RenewLoop renews all leases about every third of their length until ctx ends.
func (l *Leader) RenewLoop(ctx context.Context) {
	for clock.Sleep(ctx, clock.Jitter(l.Lease/4, 1.0/3)) == nil {
		if err := l.renew(ctx); err != nil && ctx.Err() == nil {
			l.Report(err)
		}
	}
}

func (l *Leader) renew(ctx context.Context) error {
	l.mu.Lock()
	leases := make([]store.Lease, 0, len(l.terms))
	for _, t := range l.terms {
		leases = append(leases, t.lease)
	}
	l.mu.Unlock()
	if len(leases) == 0 {
		return nil
	}
	asked := clock.Now()
	held, err := l.Store.RenewDiscovery(ctx, leases, l.Lease)
	renewed := make(map[string]bool, len(leases))
	for _, lease := range leases {
		renewed[lease.Token] = held[lease.ID]
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for topic, t := range l.terms {
		mine, wasAsked := renewed[t.lease.Token]
		switch {
		case err == nil && mine:
			t.deadline = asked.Add(l.Lease)
		case err == nil && wasAsked, clock.Until(t.deadline) <= 0:
			l.drop(topic, t)
		}
	}
	return err
}

// drop ends a term; l.mu is held.
func (l *Leader) drop(topic string, t *term) {
	if l.terms[topic] == t {
		delete(l.terms, topic)
		l.Logger.Warn("pulse: no longer leading: the discovery lease ended before it was renewed", "group", l.Group, "topic", topic)
	}
}

// Release gives the leases of the topics back, or all of them when none is named.
func (l *Leader) Release(ctx context.Context, topics ...string) error {
	l.mu.Lock()
	if len(topics) == 0 {
		for topic := range l.terms {
			topics = append(topics, topic)
		}
	}
	var leases []store.Lease
	for _, topic := range topics {
		if t := l.terms[topic]; t != nil {
			leases = append(leases, t.lease)
			delete(l.terms, topic)
		}
	}
	l.mu.Unlock()
	if len(leases) == 0 {
		return nil
	}
	return l.Store.ReleaseDiscovery(ctx, leases)
}

// Loops returns the loops that look at topics; each runs until its context ends.
func (l *Leader) Loops() []func(context.Context) {
	loops := make([]func(context.Context), looksAtOnce)
	for i := range loops {
		loops[i] = func(ctx context.Context) {
			for {
				topic, ok := l.queue.Take(ctx)
				if !ok {
					return
				}
				if err := l.look(ctx, topic); err != nil && ctx.Err() == nil {
					// Not repeated here: the poll comes back to it, and does not spin.
					l.Report(fmt.Errorf("pulse: consumer group %s, topic %s: discovery: %w", l.Group, topic, err))
				}
				l.queue.Done(topic)
			}
		}
	}
	return loops
}
