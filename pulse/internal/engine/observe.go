package engine

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/orionjs/orion-go/pulse/internal/store"
	"github.com/orionjs/orion-go/pulse/observe"
)

// backlogLimit is how far a backlog is counted: with more than that the exact number helps nobody.
const backlogLimit = 10_000

// woken tells the observer, if there is one, of a wake-up.
func (e *Engine) woken(topic string, source observe.Source) {
	if e.Observer != nil {
		e.Observer.Woken(observe.Woken{Group: e.Group, Topic: topic, Source: source})
	}
}

// born hands the deliveries that this client is about to store to its workers.
func (e *Engine) born(ctx context.Context, topic string, deliveries []store.NewDelivery, put func() error) error {
	err := e.pool.Born(ctx, topic, deliveries, put)
	if err == nil && len(deliveries) > 0 {
		e.woken(topic, observe.Local)
	}
	return err
}

// backlog counts what waits in the topics that this client leads: one command for ten of them. What others lead is
// theirs to tell, so that ten replicas do not ask, and count, ten times.
func (e *Engine) backlog(ctx context.Context) ([]observe.Backlog, error) {
	cursors := e.leader.Cursors()
	if len(cursors) == 0 {
		return nil, nil
	}
	subs := make([]store.Overview, 0, len(cursors))
	for _, topic := range slices.Sorted(maps.Keys(cursors)) {
		subs = append(subs, store.Overview{Subscription: store.Subscription{ConsumerGroup: e.Group, Topic: topic, Cursor: cursors[topic]}})
	}
	counted, err := e.Store.Backlogs(ctx, subs, backlogLimit)
	if err != nil {
		return nil, err
	}
	now := e.Store.Now()
	age := func(since time.Time) time.Duration {
		if since.IsZero() {
			return 0
		}
		return max(now.Sub(since), 0)
	}
	backlogs := make([]observe.Backlog, len(counted))
	for i, c := range counted {
		r := e.receiver(subs[i].Topic) // nil when it was unsubscribed just now
		backlogs[i] = observe.Backlog{
			Group: e.Group, Topic: subs[i].Topic, Paused: r != nil && r.Paused(),
			Undiscovered: c.Undiscovered.N, Pending: c.Pending.N, Retrying: c.Retrying.N,
			Processing: c.Processing.N - c.Expired.N, Expired: c.Expired.N, Failed: c.Failed.N,
			Oldest: age(c.Oldest), OldestRetry: age(c.OldestRetry),
		}
	}
	return backlogs, nil
}
