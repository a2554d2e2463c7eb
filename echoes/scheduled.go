package echoes

import (
	"context"
	"errors"
	"fmt"
)

// CancelScheduled deletes an event that was published for a later time, see
// NotBefore, and tells whether it did: false means that no event of that ID waits,
// since its time has come, it was cancelled, or never published. In a transaction
// whose session is in ctx it is part of that, see pulse.Client.CancelScheduled.
func (a *App) CancelScheduled(ctx context.Context, eventID string) (cancelled bool, err error) {
	if _, err := a.targets(); err != nil {
		return false, err
	}
	carrier, ok := a.pulse.(*pulseCarrier)
	if !ok {
		return false, errors.New("echoes: cancel a scheduled event: Config.Pulse is not set, and only Pulse publishes at a later time")
	}
	client := carrier.current()
	if client == nil { // nothing is consumed from it or published to it
		return false, fmt.Errorf("echoes: cancel the scheduled event %s: Pulse is not connected, since Config.PublishTo does not select it and no listener does: set PublishTo to ToPulse", eventID)
	}
	return client.CancelScheduled(ctx, eventID)
}
