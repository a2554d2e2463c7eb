// Package maintain keeps a group's deliveries in order: it ends the attempts of lost workers, deletes
// successes that nobody needs, and mends deliveries that nobody can claim. Only the leader of a topic does this for it, on a schedule of
// its own outside the handlers' way, in bounded batches that drain at once when full (spec 4.3).
package maintain

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/orionjs/orion-go/pulse/internal/backoff"
	"github.com/orionjs/orion-go/pulse/internal/clock"
	"github.com/orionjs/orion-go/pulse/internal/delivery"
	"github.com/orionjs/orion-go/pulse/internal/receiver"
	"github.com/orionjs/orion-go/pulse/internal/store"
	"github.com/orionjs/orion-go/pulse/observe"
)

// Sizes and pauses (storage.md).
const (
	reapBatch       = 25
	maxReapPause    = 10 * time.Second
	cleanupBatch    = 1000
	cleanupInterval = time.Minute
	repairBatch     = 25
	repairInterval  = 30 * time.Second
)

// Maintainer maintains the topics that its client leads.
type Maintainer struct {
	Store *store.Store
	Group string
	// Poll and Lease set the reaper's pace: max(poll, min(10 s, lease/3)).
	Poll, Lease time.Duration
	// HistoryRetention is how long terminal deliveries stay; zero or less keeps them.
	HistoryRetention time.Duration
	// Leading returns the receivers of the topics that this client leads, Settled up to where nothing can be
	// late in them, as stored.
	// Unattended returns those whose leader is a Node client, which may not know version 1; All those of
	// this client.
	Leading, Unattended, All func() []*receiver.Receiver
	Settled                  func() map[string]bson.Timestamp
	// Due is told when a topic has a delivery that is due.
	Due    func(topic string, format store.Format, at time.Time)
	Report func(error)
	Logger *slog.Logger
	// Observer may be nil.
	Observer observe.Observer
}

// ReapLoop ends attempts whose lease has expired, until ctx ends.
func (m *Maintainer) ReapLoop(ctx context.Context) {
	pause := max(m.Poll, min(maxReapPause, m.Lease/3))
	m.loop(ctx, pause, 0.2, m.reapOnce)
}

// CleanupLoop deletes old successes, until ctx ends.
func (m *Maintainer) CleanupLoop(ctx context.Context) {
	m.loop(ctx, cleanupInterval, 0.2, m.cleanupOnce)
}

// RepairLoop finishes half-done steps, until ctx ends.
func (m *Maintainer) RepairLoop(ctx context.Context) {
	m.loop(ctx, repairInterval, 0.2, m.repairOnce)
}

// MendLoop mends malformed deliveries, until ctx ends. It is no more urgent than the cleanup.
func (m *Maintainer) MendLoop(ctx context.Context) {
	m.loop(ctx, cleanupInterval, 0.2, m.mendOnce)
}

// loop calls once at its pace, again at once while it finds full batches, and less often while it fails.
func (m *Maintainer) loop(ctx context.Context, pause time.Duration, jitter float64, once func(context.Context) (more bool, err error)) {
	failures := backoff.NewExponential(pause, 10*pause)
	wait := clock.Jitter(pause/2, 1)
	for clock.Sleep(ctx, wait) == nil {
		more, err := once(ctx)
		switch {
		case err != nil:
			if ctx.Err() == nil {
				m.Report(err)
			}
			wait = failures.Next()
		case more:
			failures.Reset()
			wait = 0
		default:
			failures.Reset()
			wait = clock.Jitter(pause, jitter)
		}
	}
}

// reapOnce ends a batch of expired attempts of each format.
func (m *Maintainer) reapOnce(ctx context.Context) (more bool, err error) {
	led := m.Leading()
	v2, err := m.reap(ctx, store.V2, led)
	if err != nil {
		return false, err
	}
	var v1Topics []*receiver.Receiver
	for _, r := range append(led, m.Unattended()...) {
		// The attempts of an order are left to its holder: ended out of their order, they would tear it.
		if !r.Settings().InOrder() {
			v1Topics = append(v1Topics, r)
		}
	}
	v1, err := m.reap(ctx, store.V1, v1Topics)
	return v1 || v2, err
}

// reap ends expired attempts, each by a compare-and-set of its own: whatever happens to a delivery between
// the read and the write, a heartbeat or an outcome, wins.
func (m *Maintainer) reap(ctx context.Context, format store.Format, of []*receiver.Receiver) (more bool, err error) {
	receivers := make(map[string]*receiver.Receiver, len(of))
	for _, r := range of {
		receivers[r.Topic] = r
	}
	if len(receivers) == 0 {
		return false, nil
	}
	expired, err := m.Store.ExpiredLeases(ctx, m.Group, format, slices.Collect(maps.Keys(receivers)), reapBatch)
	if err != nil {
		return false, err
	}
	owners := make([]string, 0, len(expired))
	for _, e := range expired {
		owners = append(owners, e.Owner)
	}
	if err := m.Store.AbortLeft(ctx, owners...); err != nil {
		return false, err
	}
	reaped := 0
	var problems error
	for _, e := range expired {
		verdict, delay := delivery.Decide(e.Attempt, delivery.Outcome{Failure: delivery.WorkerLost(), Permanent: e.Granted}, receivers[e.Topic].Policy())
		done, err := m.Store.Reap(ctx, e, verdict, delay, m.HistoryRetention)
		if ctx.Err() != nil {
			return false, err
		}
		problems = errors.Join(problems, err) // one that cannot be ended must not hold up the others
		if !done {
			continue
		}
		reaped++
		m.Logger.Warn("pulse: the worker of a delivery was lost", "group", m.Group, "topic", e.Topic, "delivery", e.ID, "attempt", e.Attempt, "retried", verdict == delivery.Retried)
		if m.Observer != nil {
			m.Observer.Settled(observe.Settled{System: observe.Pulse, Group: m.Group, Topic: e.Topic, Attempt: e.Attempt, Outcome: delivery.Observed(verdict), Code: delivery.CodeWorkerLost})
		}
		if verdict == delivery.Retried {
			m.Due(e.Topic, format, m.Store.Now().Add(delay))
		}
	}
	// A full batch of which nothing could be ended would be read again at once, and for ever.
	return len(expired) == reapBatch && reaped > 0, problems
}

// mendOnce mends, or ends, a batch of pending deliveries that say nowhere when they are due: nobody else
// would ever find them.
func (m *Maintainer) mendOnce(ctx context.Context) (more bool, err error) {
	var topics []string
	for _, r := range m.Leading() {
		topics = append(topics, r.Topic)
	}
	if len(topics) == 0 {
		return false, nil
	}
	undated, err := m.Store.Undated(ctx, m.Group, topics, reapBatch)
	if err != nil {
		return false, err
	}
	mended := 0
	var problems error
	for _, u := range undated {
		done, err := m.Store.Mend(ctx, u, m.HistoryRetention)
		if ctx.Err() != nil {
			return false, err
		}
		problems = errors.Join(problems, err)
		if !done {
			continue
		}
		mended++
		m.Report(u.Err())
		if !u.Hopeless {
			m.Due(u.Topic, store.V2, m.Store.Now())
		}
	}
	return len(undated) == reapBatch && mended > 0, problems
}

// repairOnce finishes version 1 steps that a crash left half done. It does so for all topics that this
// client serves, whoever leads them: it only adds what follows from the documents.
func (m *Maintainer) repairOnce(ctx context.Context) (more bool, err error) {
	receivers := map[string]*receiver.Receiver{}
	for _, r := range m.All() {
		receivers[r.Topic] = r
	}
	if len(receivers) == 0 {
		return false, nil
	}
	decide := func(topic string, attempt int, code string) (delivery.Verdict, time.Duration) {
		var policy delivery.Policy
		if r := receivers[topic]; r != nil {
			policy = r.Policy()
		}
		return delivery.Decide(attempt, delivery.Outcome{Failure: &delivery.Failure{Code: code}}, policy)
	}
	topics := slices.Collect(maps.Keys(receivers))
	n, err := m.Store.Repair(ctx, m.Group, topics, repairBatch, m.HistoryRetention, decide)
	if n > 0 {
		m.Logger.Info("pulse: finished steps that were left half done", "group", m.Group, "count", n)
		for _, topic := range topics {
			m.Due(topic, store.V1, m.Store.Now())
		}
	}
	return n == repairBatch, err
}

// cleanupOnce deletes a batch of successes among what is settled: later ones still tell the leader what was delivered.
// With a history retention only those go whose time is over; the TTL index deletes them too, but it may be missing or
// slow.
func (m *Maintainer) cleanupOnce(ctx context.Context) (more bool, err error) {
	n, err := m.Store.DeleteSuccesses(ctx, m.Group, m.Settled(), m.HistoryRetention > 0, cleanupBatch)
	return n == cleanupBatch, err
}
