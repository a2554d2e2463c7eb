package pulse_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/matryer/is"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/orionjs/orion-go/pulse"
	"github.com/orionjs/orion-go/pulse/pulsetest"
)

// nodeV1 is a version 1 delivery as the Node implementation leaves it: without fields that do not apply, or
// with null in them, with numbers of any type.
type nodeV1 struct {
	name     string
	delivery bson.D
	attempts []bson.D
	// first is the number of the attempt that runs next, lost tells that one is to be ended as lost before.
	first    int
	lost     bool
	repaired bool // by the repairer, or at the head of an order
}

func nodeV1Cases() []nodeV1 {
	now := time.Now().UTC().Truncate(time.Millisecond).Add(-time.Minute)
	lock := bson.D{
		{Key: "startedAt", Value: now},
		{Key: "lockOwner", Value: "host:1:abc"},
		{Key: "lockToken", Value: uuid.NewString()},
		{Key: "lockedAt", Value: now},
		{Key: "lockedUntil", Value: now.Add(time.Second)},
		{Key: "heartbeatAt", Value: now},
	}
	attempt := func(n any, status string, more ...bson.E) bson.D {
		return append(bson.D{{Key: "attempt", Value: n}, {Key: "status", Value: status}, {Key: "createdAt", Value: now}, {Key: "nextAttemptAt", Value: now}}, more...)
	}
	failed := func(n any) bson.D {
		return attempt(n, "error", append(append(bson.D{}, lock...),
			bson.E{Key: "endedAt", Value: now}, bson.E{Key: "durationMs", Value: 12.0},
			bson.E{Key: "error", Value: bson.D{{Key: "code", Value: "handler_error"}, {Key: "name", Value: "Error"}, {Key: "message", Value: "x"}, {Key: "stack", Value: "at y"}}})...)
	}
	nulls := func(d bson.D, keys ...string) bson.D {
		for _, key := range keys {
			d = append(d, bson.E{Key: key, Value: nil})
		}
		return d
	}
	base := bson.D{{Key: "status", Value: "pending"}, {Key: "createdAt", Value: now}, {Key: "updatedAt", Value: now}}
	with := func(more ...bson.E) bson.D { return append(append(bson.D{}, base...), more...) }
	return []nodeV1{
		{name: "new", delivery: with(), attempts: []bson.D{attempt(int32(1), "pending")}, first: 1},
		{
			name: "new, with nulls", delivery: nulls(with(), "error", "endedAt", "expiresAt", "finalAttempt", "needsReconciliation"),
			attempts: []bson.D{nulls(attempt(1.0, "pending"), "startedAt", "lockOwner", "lockToken", "lockedAt", "lockedUntil", "heartbeatAt", "endedAt", "durationMs", "expiresAt", "error", "needsReconciliation")},
			first:    1,
		},
		{name: "to be retried", delivery: with(), attempts: []bson.D{failed(int64(1)), attempt(int32(2), "pending")}, first: 2},
		{name: "lost", delivery: with(), attempts: []bson.D{attempt(int32(1), "pending", lock...)}, first: 2, lost: true},
		{name: "unknown fields", delivery: with(bson.E{Key: "future", Value: bson.D{{Key: "x", Value: 1}}}), attempts: []bson.D{attempt(int32(1), "pending", bson.E{Key: "future", Value: true})}, first: 1},
		{name: "half stored", delivery: with(bson.E{Key: "needsReconciliation", Value: true}), first: 1, repaired: true},
		{name: "half failed", delivery: with(), attempts: []bson.D{append(failed(int32(1)), bson.E{Key: "needsReconciliation", Value: true})}, first: 2, repaired: true},
	}
}

// What Node has stored is claimed, retried and ended by ours, in the order of the events where that is asked
// for, and unknown fields stay.
func TestNode_6_1_Version1DeliveriesAreTakenOver(t *testing.T) {
	t.Parallel()
	for _, ordered := range []bool{true, false} {
		t.Run(fmt.Sprint("ordered=", ordered), func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			db := pulsetest.Database(t)
			publishMany(t, orderedTopic, shop(t, db), 7)
			events := mustFind(t, eventsOf(db), bson.D{})
			var cases []nodeV1
			var want []string
			for i, c := range nodeV1Cases() {
				if c.repaired && !ordered {
					continue // as often as every 30 s: see TestRepair
				}
				cases = append(cases, c)
				id := fmt.Sprint("d", len(cases)-1)
				common := bson.D{{Key: "consumerGroup", Value: "billing"}, {Key: "topic", Value: orderedTopic.Name()}, {Key: "eventId", Value: events[i].Lookup("_id")}}
				d := append(append(bson.D{{Key: "_id", Value: id}, {Key: "eventCreatedAt", Value: events[i].Lookup("createdAt")}, {Key: "eventSequence", Value: events[i].Lookup("sequence")}}, common...), c.delivery...)
				_, err := deliveriesOf(db).InsertOne(t.Context(), d)
				is.NoErr(err)
				for _, a := range c.attempts {
					a = append(append(bson.D{{Key: "_id", Value: uuid.NewString()}, {Key: "deliveryId", Value: id}}, common...), a...)
					_, err := historyOf(db).InsertOne(t.Context(), a)
					is.NoErr(err)
				}
				for _, n := range []int{c.first, c.first + 1} {
					want = append(want, runsAs([]orderedRun{{Number: i, Attempt: n}})...)
				}
			}
			config := leased(db, 3*time.Second, nil)
			s := &sequencer{}
			first := map[int]bool{}
			s.fail = func(_ context.Context, r orderedRun) error {
				if !first[r.Number] { // one at a time, also without order: MaxConcurrency is 1
					first[r.Number] = true
					return errPlanned
				}
				return nil
			}
			opts := orderedBy(pulse.OffsetReset(pulse.Latest), pulse.MaxRetries(3))
			if !ordered {
				opts = append(opts, pulse.Unordered(), pulse.MaxConcurrency(1))
			}
			is.NoErr(second(orderedTopic.Subscribe(t.Context(), startClient(t, config), s.handle(0), opts...)))
			runs := runsAs(s.runs.Wait(t, len(want)))
			if ordered {
				is.Equal(runs, want)
			}
			attempts := settledV1(t, db, len(cases))
			for i, c := range cases {
				of := attempts[fmt.Sprint("d", i)]
				is.Equal(len(of), c.first+1)
				is.Equal(codeOf(of[c.first-1]), "handler_error")
				if c.lost {
					is.Equal(codeOf(of[0]), "worker_lost")
				}
				_, err := of[len(of)-1].LookupErr("expiresAt")
				is.NoErr(err)
			}
			is.Equal(len(mustFind(t, deliveriesOf(db), bson.D{{Key: "future.x", Value: 1}, {Key: "status", Value: "success"}})), 1)
			is.Equal(len(mustFind(t, historyOf(db), bson.D{{Key: "future", Value: true}, {Key: "status", Value: "error"}})), 1)
		})
	}
}
