package store_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/matryer/is"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/orionjs/orion-go/pulse/internal/delivery"
	"github.com/orionjs/orion-go/pulse/internal/store"
	"github.com/orionjs/orion-go/pulse/pulsetest"
)

var operator = store.By{Name: "ada"}

// claimable stores one delivery of a format, and returns where its state and its token are.
func claimable(t *testing.T, s *store.Store, db *mongo.Database, sub store.Subscription, format store.Format) (store.Candidate, *mongo.Collection) {
	t.Helper()
	is := is.New(t)
	page := keys(0, 1)
	is.NoErr(s.Materialize(t.Context(), lead(t, s, sub, "leader", time.Hour), ofFormat(page, format), page[0].Position, bson.Timestamp{}))
	candidates, _, _, err := s.Candidates(t.Context(), group, topic, format, 2)
	is.NoErr(err)
	is.Equal(len(candidates), 1)
	if format == store.V1 {
		return candidates[0], history(db)
	}
	return candidates[0], deliveries(db)
}

// record reads the only delivery.
func record(t *testing.T, s *store.Store, db *mongo.Database) store.Record {
	t.Helper()
	is := is.New(t)
	r, ok, err := s.Record(t.Context(), all(t, deliveries(db), bson.D{})[0].Lookup("_id").StringValue())
	is.NoErr(err)
	is.True(ok)
	return r
}

// set changes all documents of a collection.
func set(t *testing.T, coll *mongo.Collection, name string, value any) {
	t.Helper()
	_, err := coll.UpdateMany(t.Context(), bson.D{}, bson.D{{Key: "$set", Value: bson.D{{Key: name, Value: value}}}})
	is.New(t).NoErr(err)
}

// What was read is what is cancelled: a delivery that was claimed, claimed anew or scheduled anew since stays as it is.
func TestCancel_9_2_WhatHasMovedOnStays(t *testing.T) {
	t.Parallel()
	for _, format := range store.Formats {
		is := is.New(t)
		s, db, sub := newStore(t)
		c, at := claimable(t, s, db, sub, format)
		refused := func(r store.Record) {
			t.Helper()
			before := append(all(t, deliveries(db), bson.D{}), all(t, history(db), bson.D{})...)
			cancelled, err := s.Cancel(t.Context(), r, operator, time.Hour)
			is.NoErr(err)
			is.True(!cancelled)
			is.Equal(append(all(t, deliveries(db), bson.D{}), all(t, history(db), bson.D{})...), before)
		}
		waiting := record(t, s, db)
		if format == store.V2 {
			set(t, at, "attemptId", "of the next attempt")
			refused(waiting)
			set(t, at, "attemptId", c.AttemptID)
		}
		claim(t, s, []store.Candidate{c}, "a")
		refused(waiting)
		running := record(t, s, db)
		set(t, at, "lockToken", "b")
		refused(running)

		cancelled, err := s.Cancel(t.Context(), record(t, s, db), operator, time.Hour)
		is.NoErr(err)
		is.True(cancelled)
		ended := record(t, s, db)
		is.True(ended.Status == delivery.StatusError || ended.Status == delivery.StatusV1Error)
		is.Equal(ended.Failure.Code, "cancelled_by_operator")
	}
}

// The attempt of version 1 is read and ended in two commands: one that is claimed anew between them is not ended.
func TestCancel_9_2_ClaimedBetweenLookAndWrite(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s, db, sub := newStore(t)
	c, at := claimable(t, s, db, sub, store.V1)
	claim(t, s, []store.Candidate{c}, "a")
	running := record(t, s, db)
	var once sync.Once
	client := pulsetest.Client(t, func(opts *options.ClientOptions) {
		opts.SetMonitor(&event.CommandMonitor{Succeeded: func(_ context.Context, e *event.CommandSucceededEvent) {
			if e.CommandName == "find" {
				once.Do(func() { set(t, at, "lockToken", "b") })
			}
		}})
	})
	other := store.New(client.Database(db.Name()), indexPrefix)
	is.NoErr(other.Detect(t.Context()))
	cancelled, err := other.Cancel(t.Context(), running, operator, time.Hour)
	is.NoErr(err)
	is.True(!cancelled)
	now := record(t, s, db)
	is.Equal(now.Status, delivery.StatusV1Pending)
	is.True(now.Locked)
}
