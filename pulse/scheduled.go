package pulse

import (
	"context"
	"fmt"
	"time"
)

// CancelScheduled deletes an event that was published for a later time, see NotBefore, and tells whether it did: false
// means that no event of that ID waits, since its time has come, it was cancelled, or never published. When the time
// comes in the same moment, the event is either cancelled and never delivered, or delivered and false is returned.
// Its ID, and its UniqueKey, are free again.
//
// With a context that carries a running transaction the deletion is part of it. Errors: ErrClosed, MongoDB's; after one
// of MongoDB it is open whether the event was deleted, and asking again is safe. The user needs the right to remove
// events (docs/security.md).
func (c *Client) CancelScheduled(ctx context.Context, eventID string) (cancelled bool, err error) {
	if c.closed() {
		return false, ErrClosed
	}
	if _, err := c.store.Joins(ctx); err != nil {
		return false, fmt.Errorf("pulse: cancel the scheduled event %s: %w; nothing was deleted", eventID, err)
	}
	cancelled, err = c.store.Unpublish(ctx, eventID)
	if err != nil {
		return false, fmt.Errorf("pulse: cancel the scheduled event %s: %w", eventID, err)
	}
	return cancelled, nil
}

// scheduled has the client there when an event is due; zero is none.
func (c *Client) scheduled(notBefore time.Time) {
	if e := c.running(); e != nil && !notBefore.IsZero() {
		e.Scheduled(notBefore)
	}
}
