package worker

import (
	"context"

	"github.com/orionjs/orion-go/pulse/internal/store"
)

// Claims that wait for a worker have the events of single deliveries read already, many with one command. How many
// claims there are is bounded by their number, and one event may have 16 MiB: so what waits is bounded by its bytes, and
// the events of what lies beyond are read one by one when their handlers start, as those of batches always are.
const (
	payloadsAtOnce  = 16 << 20 // are read for one round of claims,
	payloadsWaiting = 64 << 20 // wait in all lanes together
)

// payloads are events that were read for tasks.
type payloads struct {
	found map[string]store.Event
	all   bool // what is not found is gone
}

// readPayloads reads events for tasks that may have to wait, as far as there is room for them. Rounds that run at the
// same time, one for claims and some for births, may each use the same room.
func (p *Pool) readPayloads(ctx context.Context, ids []string) (payloads, error) {
	p.mu.Lock()
	waiting := 0
	for _, l := range p.lanes {
		for _, t := range l.buffer {
			waiting += t.bytes
		}
		for _, h := range l.order.steps.loaded {
			waiting += h.bytes
		}
	}
	p.mu.Unlock()
	found, all, err := p.Store.EventsUpTo(ctx, ids, min(p.payloadsAtOnce, p.payloadsWaiting-waiting))
	return payloads{found, all}, err
}

// load reads the events of single-event tasks in one go.
func (p *Pool) load(ctx context.Context, tasks []*task) error {
	var ids, deliveries []string
	for _, t := range tasks {
		if len(t.EventIDs) == 1 {
			ids = append(ids, t.EventIDs[0])
		}
		if t.Format == store.V1 {
			deliveries = append(deliveries, t.DeliveryID)
		}
	}
	if len(deliveries) > 0 {
		pending, err := p.Store.PendingDeliveries(ctx, deliveries)
		if err != nil {
			return err
		}
		for _, t := range tasks {
			t.over = t.Format == store.V1 && !pending[t.DeliveryID]
		}
	}
	if len(ids) == 0 {
		return nil
	}
	read, err := p.readPayloads(ctx, ids)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, t := range tasks {
		if len(t.EventIDs) == 1 {
			t.take(read)
		}
	}
	return nil
}

// take keeps the task's events of those read, in the delivery's order; or nothing, when not all could be read, or the
// task was lost meanwhile.
func (t *task) take(read payloads) {
	if t.state >= settling {
		return
	}
	var events []store.Event
	bytes := 0
	for _, id := range t.EventIDs {
		e, ok := read.found[id]
		if !ok && !read.all {
			return
		}
		if ok {
			events = append(events, e)
			bytes += e.Size()
		}
	}
	t.events, t.loaded, t.bytes = events, true, bytes
}
