package admin_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/matryer/is"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/orionjs/orion-go/pulse"
	"github.com/orionjs/orion-go/pulse/admin"
	"github.com/orionjs/orion-go/pulse/pulsetest"
)

// What waits is never run after a cancel, and can be granted an attempt like everything that has ended.
func TestCancel_9_2_WaitingDeliveries(t *testing.T) {
	each(t, []kind{version1, version2, batches}, func(t *testing.T, k kind, db *mongo.Database) {
		is := is.New(t)
		a, release := k.stage(t, db)
		pending, retrying := inState(t, a, admin.Pending), inState(t, a, admin.Retrying)[0]
		for _, d := range []admin.Delivery{pending[0], retrying} {
			change, err := a.Cancel(t.Context(), d.ID, operator)
			is.NoErr(err)
			is.Equal(change, admin.Change{Delivery: d.ID, Group: group, Topic: orders.Name(), From: d.State, To: admin.Failed})
			ended, err := a.Delivery(t.Context(), d.ID)
			is.NoErr(err)
			is.Equal(ended.State, admin.Failed)
			is.Equal(ended.Error.Code, "cancelled_by_operator")
			is.Equal(ended.Error.Message, "cancelled by ada: test")
			is.True(ended.ExpiresAt.Sub(ended.EndedAt) == 7*24*time.Hour)
			is.True(ended.NextAttemptAt.IsZero())

			_, err = a.Cancel(t.Context(), d.ID, operator)
			var state *admin.StateError
			is.True(asError(err, &state))
		}
		release()
		is.Equal(awaitState(t, a, pending[1].ID, admin.Succeeded).Attempt, 1)
		is.Equal(len(inState(t, a, admin.Failed)), 3) // the fifth and last call was of pending[1]

		_, err := a.Retry(t.Context(), pending[0].ID, operator)
		is.NoErr(err)
		awaitState(t, a, pending[0].ID, admin.Succeeded)
	})
}

// The handler of a cancelled delivery learns it by its context, and what it returns changes nothing. Its worker is
// free for the next.
func TestCancel_9_2_EndsTheHandlersContext(t *testing.T) {
	each(t, allKinds, func(t *testing.T, k kind, db *mongo.Database) {
		is := is.New(t)
		cfg := config(db)
		cfg.LockTimeout = 3 * time.Second // renewed at least once a second
		var reported pulsetest.Recorder[error]
		cfg.OnError = func(err error) { reported.Add(err) }
		c := start(t, cfg)
		running, cause := make(chan call, 1), make(chan error, 1)
		var handled pulsetest.Recorder[call]
		k.subscribe(t, c, func(in call) error {
			if handled.Add(in); handled.Len() > 1 {
				return nil
			}
			running <- in
			<-in.ctx.Done()
			cause <- context.Cause(in.ctx)
			return nil
		})
		publish(t, c, k.events(1))
		first := <-running
		publish(t, c, k.events(1))
		a := open(t, db)
		d := inState(t, a, admin.Processing)[0]
		is.Equal(d.EventIDs, first.events)
		change, err := a.Cancel(t.Context(), d.ID, operator)
		is.NoErr(err)
		is.Equal(change.From, admin.Processing)
		is.True(errors.Is(<-cause, pulse.ErrLockLost))
		calls := handled.Wait(t, 2) // of the other delivery
		is.True(calls[1].events[0] != first.events[0])
		reported.WaitFor(t, "the lost lease", func(errs []error) bool {
			for _, err := range errs {
				if errors.Is(err, pulse.ErrLockLost) {
					return true
				}
			}
			return false
		})
		stop(t, c)
		ended, err := a.Delivery(t.Context(), d.ID)
		is.NoErr(err)
		is.Equal(ended.State, admin.Failed)
		is.Equal(ended.Error.Code, "cancelled_by_operator")
		is.Equal(len(ended.Attempts), 1)
		is.Equal(ended.Attempts[0].State, admin.Failed)
		is.Equal(ended.Attempts[0].Error.Code, "cancelled_by_operator")
		is.Equal(handled.Len(), 2)
	})
}

// A query without states cancels what waits, and leaves what runs.
func TestCancelMatching_9_2_WhatWaits(t *testing.T) {
	each(t, []kind{version1, version2, batches}, func(t *testing.T, k kind, db *mongo.Database) {
		is := is.New(t)
		a, release := k.stage(t, db)
		changes, err := a.CancelMatching(t.Context(), admin.DeliveryQuery{}, admin.Bulk{By: operator})
		is.NoErr(err)
		is.Equal(changes, admin.Changes{Matched: 3, Changed: 3})
		is.Equal(len(inState(t, a, admin.Processing)), 1)
		release()
		awaitBacklog(t, a, "nothing is left", func(b admin.Backlog) bool { return b.Processing.N == 0 && b.Failed.N == 4 })
		is.Equal(len(inState(t, a, admin.Succeeded)), 2)
	})
}
