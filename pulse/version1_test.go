package pulse_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/orionjs/orion-go/pulse"
	"github.com/orionjs/orion-go/pulse/pulsetest"
)

func TestSubscribe_2_7_OrderedExcludesVersion2(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	c := newGroup(t, setup{clients: 1}).clients[0]
	_, err := orderedTopic.Subscribe(t.Context(), c, (&sequencer{}).handle(0), pulse.ExecutionVersion(2))
	var wrong *pulse.ConfigurationError
	is.True(errors.As(err, &wrong))
	is.True(strings.Contains(err.Error(), "Unordered()")) // what to add
}

// Version 1 behaves as version 2 does: every event once, retries with their number, an end after the last.
func TestVersion1_4_8_EveryEventHasOneSuccess(t *testing.T) {
	everySetup(t, func(t *testing.T, g *group) {
		is := is.New(t)
		const n = 150
		s := &sequencer{fail: func(_ context.Context, r orderedRun) error {
			if r.Number%10 == 7 && r.Attempt == 1 || r.Number%50 == 9 {
				return errPlanned
			}
			return nil
		}}
		s.subscribe(t, g.clients, pulse.Unordered(), pulse.MaxRetries(2))
		publishMany(t, orderedTopic, g.clients[0], n)
		attempts := settledV1(t, g.db, n)
		is.Equal(len(mustFind(t, deliveriesOf(g.db), bson.D{{Key: "status", Value: "error"}})), 3)
		is.Equal(failures(attempts, "handler_error"), 15+9)
		is.Equal(failures(attempts, "worker_lost"), 0)
		is.Equal(s.runs.Len(), n+15+6)
	})
}

// On a server without transactions each step is stored by itself, and comes to the same.
func TestVersion1_4_8_Standalone(t *testing.T) {
	t.Parallel()
	for _, ordered := range []bool{false, true} {
		t.Run(map[bool]string{true: "ordered", false: "unordered"}[ordered], func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			const n = 150
			db := standaloneDatabase(t)
			clients := []*pulse.Client{startOver(t, db.Client(), fast(db)), startOver(t, db.Client(), fast(db))}
			s := &sequencer{fail: func(_ context.Context, r orderedRun) error {
				if r.Number%10 == 7 && r.Attempt == 1 {
					return errPlanned
				}
				return nil
			}}
			var opts []pulse.SubscribeOption
			if !ordered {
				opts = append(opts, pulse.Unordered())
			}
			s.subscribe(t, clients, opts...)
			publishMany(t, orderedTopic, clients[0], n)
			attempts := settledV1(t, db, n)
			is.Equal(failures(attempts, "handler_error"), 15)
			is.Equal(s.runs.Len(), n+15)
			if ordered {
				is.Equal(s.overlaps.Load(), int32(0))
				next := 0
				for _, r := range s.runs.Values() {
					is.True(r.Number == next || r.Number == next-1 && r.Attempt == 2)
					next = r.Number + 1
				}
			}
		})
	}
}

// A worker whose lease ran out is lost: the attempt ends, the next one is due; without retries the delivery
// ends too. What the worker returns later changes nothing.
func TestVersion1_4_8_LostWorker(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		opts []pulse.SubscribeOption
		want string
	}{
		{"retried", nil, "success"},
		{"no retries", []pulse.SubscribeOption{pulse.MaxRetries(0)}, "error"},
		{"at most once", []pulse.SubscribeOption{pulse.DeliveryMode(pulse.AtMostOnce)}, "error"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			db := pulsetest.Database(t)
			var reported pulsetest.Recorder[error]
			client := startClient(t, leased(db, 3*time.Second, &reported))
			gate := newGate()
			is.NoErr(second(orderedTopic.Subscribe(t.Context(), client, gate.handle, version1(c.opts...)...)))
			published(t, orderedTopic, client, 0)
			gate.begun.Wait(t, 1)
			gone(t, historyOf(db))
			is.Equal(gate.causes.Wait(t, 1)[0], pulse.ErrLockLost)
			gate.open <- errPlanned // of the lost attempt
			gate.open <- nil
			attempts := settledV1(t, db, 1)
			is.Equal(failures(attempts, "worker_lost"), 1)
			is.Equal(failures(attempts, "handler_error"), 0)
			is.Equal(only(t, deliveriesOf(db), bson.D{}).Lookup("status").StringValue(), c.want)
			is.True(errorsOf(reported.Values(), pulse.ErrLockLost) >= 1)
		})
	}
}

// gone ends the only claim in the database, as if its worker had died long ago.
func gone(t *testing.T, coll *mongo.Collection) {
	t.Helper()
	res, err := coll.UpdateOne(t.Context(), locked, bson.D{{Key: "$set", Value: bson.D{
		{Key: "lockToken", Value: "a dead worker's"}, {Key: "lockedUntil", Value: time.Now().Add(-time.Minute)},
	}}})
	is := is.New(t)
	is.NoErr(err)
	is.Equal(res.ModifiedCount, int64(1))
}
