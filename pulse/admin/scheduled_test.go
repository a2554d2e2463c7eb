package admin_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/orionjs/orion-go/pulse"
	"github.com/orionjs/orion-go/pulse/admin"
	"github.com/orionjs/orion-go/pulse/pulsetest"
)

func handleNothing(context.Context, *pulse.Event[order]) error { return nil }

// What waits for a later time is counted by topic, with when the next is due, and an event tells that it waits.
func TestScheduled_9_1_WhatWaits(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	db := pulsetest.Database(t)
	c := start(t, config(db))
	a := open(t, db)
	nothing, err := a.Scheduled(t.Context())
	is.NoErr(err)
	n, next := nothing.Topic(orders.Name())
	is.Equal(n, admin.Count{})
	is.True(next.IsZero())

	soon := time.Now().Add(time.Hour)
	var first *pulse.Event[order]
	for i := range 3 {
		e, err := orders.Publish(t.Context(), c, order{Number: i}, pulse.NotBefore(soon.Add(time.Duration(i)*time.Hour)))
		is.NoErr(err)
		if i == 0 {
			first = e
		}
	}
	other, err := pulse.NewTopic[order]("payment.made").Publish(t.Context(), c, order{}, pulse.NotBefore(soon.Add(-time.Minute)))
	is.NoErr(err)
	at := publish(t, c, 1)[0]

	scheduled, err := a.Scheduled(t.Context())
	is.NoErr(err)
	n, next = scheduled.Topic(orders.Name())
	is.Equal(n, admin.Count{N: 3})
	is.True(next.Equal(first.NotBefore))
	n, next = scheduled.Topic("payment.made")
	is.Equal(n, admin.Count{N: 1})
	is.True(next.Equal(other.NotBefore))
	n, _ = scheduled.Topic("none")
	is.Equal(n, admin.Count{})

	events, err := a.Events(t.Context(), first.ID, at)
	is.NoErr(err)
	is.True(events[0].Waiting && events[0].NotBefore.Equal(first.NotBefore) && events[0].Topic == orders.Name())
	is.True(!events[1].Waiting && events[1].NotBefore.IsZero())
}

// An event that waits, and that somebody has changed by hand so that clients look at it at another time or never, is told of.
func TestDoctor_9_1_ScheduledChangedByHand(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	db := pulsetest.Database(t)
	a := version2.left(t, db, 1)
	c := start(t, config(db))
	e, err := orders.Publish(t.Context(), c, order{}, pulse.NotBefore(time.Now().Add(time.Hour)))
	is.NoErr(err)
	is.True(examine(t, a, admin.CheckScheduled, false) == nil)
	stop(t, c)

	events := collection(db, "events")
	_, err = events.UpdateByID(t.Context(), e.ID, bson.D{{Key: "$unset", Value: bson.D{{Key: "notBefore", Value: ""}}}})
	is.NoErr(err)
	f := examine(t, a, admin.CheckScheduled, true)
	is.Equal(f.Severity, admin.Warning)
	is.True(strings.Contains(f.Text, "1, such as") && strings.Contains(f.Text, e.ID) && !f.Fixable)
	set(t, events, e.ID, bson.D{{Key: "notBefore", Value: time.Now().Add(2 * time.Hour)}})
	is.True(strings.Contains(examine(t, a, admin.CheckScheduled, false).Text, e.ID))
	raw, err := events.FindOne(t.Context(), bson.D{{Key: "_id", Value: e.ID}}).Raw()
	is.NoErr(err)
	set(t, events, e.ID, bson.D{{Key: "notBefore", Value: raw.Lookup("topic")}})
	is.True(examine(t, a, admin.CheckScheduled, false) == nil) // as the remedy says

	set(t, events, e.ID, bson.D{{Key: "pendingTopic", Value: 5}})
	f = examine(t, a, admin.CheckScheduled, true)
	is.Equal(f.Severity, admin.Problem)
	is.True(strings.Contains(f.Text, e.ID) && strings.Contains(f.Text, "never"))
}

// Work of the version that is not made any more is told of, until none is left; and a fleet that is settled has
// nothing to be told.
func TestDoctor_4_13_HalfDoneRollout(t *testing.T) {
	t.Parallel()
	for _, way := range []struct {
		from, to kind
		text     string
	}{
		{version1, version2, "deliveries of version 1 are left, 2."},
		{ordered, version2, "deliveries of version 1 are left, 2."},
		{version1, batches, "deliveries of version 1 are left, 2."},
		{version2, version1, "deliveries of version 2 are left, pending: 2, processing: 0."},
		{version2, ordered, "deliveries of version 2 are left, pending: 2, processing: 0."},
	} {
		t.Run(fmt.Sprintf("%s to %s", way.from.name, way.to.name), func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			db := pulsetest.Database(t)
			a := way.from.left(t, db, 2)
			is.True(examine(t, a, admin.CheckRollout, false) == nil) // nothing has changed yet
			pauseIt(t, a)
			c := start(t, config(db))
			way.to.subscribe(t, c, func(call) error { return nil }, pulse.ConfigVersion(1))
			f := examine(t, a, admin.CheckRollout, true)
			is.Equal(f.Severity, admin.Note)
			is.True(strings.Contains(f.Text, way.text))
			is.True(strings.Contains(f.Remedy, "pulse rollout billing order.created"))

			// Due for long, led and not paused, and yet nobody runs it: as if the leader were older software.
			stop(t, c)
			resumeIt(t, a)
			is.Equal(examine(t, a, admin.CheckRollout, false).Severity, admin.Note) // nobody is there: another finding
			long := bson.D{{Key: "$set", Value: bson.D{{Key: "nextAttemptAt", Value: time.Now().Add(-time.Hour)}}}}
			for _, name := range []string{"deliveries", "history"} {
				_, err := collection(db, name).UpdateMany(t.Context(), bson.D{{Key: "nextAttemptAt", Value: bson.D{{Key: "$exists", Value: true}}}}, long)
				is.NoErr(err)
			}
			sub := theSubscription(t, a)
			set(t, collection(db, "subscriptions"), sub.ID, bson.D{{Key: "discoveryLockOwner", Value: "node"}, {Key: "discoveryLockedUntil", Value: time.Now().Add(time.Hour)}})
			f = examine(t, a, admin.CheckRollout, false)
			is.Equal(f.Severity, admin.Warning)
			is.True(strings.Contains(f.Text, "due since") && strings.Contains(f.Remedy, "serves both versions"))

			set(t, collection(db, "subscriptions"), sub.ID, bson.D{{Key: "discoveryLockedUntil", Value: time.Now().Add(-time.Hour)}})
			way.to.subscribe(t, start(t, config(db)), func(call) error { return nil }, pulse.ConfigVersion(1))
			awaitBacklog(t, a, "all are done", func(b admin.Backlog) bool { return b.Undiscovered.N+b.Pending.N+b.Retrying.N+b.Processing.N == 0 })
			is.True(examine(t, a, admin.CheckRollout, false) == nil)
		})
	}
}
