package admin

import (
	"context"

	"github.com/orionjs/orion-go/pulse/internal/store"
)

// active are the states of a delivery that has not ended.
var active = []State{Pending, Retrying, Processing}

// Cancel ends a delivery that has not ended as an error with the code cancelled_by_operator, whose message says who did
// it, and why (spec 9.2). No attempt follows, unless Retry grants one. One that waits is never run. One that is
// processing loses its lease, as to another worker: the handler's context ends at the next renewal, within a third of
// LockTimeout, with pulse.ErrLockLost as its cause, and what the handler returns changes nothing. A handler that
// ignores its context runs on all the same.
//
// In an ordered subscription the next event goes on. After the cancel of one that is processing it does so when the ordered
// lease has run out, up to one and a quarter LockTimeout, and what was claimed together with the cancelled one may
// run again.
//
// The delivery is kept as long as the others of its group and topic: as long as the one that ended last, or Config.HistoryRetention when
// none has.
//
// Errors that change nothing: *NotFoundError, and *StateError for a delivery that has ended, or that was claimed, handed
// back or ended since it was read.
func (a *Admin) Cancel(ctx context.Context, id string, by By) (Change, error) {
	return a.change(ctx, id, by, active, func(ctx context.Context, r store.Record, c *Change) (bool, error) {
		retention, known, err := a.store.HistoryRetention(ctx, r.ConsumerGroup, r.Topic)
		if err != nil {
			return false, err
		}
		if !known {
			retention = a.config.HistoryRetention
		}
		c.To = Failed
		return a.store.Cancel(ctx, r, store.By(by), retention)
	})
}
