package store_test

import (
	"context"
	"testing"
	"time"

	"github.com/matryer/is"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/orionjs/orion-go/pulse/internal/delivery"
	"github.com/orionjs/orion-go/pulse/internal/store"
	"github.com/orionjs/orion-go/pulse/pulsetest"
)

// owedOf returns what the group owes of its only topic.
func owedOf(t *testing.T, s *store.Store) store.Owed {
	t.Helper()
	is := is.New(t)
	owed, err := s.Owed(t.Context(), group)
	is.NoErr(err)
	is.Equal(len(owed), 1)
	return owed[0]
}

// insertEvents stores events with the sequences of the keys.
func insertEvents(t *testing.T, s *store.Store, keys []store.EventKey) {
	t.Helper()
	docs := make([]bson.Raw, len(keys))
	for i, k := range keys {
		raw, err := bson.Marshal(bson.D{
			{Key: "_id", Value: k.EventID}, {Key: "topic", Value: topic}, {Key: "createdAt", Value: k.PublishedAt}, {Key: "sequence", Value: k.Sequence},
		})
		is.New(t).NoErr(err)
		docs[i] = raw
	}
	failed, err := s.InsertEvents(t.Context(), docs)
	is.New(t).NoErr(err)
	is.New(t).Equal(len(failed), 0)
}

// An event that appeared behind the cursor gets its delivery after the deliveries were read and before the events are:
// neither shows it, but discovery has moved.
func TestOwed_SeesWhatMovesBetweenItsReads(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s, db, sub := newStore(t)
	lease := lead(t, s, sub, "leader", time.Hour)
	page := keys(0, 3)
	insertEvents(t, s, page)
	seen := []store.EventKey{page[0], page[2]}
	is.NoErr(s.Materialize(t.Context(), lease, batches(seen, 1), page[2].Position, bson.Timestamp{}))
	candidates, _, _, err := s.Candidates(t.Context(), group, topic, store.V2, 10)
	is.NoErr(err)
	for _, l := range claim(t, s, candidates, "worker") {
		_, err := s.Settle(t.Context(), []store.Settlement{settlement(s, l, delivery.Succeeded)}, time.Hour)
		is.NoErr(err)
	}
	owed := owedOf(t, s)
	is.Equal([]int{owed.Undiscovered, owed.Due, owed.Running}, []int{1, 0, 0})

	moved := false
	client := pulsetest.Client(t, func(o *options.ClientOptions) {
		o.SetMonitor(&event.CommandMonitor{Succeeded: func(_ context.Context, e *event.CommandSucceededEvent) {
			if e.CommandName == "aggregate" && !moved {
				moved = true
				is.NoErr(s.Materialize(t.Context(), lease, batches(page[1:2], 1), page[2].Position, bson.Timestamp{}))
			}
		}})
	})
	other := store.New(client.Database(db.Name()), indexPrefix)
	is.NoErr(other.Detect(t.Context()))
	owed = owedOf(t, other)
	is.True(moved)
	is.Equal([]int{owed.Undiscovered, owed.Due, owed.Running}, []int{0, 0, 0}) // by the reads alone it is quiet
	is.True(owed.Moving && owed.Active() && !owed.Nothing())
	owed = owedOf(t, other)
	is.True(!owed.Moving)
	is.Equal(owed.Due, 1)
}

// An event that appeared behind the cursor is owed until it has a delivery, and no more when that is settled.
func TestOwed_3_5_CountsEventsBehindTheCursor(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s, _, sub := newStore(t)
	lease := lead(t, s, sub, "leader", time.Hour)
	page := keys(0, 3)
	insertEvents(t, s, page)
	seen := []store.EventKey{page[0], page[2]}
	is.NoErr(s.Materialize(t.Context(), lease, batches(seen, 1), page[2].Position, bson.Timestamp{}))
	owed := owedOf(t, s)
	is.Equal([]int{owed.Undiscovered, owed.Due}, []int{1, 2})
	is.NoErr(s.Materialize(t.Context(), lease, batches(page[1:2], 1), page[2].Position, page[2].Sequence))
	owed = owedOf(t, s)
	is.Equal([]int{owed.Undiscovered, owed.Due}, []int{0, 3})
}

// Hurry and Rob touch nothing but what is waiting, or claimed, in this moment.
func TestRehearse_KeepsToTheStates(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s, db, sub := newStore(t)
	candidates := pending(t, s, db, sub, 4)
	held := claim(t, s, candidates[:2], "mine")
	_, err := deliveries(db).UpdateByID(t.Context(), candidates[3].ID, bson.D{{Key: "$set", Value: bson.D{{Key: "nextAttemptAt", Value: time.Now().Add(time.Hour)}}}})
	is.NoErr(err)
	owed := owedOf(t, s)
	is.Equal([]int{owed.Running, owed.Due, owed.Waiting}, []int{2, 1, 1})
	is.True(time.Until(owed.Next) > 50*time.Minute)

	n, err := s.Hurry(t.Context(), group)
	is.NoErr(err)
	is.Equal(n, 1)
	n, err = s.Hurry(t.Context(), "another")
	is.NoErr(err)
	is.Equal(n, 0)
	owed = owedOf(t, s)
	is.Equal([]int{owed.Running, owed.Due, owed.Waiting}, []int{2, 2, 0})

	n, err = s.Rob(t.Context(), group)
	is.NoErr(err)
	is.Equal(n, 2)
	renewed, err := s.Renew(t.Context(), held, time.Hour)
	is.NoErr(err)
	is.Equal(len(renewed), 0) // the holders learn of it
	owed = owedOf(t, s)
	is.Equal([]int{owed.Running, owed.Due, owed.Waiting}, []int{0, 2, 2}) // they wait for their retries
	n, err = s.Rob(t.Context(), group)
	is.NoErr(err)
	is.Equal(n, 0)
}
