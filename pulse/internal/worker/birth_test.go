package worker

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/matryer/is"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/orionjs/orion-go/pulse/internal/delivery"
	"github.com/orionjs/orion-go/pulse/internal/receiver"
	"github.com/orionjs/orion-go/pulse/internal/store"
)

// born has the pool take part in storing deliveries of the fixture's events, by a real leader.
func (f *fixture) born(t *testing.T, put func(store func() error) error) error {
	t.Helper()
	is := is.New(t)
	_, err := f.Store.EnsureIndexes(t.Context())
	is.NoErr(err)
	sub, err := f.Store.EnsureSubscription(t.Context(), "billing", "t", f.lane.receiver.Settings())
	is.NoErr(err)
	lease := store.Lease{ID: sub.ID, Token: "leader"}
	_, won, err := f.Store.AcquireDiscovery(t.Context(), lease, "go:test", time.Minute)
	is.NoErr(err)
	is.True(won)
	deliveries := make([]store.NewDelivery, 10)
	for i := range deliveries {
		id := fmt.Sprint("new ", i)
		_, err := f.db.Collection("p.events").InsertOne(t.Context(), bson.D{{Key: "_id", Value: id}, {Key: "topic", Value: "t"}, {Key: "data", Value: i}})
		is.NoErr(err)
		at := store.Position{Sequence: bson.Timestamp{T: 9, I: uint32(i)}, EventID: id}
		deliveries[i] = store.NewDelivery{ConsumerGroup: "billing", Topic: "t", Format: store.V2, Events: []store.EventKey{{Position: at, PublishedAt: time.Now()}}}
	}
	return f.Born(t.Context(), "t", deliveries, func() error {
		return put(func() error {
			return f.Store.Materialize(t.Context(), lease, deliveries, deliveries[9].Events[0].Position, bson.Timestamp{})
		})
	})
}

func (f *fixture) inState(t *testing.T, status string) int {
	t.Helper()
	n := 0
	for _, doc := range f.stored(t) {
		if doc.Lookup("status").StringValue() == status {
			n++
		}
	}
	return n
}

func plainly(put func() error) error { return put() }

// What there are workers for is claimed as it is stored; for the rest the lane is woken.
func TestBorn_4_7_AsManyAsThereIsRoomFor(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	f := newFixture(t, 0)
	release := make(chan struct{})
	handle := f.lane.receiver.Handle
	f.lane.receiver.Handle = func(ctx context.Context, call receiver.Call) error {
		<-release
		return handle(ctx, call)
	}
	is.NoErr(f.born(t, plainly))
	is.Equal(f.inState(t, delivery.StatusProcessing), 4) // no handler was seen yet: none ahead
	is.Equal(f.inState(t, delivery.StatusPending), 6)
	f.mu.Lock()
	is.True(f.lane.v2().ready)
	is.Equal(f.running, 4)
	is.Equal(f.slots, 0)
	is.Equal(f.lane.births, births{})
	f.mu.Unlock()
	close(release)
	f.settled(t)
	is.Equal(f.calls.Len(), 4)
	is.Equal(f.inState(t, delivery.StatusSuccess), 4)
}

// Older deliveries that the lane knows of, or may not know of, are not overtaken, and a paused topic claims nothing.
func TestBorn_4_7_NoneOvertakesOthers(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(f *fixture){
		"the database may have some": func(f *fixture) { f.lane.v2().ready = true },
		"version 1 may have some":    func(f *fixture) { f.lane.v1().ready = true },
		"candidates are known":       func(f *fixture) { f.lane.v2().candidates = candidates(1, 0) },
		"paused":                     func(f *fixture) { f.lane.receiver.SetPaused(true) },
		"all workers are busy":       func(f *fixture) { f.Workers = 0 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			f := newFixture(t, 0)
			f.patience = time.Millisecond
			prepare(f)
			is.NoErr(f.born(t, plainly))
			is.Equal(f.inState(t, delivery.StatusPending), 10)
			is.Equal(f.lane.births, births{})
		})
	}
}

// A lane that has room for the older deliveries is waited for, so that it has not new ones behind it for ever.
func TestBorn_4_7_AfterOlderOnes(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	f := newFixture(t, 3)
	f.patience = time.Hour
	f.lane.v2().ready = true
	storing, stored := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stored)
		err := f.born(t, func(put func() error) error {
			close(storing)
			f.mu.Lock()
			if f.lane.behind() {
				t.Error("new deliveries are stored before the lane has claimed the older ones")
			}
			f.mu.Unlock()
			return put()
		})
		if err != nil {
			t.Error(err)
		}
	}()
	select {
	case <-storing: // it does not wait
	case <-time.After(500 * time.Millisecond):
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		f.claimLoop(ctx)
	}()
	<-stored
	f.calls.Wait(t, 13)
	cancel()
	<-ended
	f.settled(t)
	is.Equal(f.inState(t, delivery.StatusSuccess), 13)
}

// An error of the write gives the room back. When it is not known whether it was stored, that is looked up.
func TestBorn_4_1_ErrorsOfTheWrite(t *testing.T) {
	t.Parallel()
	lost := errors.New("the answer was lost")
	for name, c := range map[string]struct {
		put  func(put func() error) error
		runs int
	}{
		"refused":                  {func(func() error) error { return store.ErrLeaseLost }, 0},
		"not stored":               {func(func() error) error { return lost }, 0},
		"stored, nobody knows":     {func(put func() error) error { return errors.Join(put(), lost) }, 4},
		"another one leads by now": {func(put func() error) error { return errors.Join(store.ErrDelivered) }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			f := newFixture(t, 0)
			is.True(f.born(t, c.put) != nil)
			f.settled(t)
			is.Equal(f.calls.Len(), c.runs)
			f.mu.Lock()
			is.Equal(f.slots, 0)
			is.Equal(f.lane.births, births{})
			f.mu.Unlock()
			is.Equal(f.inState(t, delivery.StatusSuccess), c.runs)
		})
	}
}

// A write that took longer than the leases last leaves claims that must not begin. They are handed back: nothing has run,
// and a reaper would take an attempt for each of them.
func TestBorn_4_7_LaterThanTheLease(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	f := newFixture(t, 0)
	f.Lease = 50 * time.Millisecond
	is.NoErr(f.born(t, func(put func() error) error {
		err := put()
		<-time.After(f.Lease)
		return err
	}))
	is.NoErr(f.resolveDoubts(t.Context())) // the renew loop does that
	f.settled(t)
	is.Equal(f.calls.Len(), 0)
	is.Equal(f.inState(t, delivery.StatusPending), 10)
	for _, doc := range f.stored(t) {
		is.Equal(doc.Lookup("attempt").Int32(), int32(0))
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	is.Equal(f.slots, 0)
	is.Equal(f.lane.births, births{})
	is.True(f.lane.v2().ready)
}
