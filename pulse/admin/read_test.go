package admin_test

import (
	"slices"
	"testing"
	"time"

	"github.com/matryer/is"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/orionjs/orion-go/pulse"
	"github.com/orionjs/orion-go/pulse/admin"
	"github.com/orionjs/orion-go/pulse/pulsetest"
)

// A subscription shows its settings, its leader, and what it has not finished, whatever the format.
func TestSubscriptions_2_6_SettingsAndBacklog(t *testing.T) {
	each(t, []kind{version1, version2, batches}, func(t *testing.T, k kind, db *mongo.Database) {
		is := is.New(t)
		a, _ := k.stage(t, db)
		sub := theSubscription(t, a)
		b := sub.Backlog
		is.Equal([]int{b.Undiscovered.N, b.Pending.N, b.Retrying.N, b.Processing.N, b.Failed.N}, []int{0, 2, 1, 1, 1})
		is.True(!b.OldestPending.IsZero())
		is.True(b.LagSeconds >= 0)
		is.True(sub.Leader.Held)
		is.Equal(sub.Settings.MaxRetries, 3)
		is.Equal(sub.Settings.RetryDelay, time.Second)
		is.Equal(sub.Settings.OffsetReset, "earliest")
		is.Equal(sub.Settings.BatchSize, max(k.size, 1))
		is.Equal(sub.Marker, k.name == version2.name || k.name == batches.name)
		is.True(sub.Cursor.EventID != "")

		// Counting ends where it is asked to.
		subs, err := a.Subscriptions(t.Context(), admin.SubscriptionQuery{Group: group, CountLimit: 1})
		is.NoErr(err)
		is.Equal(subs[0].Backlog.Pending.AtLeast, true)
		is.Equal(subs[0].Backlog.Failed, admin.Count{N: 1})
		subs, err = a.Subscriptions(t.Context(), admin.SubscriptionQuery{CountLimit: -1})
		is.NoErr(err)
		is.Equal(subs[0].Backlog, admin.Backlog{})
	})
}

// An event that was published for a later time is as old as since that time, before it is discovered and after.
func TestSubscriptions_9_1_AnEventIsNotLateBeforeItsTime(t *testing.T) {
	each(t, allKinds, func(t *testing.T, k kind, db *mongo.Database) {
		is := is.New(t)
		c := start(t, config(db))
		k.subscribe(t, c, func(call) error { return nil })
		stop(t, c)
		a := open(t, db)
		pauseIt(t, a)
		due := time.Now().Add(-time.Second).UTC().Truncate(time.Millisecond)
		insert := func(id string) {
			_, err := collection(db, "events").InsertOne(t.Context(), bson.D{
				{Key: "_id", Value: id},
				{Key: "topic", Value: orders.Name()},
				{Key: "data", Value: bson.D{}},
				{Key: "createdAt", Value: due.Add(-time.Hour)},
				{Key: "notBefore", Value: due},
				{Key: "sequence", Value: bson.Timestamp{}},
			})
			is.NoErr(err)
		}
		insert("first")
		b := theSubscription(t, a).Backlog
		is.Equal(b.Undiscovered.N, 1)
		is.True(b.OldestPending.Equal(due))
		c = start(t, config(db))
		k.subscribe(t, c, func(call) error { return nil })
		awaitBacklog(t, a, "the first", func(b admin.Backlog) bool { return b.Undiscovered.N == 0 && b.Pending.N == 1 })
		insert("second") // which a change stream shows
		awaitBacklog(t, a, "both", func(b admin.Backlog) bool { return b.Undiscovered.N == 0 && b.Pending.N == 2 })
		is.True(theSubscription(t, a).Backlog.OldestPending.Equal(due))
		for _, d := range inState(t, a, admin.Pending) {
			is.True(d.EventCreatedAt.Equal(due))
		}
	})
}

// Events behind the cursor of a group that nobody leads are its lag, and the oldest of them says since when.
func TestSubscriptions_2_8_LagOfAGroupThatIsNotRunning(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	db := pulsetest.Database(t)
	c := start(t, config(db))
	version2.subscribe(t, c, func(call) error { return nil })
	stop(t, c)
	other := config(db)
	other.ConsumerGroup = "shop"
	publish(t, start(t, other), 3)
	a := open(t, db)
	sub := theSubscription(t, a)
	is.Equal(sub.Backlog.Undiscovered.N, 3)
	is.True(time.Since(sub.Backlog.OldestPending) < time.Hour)
	is.True(!sub.Leader.Held)
	subs, err := a.Subscriptions(t.Context(), admin.SubscriptionQuery{Topic: "none"})
	is.NoErr(err)
	is.Equal(len(subs), 0)
}

// The states of both formats are one list, and each of them is selected alone.
func TestDeliveries_4_8_4_10_StatesOfBothFormats(t *testing.T) {
	each(t, []kind{version1, version2, batches}, func(t *testing.T, k kind, db *mongo.Database) {
		is := is.New(t)
		a, _ := k.stage(t, db)
		all := inState(t, a)
		is.Equal(len(all), 6)
		is.True(slices.IsSortedFunc(all, func(a, b admin.Delivery) int { return b.EventCreatedAt.Compare(a.EventCreatedAt) }))
		for state, n := range map[admin.State]int{admin.Pending: 2, admin.Retrying: 1, admin.Processing: 1, admin.Succeeded: 1, admin.Failed: 1} {
			found := inState(t, a, state)
			is.Equal(len(found), n)
			for _, d := range found {
				is.Equal(d.State, state)
				is.Equal(len(d.EventIDs), max(k.size, 1))
				is.Equal(d.EventID, d.EventIDs[len(d.EventIDs)-1])
				is.Equal(d.Batch, k.size > 0)
			}
		}
		is.Equal(len(inState(t, a, admin.Pending, admin.Processing)), 3)
		processing := inState(t, a, admin.Processing)[0]
		is.True(processing.Worker != "" && !processing.LeaseEnded && processing.Attempt == 1)
		retrying := inState(t, a, admin.Retrying)[0]
		is.Equal(retrying.Error.Code, "handler_error")
		is.True(retrying.NextAttemptAt.After(time.Now()))

		// By the code of the failure, by time, by an event of the delivery.
		query := admin.DeliveryQuery{ErrorCode: "handler_error"}
		page, err := a.Deliveries(t.Context(), query)
		is.NoErr(err)
		is.Equal(len(page.Deliveries), 2)
		query.States, query.To = []admin.State{admin.Failed}, time.Now().Add(-time.Hour)
		page, err = a.Deliveries(t.Context(), query)
		is.NoErr(err)
		is.Equal(len(page.Deliveries), 0)
		page, err = a.Deliveries(t.Context(), admin.DeliveryQuery{EventID: retrying.EventIDs[0]})
		is.NoErr(err)
		is.Equal(len(page.Deliveries), 1)
		is.Equal(page.Deliveries[0].ID, retrying.ID)
	})
}

// Pages go on where the last one ended, over groups that have the same events, while deliveries change their state.
func TestDeliveries_PagesAreStable(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	db := pulsetest.Database(t)
	for _, name := range []string{group, "audit", "shipping"} {
		cfg := config(db)
		cfg.ConsumerGroup = name
		c := start(t, cfg)
		if name == group {
			publish(t, c, 7)
		}
		version2.subscribe(t, c, func(call) error { return pulse.Permanent(errPlanned) })
	}
	a := open(t, db)
	query := admin.DeliveryQuery{States: []admin.State{admin.Failed}, Limit: 4}
	awaitFailed(t, a, 21)
	seen := map[string]bool{}
	var pages []int
	for {
		page, err := a.Deliveries(t.Context(), query)
		is.NoErr(err)
		pages = append(pages, len(page.Deliveries))
		for _, d := range page.Deliveries {
			is.True(!seen[d.ID])
			seen[d.ID] = true
		}
		if query.Cursor = page.Next; page.Next == "" {
			break
		}
	}
	is.Equal(pages, []int{4, 4, 4, 4, 4, 1})
	is.Equal(len(seen), 21)

	for _, bad := range []admin.DeliveryQuery{{Cursor: "x"}, {Limit: 501}, {Limit: -1}, {States: []admin.State{"lost"}}, {From: time.Now(), To: time.Now().Add(-time.Second)}} {
		_, err := a.Deliveries(t.Context(), bad)
		var query *admin.QueryError
		is.True(asError(err, &query))
	}
}

// A delivery is shown with its attempts, and with its events as far as they are stored.
func TestDelivery_4_8_4_10_AttemptsAndEvents(t *testing.T) {
	each(t, []kind{version1, version2, batches}, func(t *testing.T, k kind, db *mongo.Database) {
		is := is.New(t)
		a, _ := k.stage(t, db)
		retrying := inState(t, a, admin.Retrying)[0]
		_, err := collection(db, "events").DeleteOne(t.Context(), bson.D{{Key: "_id", Value: retrying.EventIDs[0]}})
		is.NoErr(err)
		d, err := a.Delivery(t.Context(), retrying.ID)
		is.NoErr(err)
		is.Equal(len(d.Attempts), 2)
		is.Equal(d.Attempts[0].State, admin.Failed)
		is.Equal(d.Attempts[0].Number, 1)
		is.Equal(d.Attempts[0].Error.Message, errPlanned.Error())
		is.True(d.Attempts[0].Worker != "")
		is.Equal(d.Attempts[1].State, admin.Retrying)
		is.Equal(d.Attempts[1].Number, 2)
		is.Equal(len(d.Events), max(k.size, 1))
		is.True(d.Events[0].Gone)
		if k.size > 0 {
			is.True(!d.Events[1].Gone)
			is.Equal(d.Events[1].Publisher, group)
			_, ok := d.Events[1].Data.DocumentOK()
			is.True(ok)
		}
		processing := inState(t, a, admin.Processing)[0]
		d, err = a.Delivery(t.Context(), processing.ID)
		is.NoErr(err)
		is.Equal(len(d.Attempts), 1)
		is.Equal(d.Attempts[0].State, admin.Processing)

		_, err = a.Delivery(t.Context(), "none")
		var missing *admin.NotFoundError
		is.True(asError(err, &missing))
	})
}
