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
	if err := by.check(); err != nil {
		return false, err
	}
	return a.setPause(ctx, group, topic, func(ctx context.Context) (bool, bool, error) {
		return a.store.Pause(ctx, group, topic, store.By(by))
	})
}

// Resume ends the pause of a subscription and tells whether there was one. Running replicas notice within a
// PollInterval and go on at once with all that waits. There is no such subscription: *NotFoundError.
func (a *Admin) Resume(ctx context.Context, group, topic string) (changed bool, err error) {
	return a.setPause(ctx, group, topic, func(ctx context.Context) (bool, bool, error) {
		return a.store.Resume(ctx, group, topic)
	})
}

func (a *Admin) setPause(ctx context.Context, group, topic string, set func(context.Context) (changed, found bool, err error)) (bool, error) {
	ctx, cancel, err := a.begin(ctx)
	if err != nil {
		return false, err
	}
	defer cancel()
	changed, found, err := set(ctx)
	if err == nil && !found {
		err = missingSubscription(group, topic)
	}
	return changed, err
}
