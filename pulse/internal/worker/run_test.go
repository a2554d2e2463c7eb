package worker

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/matryer/is"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/orionjs/orion-go/pulse/internal/delivery"
	"github.com/orionjs/orion-go/pulse/internal/lifecycle"
	"github.com/orionjs/orion-go/pulse/internal/receiver"
	"github.com/orionjs/orion-go/pulse/internal/store"
	"github.com/orionjs/orion-go/pulse/pulsetest"
)

// fixture is a pool over a database with due deliveries, whose settler runs and whose other loops do not:
// the test takes each step itself.
type fixture struct {
	*Pool
	lane    *lane
	db      *mongo.Database
	reports pulsetest.Recorder[error]
	calls   pulsetest.Recorder[receiver.Call]
	result  error
}

func newFixture(t *testing.T, deliveries int, configure ...func(*options.ClientOptions)) *fixture {
	t.Helper()
	is := is.New(t)
	f := &fixture{db: pulsetest.Database(t)}
	p := newPool(t, 4)
	f.Pool = p
	p.Store = store.New(pulsetest.Client(t, configure...).Database(f.db.Name()), "p")
	is.NoErr(p.Store.Detect(t.Context()))
	p.Report = func(err error) { f.reports.Add(err) }
	f.lane = addLane(p, "t", 4, 3, 0)
	f.lane.receiver.Handle = func(_ context.Context, call receiver.Call) error {
		f.calls.Add(call)
		return f.result
	}
	now := time.Now()
	for i := range deliveries {
		event := fmt.Sprint("e", i)
		_, err := f.db.Collection("p.events").InsertOne(t.Context(), bson.D{{Key: "_id", Value: event}, {Key: "topic", Value: "t"}, {Key: "data", Value: i}})
		is.NoErr(err)
		_, err = f.db.Collection("p.deliveries").InsertOne(t.Context(), bson.D{
			{Key: "_id", Value: uuid.NewString()},
			{Key: "consumerGroup", Value: "billing"},
			{Key: "topic", Value: "t"},
			{Key: "eventId", Value: event},
			{Key: "status", Value: delivery.StatusPending},
			{Key: "attempt", Value: int32(0)},
			{Key: "attemptId", Value: uuid.NewString()},
			{Key: "attemptCreatedAt", Value: now},
			{Key: "nextAttemptAt", Value: now},
			{Key: "attempts", Value: bson.A{}},
		})
		is.NoErr(err)
	}
	loops := lifecycle.New(nil)
	_, _, settle := p.Loops()
	is.NoErr(loops.Go("settle", settle))
	is.NoErr(loops.Start())
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if err := errors.Join(p.Drain(ctx), loops.Stop(ctx)); err != nil {
			t.Error(err)
		}
		p.Abandon()
		p.mu.Lock()
		defer p.mu.Unlock()
		p.disarm(f.lane)
	})
	return f
}

// claimAll claims all deliveries, of which n slots were reserved for.
func (f *fixture) claimAll(t *testing.T, n int) (won []store.Candidate, token string, deadline time.Time) {
	t.Helper()
	is := is.New(t)
	due, _, _, err := f.Store.Candidates(t.Context(), "billing", "t", store.V2, 100)
	is.NoErr(err)
	won, token, deadline, err = f.claim(t.Context(), due)
	is.NoErr(err)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.slots += n
	f.lane.reserved += n
	return won, token, deadline
}

func (f *fixture) stored(t *testing.T) []bson.Raw {
	t.Helper()
	is := is.New(t)
	cursor, err := f.db.Collection("p.deliveries").Find(t.Context(), bson.D{})
	is.NoErr(err)
	var docs []bson.Raw
	is.NoErr(cursor.All(t.Context(), &docs))
	return docs
}

// settled waits until all outcomes are stored.
func (f *fixture) settled(t *testing.T) {
	t.Helper()
	is.New(t).Equal(f.waitFor(t.Context(), func() int { return f.running }), 0)
	is.New(t).Equal(f.settler.waitEmpty(t.Context()), 0)
}

func TestAdmit_4_1_RunsWhatItHoldsAndBuffersTheRest(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	f := newFixture(t, 10)
	won, token, deadline := f.claimAll(t, 2)
	f.admit(t.Context(), f.lane, f.lane.v2(), won, token, deadline)
	f.settled(t) // each slot that became free took the next from the buffer
	is.Equal(f.calls.Len(), 10)
	for _, d := range f.stored(t) {
		is.Equal(d.Lookup("status").StringValue(), delivery.StatusSuccess)
	}
	is.Equal(f.slots, 0)
	is.Equal(len(f.held), 0)
}

// Reading the events, or the answer to the claim, took longer than the leases last: nothing starts, and what nobody
// else has taken meanwhile is handed back with its attempt not consumed.
func TestAdmit_4_1_WhatWasLostWhileItsEventsWereReadDoesNotStart(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	f := newFixture(t, 6)
	won, token, _ := f.claimAll(t, 2)
	_, err := f.db.Collection("p.deliveries").UpdateByID(t.Context(), won[0].ID, bson.D{{Key: "$set", Value: bson.D{{Key: "lockToken", Value: "another's"}}}})
	is.NoErr(err)
	f.admit(t.Context(), f.lane, f.lane.v2(), won, token, time.Now().Add(-time.Millisecond))
	f.settled(t)
	is.Equal(f.calls.Len(), 0)
	for _, err := range f.reports.Wait(t, 6) {
		is.True(errors.Is(err, delivery.ErrLockLost))
	}
	f.settled(t)
	for _, d := range f.stored(t) {
		if d.Lookup("_id").StringValue() == won[0].ID {
			is.Equal(d.Lookup("lockToken").StringValue(), "another's")
			continue
		}
		is.Equal(d.Lookup("status").StringValue(), delivery.StatusPending)
		is.Equal(d.Lookup("attempt").AsInt64(), int64(0))
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	is.Equal(f.unsettled, 0)
	is.Equal(f.slots, f.lane.reserved) // the lane's, until the end of its turn
	is.Equal(len(f.held)+len(f.lane.buffer), 0)
}

// The events cannot be read: nothing runs, and nobody's attempt is consumed.
func TestAdmit_4_7_UnreadableEventsAreHandedBack(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	name := uuid.NewString()
	f := newFixture(t, 6, func(o *options.ClientOptions) { o.SetAppName(name) })
	won, token, deadline := f.claimAll(t, 2)
	failing := pulsetest.NewFailPoint(t, f.db.Client())
	failing.Set(pulsetest.Failure{AppName: name, Commands: []string{"find"}, ErrorCode: 13, Times: 1})
	f.admit(t.Context(), f.lane, f.lane.v2(), won, token, deadline)
	f.settled(t)
	is.Equal(f.calls.Len(), 0)
	is.Equal(f.reports.Len(), 1)
	for _, d := range f.stored(t) {
		is.Equal(d.Lookup("status").StringValue(), delivery.StatusPending)
		is.Equal(d.Lookup("attempt").AsInt64(), int64(0))
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	is.Equal(f.slots, f.lane.reserved) // the lane's, until the end of its turn
	is.True(len(f.lane.v2().dues) > 0) // and is looked at again, after a pause
}

// The database refuses outcomes for a while: none is lost, none is stored twice, and leases stay held.
func TestSettler_4_1_RepeatsUntilTheOutcomeIsStored(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	name := uuid.NewString()
	f := newFixture(t, 8, func(o *options.ClientOptions) { o.SetAppName(name) })
	won, token, deadline := f.claimAll(t, 4)
	failing := pulsetest.NewFailPoint(t, f.db.Client())
	failing.Set(pulsetest.Failure{AppName: name, Commands: []string{"update"}, ErrorCode: 13, Times: 3})
	f.admit(t.Context(), f.lane, f.lane.v2(), won, token, deadline)
	f.settled(t)
	is.Equal(f.reports.Len(), 3)
	is.Equal(f.calls.Len(), 8)
	for _, d := range f.stored(t) {
		is.Equal(d.Lookup("status").StringValue(), delivery.StatusSuccess)
		values, _ := d.Lookup("attempts").Array().Values()
		is.Equal(len(values), 1)
	}
}

// The same client loses a delivery and claims it anew while the older outcome waits to be stored, together
// with one of the newer claim: IDs and tokens are matched crosswise, and must not pass for each other.
func TestSettler_4_1_OlderOutcomeDoesNotPassForTheNewerClaims(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	f := newFixture(t, 2)
	due, _, _, err := f.Store.Candidates(t.Context(), "billing", "t", store.V2, 100)
	is.NoErr(err)
	_, oldToken, deadline, err := f.claim(t.Context(), due[:1])
	is.NoErr(err)
	older := f.newTask(f.lane, due[0], oldToken, deadline)
	f.hold([]*task{older})
	// Reaped, and due again; both are claimed under one new token.
	_, err = f.db.Collection("p.deliveries").UpdateByID(t.Context(), due[0].ID, bson.D{{Key: "$set", Value: bson.D{{Key: "status", Value: delivery.StatusPending}, {Key: "attemptId", Value: "second"}}}})
	is.NoErr(err)
	due, _, _, err = f.Store.Candidates(t.Context(), "billing", "t", store.V2, 100)
	is.NoErr(err)
	won, newToken, deadline, err := f.claim(t.Context(), due)
	is.NoErr(err)
	is.Equal(len(won), 2)
	var again, other *task
	for _, c := range won {
		if newer := f.newTask(f.lane, c, newToken, deadline); c.ID == older.ID {
			again = newer
		} else {
			other = newer
		}
	}
	f.hold([]*task{again, other})
	now := f.Store.Now()
	batch := []settled{
		{task: older, settlement: store.Settlement{Lease: older.leaseRef(), StartedAt: now, EndedAt: now}},
		{task: other, settlement: store.Settlement{Lease: other.leaseRef(), StartedAt: now, EndedAt: now}},
	}
	is.NoErr(f.settler.write(t.Context(), batch))
	for _, d := range f.stored(t) {
		want, token := delivery.StatusSuccess, ""
		if d.Lookup("_id").StringValue() == older.ID {
			want, token = delivery.StatusProcessing, newToken // the newer claim's, which still runs
		}
		is.Equal(d.Lookup("status").StringValue(), want)
		stored, _ := d.Lookup("lockToken").StringValueOK()
		is.Equal(stored, token)
	}
	is.Equal(f.reports.Len(), 1)
	f.mu.Lock()
	defer f.mu.Unlock()
	is.Equal(f.held, map[string]*task{again.ID: again})
	f.forget([]*task{again})
}
