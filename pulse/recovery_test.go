//go:build unix

package pulse_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/orionjs/orion-go/pulse"
	"github.com/orionjs/orion-go/pulse/pulsetest"
)

var childOrders = pulse.NewTopic[order](childTopic)

// survivor is the lease of the process that takes over. It is longer than the one of the process that dies,
// after which the test waits: else a server that stalls for seconds could cost further attempts.
const survivor = 8 * time.Second

// backlog publishes events for consumers that start later, and returns their IDs. Its client is of another
// group and serves nothing.
func backlog(t *testing.T, db *mongo.Database, n int) []string {
	t.Helper()
	return publishMany(t, childOrders, shop(t, db), n)
}

func shop(t *testing.T, db *mongo.Database) *pulse.Client {
	t.Helper()
	config := fast(db)
	config.ConsumerGroup = "shop"
	return startOver(t, db.Client(), config)
}

// runsOf returns how often each event was handled, by the record that handlers of consumers make.
func runsOf(ctx context.Context, db *mongo.Database) (map[string]int, error) {
	docs, err := find(ctx, db.Collection("runs"), bson.D{})
	runs := make(map[string]int)
	for _, d := range docs {
		runs[d.Lookup("event").StringValue()]++
	}
	return runs, err
}

// allSucceeded waits until every event has a delivery that ended well, and checks that it has one delivery
// alone, whose attempts hold one success, the last. It returns the deliveries.
func allSucceeded(t *testing.T, db *mongo.Database, ids []string) []bson.Raw {
	t.Helper()
	is := is.New(t)
	var docs []bson.Raw
	pulsetest.Eventually(t, "all events are delivered", func(ctx context.Context) error {
		var err error
		if docs, err = find(ctx, deliveriesOf(db), bson.D{}); err != nil {
			return err
		}
		ended := 0
		for _, d := range docs {
			if d.Lookup("status").StringValue() == "v2-success" {
				ended += len(eventsIn(d))
			}
		}
		if ended < len(ids) {
			return fmt.Errorf("%d of %d events", ended, len(ids))
		}
		return nil
	})
	deliveries := make(map[string]int)
	for _, d := range docs {
		for _, id := range eventsIn(d) {
			deliveries[id]++
		}
		successes := 0
		attempts := attemptsIn(d)
		for _, a := range attempts {
			if a.Lookup("status").StringValue() == "success" {
				successes++
			}
		}
		is.Equal(d.Lookup("status").StringValue(), "v2-success")
		is.Equal(successes, 1) // none twice
		is.Equal(attempts[len(attempts)-1].Lookup("status").StringValue(), "success")
	}
	is.Equal(len(deliveries), len(ids))
	for _, id := range ids {
		is.Equal(deliveries[id], 1) // exactly one delivery an event
	}
	return docs
}

func TestRecovery_6_2_ProcessKilledInTheMiddleOfABatch(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	db := chaosDatabase(t)
	ids := backlog(t, db, 300)
	first := startProcess(t, consumer{Database: db.Name(), BatchSize: 100, Workers: 1, MaxRetries: 3, HangAfter: 1})
	first.waitLine("run ")
	startProcess(t, consumer{Database: db.Name(), BatchSize: 100, Workers: 2, MaxRetries: 3, Lease: survivor})
	first.kill()

	lost := 0
	docs := allSucceeded(t, db, ids)
	is.Equal(len(docs), 3)
	for _, d := range docs {
		is.Equal(len(eventsIn(d)), 100)
		attempts := attemptsIn(d)
		if len(attempts) == 1 {
			continue
		}
		lost++
		is.Equal(len(attempts), 2)
		is.Equal(codeOf(attempts[0]), "worker_lost")
		is.True(strings.Contains(attempts[0].Lookup("lockOwner").StringValue(), ":"+first.pid()+":"))
		is.True(!strings.Contains(attempts[1].Lookup("lockOwner").StringValue(), ":"+first.pid()+":"))
	}
	is.Equal(lost, 1)
	runs, err := runsOf(t.Context(), db)
	is.NoErr(err)
	for _, id := range ids {
		is.Equal(runs[id], 1) // the killed one did not come to storing its run
	}
}

func TestRecovery_3_3_TwoProcessesShareABacklogInBatchesOfExactlyAHundred(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	db := chaosDatabase(t)
	ids := backlog(t, db, 5000)
	c := consumer{Database: db.Name(), BatchSize: 100, Workers: 2, MaxRetries: 3, Lease: 10 * time.Second}
	both := []*process{startProcess(t, c), startProcess(t, c)}

	docs := allSucceeded(t, db, ids)
	is.Equal(len(docs), 50)
	for _, d := range docs {
		is.Equal(len(eventsIn(d)), 100)
		is.Equal(len(attemptsIn(d)), 1)
	}
	for _, p := range both {
		p.end()
		is.Equal(p.lines("error"), 0)
	}
	runs, err := runsOf(t.Context(), db)
	is.NoErr(err)
	is.Equal(len(runs), 5000)
	for _, n := range runs {
		is.Equal(n, 1) // no loss, no duplicate
	}
}

// A leader dies: another process takes over when the lease is over, and goes on where the cursor is.
func TestRecovery_3_1_KilledLeaderIsSucceededAfterItsLease(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	db := chaosDatabase(t)
	leader := startProcess(t, consumer{Database: db.Name(), Workers: 1, MaxRetries: 3})
	eventually(t, 1, subscriptionsOf(db), ledBy(leader))
	other := startProcess(t, consumer{Database: db.Name(), Workers: 1, MaxRetries: 3, Lease: survivor})
	ids := backlog(t, db, 20)
	allSucceeded(t, db, ids)
	is.Equal(len(eventually(t, 1, subscriptionsOf(db), ledBy(leader))), 1) // one leader, the same all the time
	leader.kill()
	last := only(t, subscriptionsOf(db), bson.D{})
	ids = append(ids, backlog(t, db, 20)...)
	allSucceeded(t, db, ids)
	now := eventually(t, 1, subscriptionsOf(db), ledBy(other))[0]
	// The new lease began when the old one was over, by the server's clock.
	is.True(!now.Lookup("discoveryLockedUntil").Time().Add(-survivor).Before(last.Lookup("discoveryLockedUntil").Time()))
	is.Equal(other.lines("error"), 0)
}

// A leader is frozen for longer than its lease, and wakes to events that it has not seen.
func TestRecovery_3_1_FrozenLeaderWritesNothingWhenItWakes(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	db := chaosDatabase(t)
	leader := startProcess(t, consumer{Database: db.Name(), BatchSize: 10, Workers: 1, MaxRetries: 3})
	eventually(t, 1, subscriptionsOf(db), ledBy(leader))
	leader.freeze()
	other := startProcess(t, consumer{Database: db.Name(), BatchSize: 10, Workers: 1, MaxRetries: 3, Lease: survivor})
	ids := backlog(t, db, 20)
	eventually(t, 1, subscriptionsOf(db), ledBy(other))
	ids = append(ids, backlog(t, db, 20)...)
	allSucceeded(t, db, ids)
	leader.thaw()
	leader.waitLine("log ", "no longer leading")
	ids = append(ids, backlog(t, db, 20)...)
	allSucceeded(t, db, ids) // each event has one delivery: the cursor went on, and nobody else's did
	is.Equal(len(eventually(t, 1, subscriptionsOf(db), ledBy(other))), 1)
	leader.end()
	is.Equal(leader.lines("error"), 0)
}

// ledBy matches the subscription while the process leads it.
func ledBy(p *process) bson.D {
	return bson.D{
		{Key: "discoveryLockOwner", Value: bson.D{{Key: "$regex", Value: "^go:.*:" + p.pid() + ":"}}},
		{Key: "discoveryLockToken", Value: bson.D{{Key: "$exists", Value: true}}},
	}
}

// A process dies with claims for which it had no worker yet.
func TestRecovery_4_7_KilledWithBufferedClaims(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	db := chaosDatabase(t)
	ids := backlog(t, db, 60)
	first := startProcess(t, consumer{Database: db.Name(), Workers: 1, MaxRetries: 1, HangAfter: 20, Idle: true})
	// With the outcomes before it stored, what is claimed is the hanging one and those behind it.
	eventually(t, 19, deliveriesOf(db), bson.D{{Key: "status", Value: "v2-success"}})
	pulsetest.Eventually(t, "it claims ahead", func(ctx context.Context) error {
		held, err := find(ctx, deliveriesOf(db), processing)
		if err == nil && len(held) < 2 {
			err = fmt.Errorf("%d claimed", len(held))
		}
		return err
	})
	first.kill()

	startProcess(t, consumer{Database: db.Name(), Workers: 4, MaxRetries: 1, Lease: survivor})
	lost := 0
	for _, d := range allSucceeded(t, db, ids) { // none of them is terminal, though one retry is all there is
		if attempts := attemptsIn(d); len(attempts) == 2 {
			is.Equal(codeOf(attempts[0]), "worker_lost")
			is.True(strings.Contains(attempts[0].Lookup("lockOwner").StringValue(), ":"+first.pid()+":"))
			lost++
		}
	}
	is.True(lost >= 2 && lost <= 17) // sixteen for its worker, and the one that ran
}

// Where a lost attempt is the last one, nothing is claimed for which no worker is free: the process takes
// one delivery with it, the one that ran.
func TestRecovery_4_7_NoBufferedClaimsWhereALostAttemptIsTheLast(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]consumer{
		"no retries":    {Workers: 1, MaxRetries: 0, HangAfter: 20, Idle: true},
		"at most once":  {Workers: 1, AtMostOnce: true, HangAfter: 20, Idle: true},
		"later attempt": {Workers: 1, MaxRetries: 1, FailFirst: true, CountRetries: true, HangAfter: 20, Idle: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			db := chaosDatabase(t)
			const events = 60
			backlog(t, db, events)
			c.Database = db.Name()
			first := startProcess(t, c)
			pulsetest.Eventually(t, "its only worker hangs", func(ctx context.Context) error {
				ended, err := deliveriesOf(db).CountDocuments(ctx, bson.D{{Key: "status", Value: "v2-success"}})
				if err == nil && ended < 19 {
					err = fmt.Errorf("%d ended", ended)
				}
				return err
			})
			// Of a later attempt; buffered first ones have their retry before them.
			running := append(bson.D{{Key: "attempt", Value: c.MaxRetries + 1}}, processing...)
			one := eventually(t, 1, deliveriesOf(db), running)
			first.kill()
			is.Equal(eventually(t, 1, deliveriesOf(db), running)[0].Lookup("_id"), one[0].Lookup("_id"))

			c.HangAfter, c.Workers, c.Lease = 0, 4, survivor
			startProcess(t, c)
			eventually(t, events-1, deliveriesOf(db), bson.D{{Key: "status", Value: "v2-success"}})
			failed := eventually(t, 1, deliveriesOf(db), bson.D{{Key: "status", Value: "v2-error"}})
			is.Equal(failed[0].Lookup("_id"), one[0].Lookup("_id"))
			is.Equal(codeOf(failed[0]), "worker_lost")
		})
	}
}
