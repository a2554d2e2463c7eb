package engine

import (
	"context"
	"sync"
	"time"

	"github.com/orionjs/orion-go/pulse/internal/clock"
	"github.com/orionjs/orion-go/pulse/internal/store"
	"github.com/orionjs/orion-go/pulse/observe"
)

// duePause is the least time between two looks that retries elsewhere cause. The replica that scheduled
// a retry wakes itself when it is due; the others only help out.
const duePause = 250 * time.Millisecond

// reopened is called when a change stream begins, before its first notice.
func (e *Engine) reopened() {
	e.leader.Missed()
	now := clock.Now()
	e.later.stream.Store(&now)
	e.pollSoon()
}

// ended is called when a change stream that had begun is over.
func (e *Engine) ended() { e.later.stream.Store(nil) }

// notice acts on a change that the stream told of.
func (e *Engine) notice(n store.Notice) {
	if n.Topic != "" {
		e.woken(n.Topic, observe.Stream)
	}
	switch n.Kind {
	case store.EventPublished:
		e.stamps.forget(n.Event.EventID)
		e.leader.Seen(n.Topic, n.Event)
	case store.EventPending:
		e.stamps.committed(n.Event.EventID)
	case store.EventWaiting:
		e.publishAt(n.Due)
	case store.DeliveryStored, store.AttemptStored:
		e.pool.WakeAt(n.Topic, n.Format, n.Due)
	case store.AttemptDue:
		e.pool.LookAtHeads()
		e.due.at(n.Due.Sub(e.Store.Now()))
	case store.DeliveryDue:
		e.due.at(n.Due.Sub(e.Store.Now()))
	}
}

// dueLoop looks for due deliveries when some delivery, of an unknown topic, has become due.
func (e *Engine) dueLoop(ctx context.Context) {
	for {
		select {
		case <-e.due.fired:
		case <-ctx.Done():
			return
		}
		e.pool.LookAgain()
		if err := e.lookForDue(ctx); err != nil && ctx.Err() == nil {
			e.Report(err)
		}
		if clock.Sleep(ctx, clock.Jitter(duePause, 1)) != nil {
			return
		}
	}
}

// dueTimer fires at the nearest of the times it was told.
type dueTimer struct {
	fired chan struct{}

	mu    sync.Mutex
	timer *time.Timer
	when  time.Time // zero when the timer is not armed
}

func newDueTimer() *dueTimer { return &dueTimer{fired: make(chan struct{}, 1)} }

// at arms the timer for that long from now, unless it fires earlier anyway.
func (d *dueTimer) at(wait time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	when := clock.Now().Add(max(wait, 0))
	if !d.when.IsZero() && d.when.Before(when) {
		return
	}
	if d.timer != nil {
		d.timer.Stop()
	}
	d.when = when
	d.timer = clock.AfterFunc(max(wait, 0), func() {
		d.mu.Lock()
		d.when = time.Time{}
		d.mu.Unlock()
		select {
		case d.fired <- struct{}{}:
		default:
		}
	})
}

func (d *dueTimer) stop() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.timer != nil {
		d.timer.Stop()
	}
}
