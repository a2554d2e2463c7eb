package console

import (
	"context"
	"sync"
	"time"

	"github.com/orionjs/orion-go/pulse/admin"
	"github.com/orionjs/orion-go/pulse/internal/clock"
)

// countLimit is how far the counts go. A number above it would be looked at, not compared.
const countLimit = 10_000

// scheduledFor is how long a count of the events for a later time is good: it reads as many events as it counts.
const scheduledFor = time.Minute

// snapshot is what all viewers see. It is not changed once it is made.
type snapshot struct {
	read          time.Time
	subscriptions []admin.Subscription
	rates         *rates
	// scheduled is what waits for a later time, as of scheduledAt.
	scheduled   admin.Scheduled
	scheduledAt time.Time
}

// watch makes snapshots.
type watch struct {
	admin *admin.Admin
	cache *cache[struct{}, *snapshot]

	mu   sync.Mutex
	last *snapshot
}

func newWatch(a *admin.Admin) *watch {
	w := &watch{admin: a}
	w.cache = newCache(w.read)
	return w
}

// current returns the snapshot. With an error there may be one too, which is old then.
func (w *watch) current(ctx context.Context) (*snapshot, error) { return w.cache.get(ctx, struct{}{}) }

// read makes the next snapshot, which has the rates of the last one. After an error it returns that one.
func (w *watch) read(ctx context.Context, _ struct{}) (*snapshot, error) {
	w.mu.Lock()
	last := w.last
	w.mu.Unlock()
	subs, err := w.admin.Subscriptions(ctx, admin.SubscriptionQuery{CountLimit: countLimit})
	if err != nil {
		return last, err
	}
	var known *rates
	if last != nil {
		known = last.rates
	}
	next, err := known.refresh(ctx, w.admin)
	if err != nil {
		return last, err
	}
	shot := &snapshot{read: clock.Now(), subscriptions: subs, rates: next}
	if last != nil && clock.Since(last.scheduledAt) < scheduledFor {
		shot.scheduled, shot.scheduledAt = last.scheduled, last.scheduledAt
	} else if shot.scheduled, err = w.admin.Scheduled(ctx); err != nil {
		return last, err
	} else {
		shot.scheduledAt = shot.read
	}
	w.mu.Lock()
	w.last = shot
	w.mu.Unlock()
	return shot, nil
}

// subscription finds one in the snapshot.
func (s *snapshot) subscription(group, topic string) (admin.Subscription, bool) {
	for _, sub := range s.subscriptions {
		if sub.Group == group && sub.Topic == topic {
			return sub, true
		}
	}
	return admin.Subscription{}, false
}
