package admin

import (
	"context"

	"github.com/orionjs/orion-go/pulse/internal/store"
)

// Pause pauses a subscription (spec 9.2) and tells whether it was not paused before; one that is paused keeps by whom and why.
// Every running replica of the group notices within a PollInterval, starts no further handler for the topic and hands
// back what it has claimed ahead; those that start later do not begin. Running handlers finish, and their outcomes are
// stored. Events become deliveries as always, and wait; so do retries, whose time may pass meanwhile. Events expire
// meanwhile as well: resume within the event retention.
//
// The pause is a field of ours on the subscription. Node clients do not see it and go on: pause only groups whose
// replicas are all of this module.
//
// There is no such subscription: *NotFoundError.
func (a *Admin) Pause(ctx context.Context, group, topic string, by By) (changed bool, err error) {
	return a.setPause(ctx, group, topic, by, a.store.Pause)
}

// Resume ends the pause of a subscription (spec 9.2) and tells whether there was one; by whom and why takes the place of the
// pause's. Running replicas notice within a PollInterval and go on at once with all that waits. There is no such
// subscription: *NotFoundError.
func (a *Admin) Resume(ctx context.Context, group, topic string, by By) (changed bool, err error) {
	return a.setPause(ctx, group, topic, by, a.store.Resume)
}

func (a *Admin) setPause(ctx context.Context, group, topic string, by By,
	set func(ctx context.Context, group, topic string, by store.By) (changed, found bool, err error),
) (bool, error) {
	if err := by.check(); err != nil {
		return false, err
	}
	ctx, cancel, err := a.begin(ctx)
	if err != nil {
		return false, err
	}
	defer cancel()
	changed, found, err := set(ctx, group, topic, store.By(by))
	if err == nil && !found {
		err = missingSubscription(group, topic)
	}
	return changed, err
}
