// Package engine wires the parts of one client and owns their loops: wake-ups feed discovery and
// workers, discovery wakes workers, maintenance follows discovery's leases.
package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/orionjs/orion-go/pulse/internal/clock"
	"github.com/orionjs/orion-go/pulse/internal/discovery"
	"github.com/orionjs/orion-go/pulse/internal/lifecycle"
	"github.com/orionjs/orion-go/pulse/internal/maintain"
	"github.com/orionjs/orion-go/pulse/internal/receiver"
	"github.com/orionjs/orion-go/pulse/internal/store"
	"github.com/orionjs/orion-go/pulse/internal/wakeup"
	"github.com/orionjs/orion-go/pulse/internal/worker"
	"github.com/orionjs/orion-go/pulse/observe"
)

const (
	// stopGrace bounds the wait for our own loops, which end soon after their context.
	stopGrace = 15 * time.Second
	// releaseGrace bounds the release of leases, which is a courtesy to others.
	releaseGrace = 5 * time.Second
	// syncInterval is how often the server's clock is measured.
	syncInterval = time.Minute
)

// Config is what an Engine needs.
type Config struct {
	Store *store.Store
	Group string
	// Owner names this client in leases; it begins with "go:".
	Owner                       string
	Workers                     int
	Poll, Lease, DiscoveryLease time.Duration
	HistoryRetention            time.Duration
	// LookBack is how far behind a cursor late events are looked for.
	LookBack time.Duration
	// Streams tells whether to follow a change stream.
	Streams bool
	Report  func(error)
	// Answered is called after each poll that MongoDB answered.
	Answered func()
	Logger   *slog.Logger
	// Observer may be nil.
	Observer observe.Observer
}

// Engine runs the subscriptions of one client.
type Engine struct {
	Config
	leader *discovery.Leader
	pool   *worker.Pool
	due    *dueTimer
	stamps *stamps
	later  later
	polls  chan struct{}
	served chan struct{} // closed by the first Add: what only publishes needs no change stream
	first  sync.Once

	intake *lifecycle.Group // what finds work: ends first
	core   *lifecycle.Group // what keeps and settles work: ends last

	unobserve func() // ends the observation of the backlog; nil without an observer

	mu        sync.Mutex
	receivers map[string]*receiver.Receiver
	byNode    map[string]bool // topics led by a Node client, as of the last poll
	reported  map[string]bool // errors that are reported once
	gone      map[string]bool // topics whose stored subscription is gone, as of the last poll
}

// New returns an engine that has not started.
func New(cfg Config) *Engine {
	e := &Engine{
		Config: cfg, due: newDueTimer(), stamps: newStamps(), later: newLater(), polls: make(chan struct{}, 1), served: make(chan struct{}),
		receivers: map[string]*receiver.Receiver{}, byNode: map[string]bool{}, gone: map[string]bool{}, reported: map[string]bool{},
	}
	e.pool = worker.New(worker.Config{
		Store: cfg.Store, Group: cfg.Group, Owner: cfg.Owner, Workers: cfg.Workers, Lease: cfg.Lease,
		HistoryRetention: cfg.HistoryRetention, Report: cfg.Report, Logger: cfg.Logger, Observer: cfg.Observer,
	})
	e.leader = discovery.New(discovery.Config{
		Store: cfg.Store, Group: cfg.Group, Owner: cfg.Owner, Lease: cfg.DiscoveryLease, Window: cfg.LookBack, Retention: cfg.HistoryRetention,
		Born: e.born, Report: cfg.Report, Logger: cfg.Logger,
	})
	panicked := func(err *lifecycle.PanicError) { cfg.Report(err) }
	e.intake, e.core = lifecycle.New(panicked), lifecycle.New(panicked)
	return e
}

// Start starts the loops.
func (e *Engine) Start() error {
	m := &maintain.Maintainer{
		Store: e.Store, Group: e.Group, Poll: e.Poll, Lease: e.Lease, HistoryRetention: e.HistoryRetention,
		Leading: e.leader.Leading, Unattended: e.nodeLed, All: e.all, Settled: e.leader.Settled, Due: e.pool.WakeAt, Report: e.Report, Logger: e.Logger, Observer: e.Observer,
	}
	claim, renew, settle := e.pool.Loops()
	intake := map[string]func(context.Context){
		"claim": claim, "poll": e.pollLoop, "due": e.dueLoop, "stamp": e.stampLoop, "clock": e.clockLoop,
		"lead": e.leader.RenewLoop, "reap": m.ReapLoop, "cleanup": m.CleanupLoop, "repair": m.RepairLoop, "mend": m.MendLoop,
	}
	for i, look := range e.leader.Loops() {
		intake[fmt.Sprintf("discover %d", i)] = look
	}
	if e.Streams {
		w := &wakeup.Watcher{Store: e.Store, Group: e.Group, Notice: e.notice, Reopened: e.reopened, Ended: e.ended, Report: e.Report}
		intake["watch"] = func(ctx context.Context) {
			select {
			case <-e.served:
				w.Run(ctx)
			case <-ctx.Done():
			}
		}
	}
	for name, loop := range intake {
		if err := e.intake.Go(name, loop); err != nil {
			return err
		}
	}
	for name, loop := range map[string]func(context.Context){"renew": renew, "settle": settle} {
		if err := e.core.Go(name, loop); err != nil {
			return err
		}
	}
	if err := e.core.Start(); err != nil {
		return err
	}
	if err := e.intake.Start(); err != nil {
		return err
	}
	if e.Observer != nil {
		e.unobserve = e.Observer.Backlog(e.backlog)
	}
	return nil
}

// Add begins to serve a subscription, as it was read.
func (e *Engine) Add(r *receiver.Receiver, sub store.Subscription) {
	r.SetPaused(sub.Paused != nil)
	e.mu.Lock()
	e.receivers[r.Topic] = r
	e.mu.Unlock()
	e.first.Do(func() { close(e.served) })
	e.pool.Add(r)
	if !sub.LeaderUntil.After(e.Store.Now()) {
		e.pollSoon()
	}
}

// Remove stops serving a topic: it is led by others from now on, and buffered claims are handed back. The
// returned function waits for its running handlers until its context ends.
func (e *Engine) Remove(ctx context.Context, topic string) (wait func(context.Context) error, err error) {
	e.mu.Lock()
	delete(e.receivers, topic)
	e.mu.Unlock()
	wait = e.pool.Remove(topic)
	return wait, e.leader.Release(context.WithoutCancel(ctx), topic)
}

// Stop ends the engine: nothing is claimed any more, leases are released, running handlers finish until
// ctx ends and are cancelled then, outcomes are stored, and all loops have ended.
func (e *Engine) Stop(ctx context.Context) error {
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopGrace)
	defer cancel()
	if e.unobserve != nil {
		e.unobserve()
	}
	problem := e.intake.Stop(grace)
	e.due.stop()
	e.stamps.timer.stop()
	e.later.timer.stop()
	var release sync.WaitGroup
	release.Go(func() { // beside the handlers: without MongoDB one wait is enough
		soon, cancel := context.WithTimeout(grace, releaseGrace)
		defer cancel()
		if err := e.leader.Release(soon); err != nil {
			e.Logger.Warn("pulse: discovery leases were not released, others take over when they expire", "group", e.Group, "error", err)
		}
	})
	problem = errors.Join(problem, e.pool.Drain(ctx))
	release.Wait()
	end, cancel2 := context.WithTimeout(context.WithoutCancel(ctx), stopGrace)
	defer cancel2()
	problem = errors.Join(problem, e.core.Stop(end))
	e.pool.Abandon()
	return problem
}

// clockLoop measures the server's clock now and then.
func (e *Engine) clockLoop(ctx context.Context) {
	for clock.Sleep(ctx, clock.Jitter(syncInterval, 0.2)) == nil {
		if err := e.Store.SyncClock(ctx); err != nil && ctx.Err() == nil {
			e.Report(err)
		}
	}
}
