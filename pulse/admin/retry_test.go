package admin_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/matryer/is"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/orionjs/orion-go/pulse"
	"github.com/orionjs/orion-go/pulse/admin"
	"github.com/orionjs/orion-go/pulse/pulsetest"
)

var allKinds = []kind{version1, version2, batches, ordered}

// failing subscribes with a handler that fails for good at its first attempt, as told at others, and publishes one
// delivery, which it waits for to fail.
func (k kind) failing(t *testing.T, db *mongo.Database, cfg pulse.Config, calls *pulsetest.Recorder[int], later func(call) error) (*admin.Admin, admin.Delivery) {
	t.Helper()
	c := start(t, cfg)
	k.subscribe(t, c, func(in call) error {
		calls.Add(in.attempt)
		if in.attempt == 1 {
			return pulse.Permanent(errPlanned)
		}
		return later(in)
	})
	publish(t, c, k.events(1))
	a := open(t, db)
	awaitFailed(t, a, 1)
	return a, inState(t, a, admin.Failed)[0]
}

func pauseIt(t *testing.T, a *admin.Admin) {
	t.Helper()
	changed, err := a.Pause(t.Context(), group, orders.Name(), operator)
	is.New(t).NoErr(err)
	is.New(t).True(changed)
}

func resumeIt(t *testing.T, a *admin.Admin) {
	t.Helper()
	changed, err := a.Resume(t.Context(), group, orders.Name(), operator)
	is.New(t).NoErr(err)
	is.New(t).True(changed)
}

// Each Retry grants one attempt and no other, though the subscription has retries left. The delivery does not expire
// while it waits for it, and tells who granted it.
func TestRetry_9_2_GrantsOneAttempt(t *testing.T) {
	each(t, allKinds, func(t *testing.T, k kind, db *mongo.Database) {
		is := is.New(t)
		var calls pulsetest.Recorder[int]
		cfg, log := logging(config(db))
		a, d := k.failing(t, db, cfg, &calls, func(in call) error {
			if in.attempt == 2 {
				return errPlanned // of which the policy grants three
			}
			return nil
		})
		pauseIt(t, a)
		log.await(t, "was paused", 1)
		change, err := a.Retry(t.Context(), d.ID, operator)
		is.NoErr(err)
		is.Equal(change, admin.Change{Delivery: d.ID, Group: group, Topic: orders.Name(), From: admin.Failed, To: admin.Retrying, Attempt: 2})
		waiting, err := a.Delivery(t.Context(), d.ID)
		is.NoErr(err)
		is.Equal(waiting.State, admin.Retrying)
		is.True(waiting.ExpiresAt.IsZero() && waiting.EndedAt.IsZero())
		is.Equal(len(waiting.Attempts), 2)
		n, err := collection(db, "history").CountDocuments(t.Context(), bson.D{{Key: "expiresAt", Value: bson.D{{Key: "$gt", Value: time.Time{}}}}})
		is.NoErr(err)
		is.Equal(n, int64(0))
		resumeIt(t, a)

		failed := awaitState(t, a, d.ID, admin.Failed)
		is.Equal(failed.Attempt, 2)
		is.Equal(failed.Error.Message, errPlanned.Error())
		is.True(failed.ExpiresAt.After(time.Now()))
		is.Equal(len(failed.Grants), 1)
		is.Equal(failed.Grants[0].By, operator)
		is.Equal(failed.Grants[0].Attempt, 2)

		_, err = a.Retry(t.Context(), d.ID, admin.By{Name: "grace"})
		is.NoErr(err)
		done := awaitState(t, a, d.ID, admin.Succeeded)
		is.Equal(done.Attempt, 3)
		is.Equal(len(done.Attempts), 3)
		is.Equal(len(done.Grants), 2)
		is.True(done.Error == nil)
		is.Equal(calls.Values(), []int{1, 2, 3})

		// A success is run again in the same way.
		change, err = a.Retry(t.Context(), d.ID, operator)
		is.NoErr(err)
		is.Equal(change.From, admin.Succeeded)
		calls.Wait(t, 4)
		is.Equal(awaitState(t, a, d.ID, admin.Succeeded).Attempt, 4)
	})
}

// Of many operators at once one grants an attempt; the others are told that the delivery has moved on.
func TestRetry_9_2_ManyAtOnceGrantOne(t *testing.T) {
	each(t, allKinds, func(t *testing.T, k kind, db *mongo.Database) {
		is := is.New(t)
		var calls pulsetest.Recorder[int]
		cfg, log := logging(config(db))
		a, d := k.failing(t, db, cfg, &calls, func(call) error { return nil })
		pauseIt(t, a)
		log.await(t, "was paused", 1)
		var all sync.WaitGroup
		errs := make([]error, 8)
		for i := range errs {
			all.Go(func() { _, errs[i] = a.Retry(t.Context(), d.ID, operator) })
		}
		all.Wait()
		granted := 0
		for _, err := range errs {
			var state *admin.StateError
			switch {
			case err == nil:
				granted++
			case !asError(err, &state):
				t.Errorf("want a StateError, got %v", err)
			}
		}
		is.Equal(granted, 1)
		resumeIt(t, a)
		is.Equal(len(awaitState(t, a, d.ID, admin.Succeeded).Grants), 1)
		is.Equal(calls.Values(), []int{1, 2})
	})
}

// What cannot be retried stays as it is, and the answer says why.
func TestRetry_9_2_Refusals(t *testing.T) {
	each(t, []kind{version1, version2, batches}, func(t *testing.T, k kind, db *mongo.Database) {
		is := is.New(t)
		a, _ := k.stage(t, db)
		var state *admin.StateError
		for _, s := range []admin.State{admin.Pending, admin.Retrying, admin.Processing} {
			_, err := a.Retry(t.Context(), inState(t, a, s)[0].ID, operator)
			is.True(asError(err, &state))
			is.Equal(state.Is, s)
		}
		_, err := a.Retry(t.Context(), "none", operator)
		var missing *admin.NotFoundError
		is.True(asError(err, &missing))
		failed := inState(t, a, admin.Failed)[0]
		var query *admin.QueryError
		_, err = a.Retry(t.Context(), failed.ID, admin.By{})
		is.True(asError(err, &query))

		// The events are gone.
		before, err := collection(db, "deliveries").FindOne(t.Context(), bson.D{{Key: "_id", Value: failed.ID}}).Raw()
		is.NoErr(err)
		for i, id := range failed.EventIDs {
			_, err = collection(db, "events").DeleteOne(t.Context(), bson.D{{Key: "_id", Value: id}})
			is.NoErr(err)
			if i == len(failed.EventIDs)-1 {
				break
			}
		}
		_, err = a.Retry(t.Context(), failed.ID, operator)
		var expired *admin.ExpiredError
		is.True(asError(err, &expired))
		is.Equal(expired.Events, max(k.size, 1))
		after, err := collection(db, "deliveries").FindOne(t.Context(), bson.D{{Key: "_id", Value: failed.ID}}).Raw()
		is.NoErr(err)
		is.Equal(before, after)
	})
}

// A worker that is lost with a granted attempt has used it: the delivery ends.
func TestRetry_9_2_ALostWorkerIsTheEnd(t *testing.T) {
	each(t, []kind{version1, version2, batches}, func(t *testing.T, k kind, db *mongo.Database) {
		is := is.New(t)
		var calls pulsetest.Recorder[int]
		cfg := config(db)
		cfg.LockTimeout = 3 * time.Second
		lost := make(chan error, 1)
		a, d := k.failing(t, db, cfg, &calls, func(in call) error {
			<-in.ctx.Done()
			lost <- context.Cause(in.ctx)
			return nil
		})
		_, err := a.Retry(t.Context(), d.ID, operator)
		is.NoErr(err)
		calls.Wait(t, 2)
		steal := bson.D{{Key: "lockToken", Value: "another"}, {Key: "lockedUntil", Value: time.Now().Add(-time.Second)}}
		if k.name == version1.name {
			attempts, err := collection(db, "history").Find(t.Context(), bson.D{{Key: "deliveryId", Value: d.ID}, {Key: "attempt", Value: 2}})
			is.NoErr(err)
			var docs []bson.Raw
			is.NoErr(attempts.All(t.Context(), &docs))
			is.Equal(len(docs), 1)
			set(t, collection(db, "history"), docs[0].Lookup("_id"), steal)
		} else {
			set(t, collection(db, "deliveries"), d.ID, steal)
		}
		is.True(errors.Is(<-lost, pulse.ErrLockLost))
		failed := awaitState(t, a, d.ID, admin.Failed)
		is.Equal(failed.Error.Code, "worker_lost")
		is.Equal(failed.Attempt, 2)
		is.Equal(calls.Values(), []int{1, 2})
	})
}

// Many are retried by a query, a dry run first; what cannot be retried does not hold up the others.
func TestRetryMatching_9_2_DryRunThenAll(t *testing.T) {
	each(t, allKinds, func(t *testing.T, k kind, db *mongo.Database) {
		is := is.New(t)
		c := start(t, config(db))
		var first, second pulsetest.Recorder[string]
		k.subscribe(t, c, func(in call) error {
			if in.attempt == 1 {
				first.Add(in.events...)
				return pulse.Permanent(errPlanned)
			}
			second.Add(in.events...)
			return nil
		})
		ids := publish(t, c, k.events(6))
		a := open(t, db)
		awaitFailed(t, a, 6)
		query := admin.DeliveryQuery{Group: group, ErrorCode: "handler_error"}
		changes, err := a.RetryMatching(t.Context(), query, admin.Bulk{DryRun: true})
		is.NoErr(err)
		is.Equal(changes, admin.Changes{Matched: 6})
		is.Equal(second.Len(), 0)

		// One of them has lost its events.
		gone := inState(t, a, admin.Failed)[2]
		_, err = collection(db, "events").DeleteMany(t.Context(), bson.D{{Key: "_id", Value: bson.D{{Key: "$in", Value: gone.EventIDs}}}})
		is.NoErr(err)
		var progress []int
		changes, err = a.RetryMatching(t.Context(), query, admin.Bulk{By: operator, Max: 4, Progress: func(c admin.Changes) { progress = append(progress, c.Matched) }})
		is.NoErr(err)
		is.Equal(changes.Matched, 4)
		is.Equal(changes.Changed, 3)
		is.True(changes.More)
		is.Equal(progress, []int{1, 2, 3, 4})
		var expired *admin.ExpiredError
		is.True(asError(changes.Errors[0], &expired))
		is.Equal(expired.Delivery, gone.ID)

		pulsetest.Eventually(t, "the rest is retried", func(ctx context.Context) error {
			if _, err := a.RetryMatching(ctx, query, admin.Bulk{By: operator}); err != nil {
				return err
			}
			if n := len(inState(t, a, admin.Succeeded)); n != 5 {
				return fmt.Errorf("%d have succeeded", n)
			}
			return nil
		})
		handled := second.Values()
		slices.Sort(handled)
		want := slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return slices.Contains(gone.EventIDs, id) })
		slices.Sort(want)
		is.Equal(handled, want)
		is.Equal(inState(t, a, admin.Failed)[0].ID, gone.ID)

		_, err = a.RetryMatching(t.Context(), admin.DeliveryQuery{States: []admin.State{admin.Pending}}, admin.Bulk{By: operator})
		var bad *admin.QueryError
		is.True(asError(err, &bad))
	})
}
