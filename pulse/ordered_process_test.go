//go:build unix

package pulse_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/matryer/is"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/orionjs/orion-go/pulse"
	"github.com/orionjs/orion-go/pulse/pulsetest"
)

// holder returns the process that holds the order, or nil.
func holder(ctx context.Context, db *mongo.Database, processes []*process) *process {
	subs, err := find(ctx, subscriptionsOf(db), bson.D{})
	if err != nil || len(subs) == 0 {
		return nil
	}
	owner, _ := subs[0].Lookup("orderedLockOwner").StringValueOK()
	for _, p := range processes {
		if strings.Contains(owner, ":"+p.pid()+":") {
			return p
		}
	}
	return nil
}

// watchPrefix checks again and again, until it is told to stop, that what has ended is always a prefix of the
// order. It reads from the end to the beginning: what it reads later has had more time to end.
func watchPrefix(t *testing.T, db *mongo.Database) (stop func() (looks int)) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var looks atomic.Int64
	var done sync.WaitGroup
	done.Go(func() {
		for ctx.Err() == nil {
			cursor, err := deliveriesOf(db).Find(ctx, bson.D{}, options.Find().SetBatchSize(100).
				SetSort(bson.D{{Key: "eventSequence", Value: -1}, {Key: "eventId", Value: -1}}).
				SetProjection(bson.D{{Key: "status", Value: 1}}))
			var docs []struct{ Status string }
			if err == nil {
				err = cursor.All(ctx, &docs)
			}
			if err != nil {
				continue
			}
			ended := false
			for _, d := range docs {
				if ended && d.Status == "pending" {
					t.Error("an event has ended before one that comes before it")
					return
				}
				ended = ended || d.Status != "pending"
			}
			looks.Add(1)
		}
	})
	return func() int {
		cancel()
		done.Wait()
		return int(looks.Load())
	}
}

// runsInOrder checks by the record of the handlers that nothing ran before all that comes before it had run.
func runsInOrder(t *testing.T, db *mongo.Database, n int) {
	t.Helper()
	is := is.New(t)
	cursor, err := db.Collection("runs").Find(t.Context(), bson.D{}, options.Find().SetSort(bson.D{{Key: "at", Value: 1}}))
	is.NoErr(err)
	var runs []struct{ Number, Attempt int }
	is.NoErr(cursor.All(t.Context(), &runs))
	next := 0
	for _, r := range runs {
		if r.Number > next {
			t.Fatalf("event %d ran before event %d", r.Number, next)
		}
		next = max(next, r.Number+1)
	}
	is.Equal(next, n)
	t.Logf("%d events, %d runs", n, len(runs))
}

// acceptedInOrder checks by the same record that the runs whose success was accepted, as the attempts' owners tell,
// followed each other in the order of the events: one for each, without a hole.
func acceptedInOrder(t *testing.T, db *mongo.Database, n int) {
	t.Helper()
	is := is.New(t)
	type run struct {
		event, pid string
		attempt    int64
	}
	at := map[run]bson.Timestamp{}
	number := map[string]int{}
	for _, r := range mustFind(t, db.Collection("runs"), bson.D{}) {
		seconds, increment := r.Lookup("at").Timestamp()
		key := run{r.Lookup("event").StringValue(), fmt.Sprint(r.Lookup("pid").AsInt64()), r.Lookup("attempt").AsInt64()}
		if when := (bson.Timestamp{T: seconds, I: increment}); when.After(at[key]) {
			at[key] = when // what the same process did before was not accepted
		}
		number[key.event] = int(r.Lookup("number").AsInt64())
	}
	accepted := make([]bson.Timestamp, n)
	for _, a := range mustFind(t, historyOf(db), bson.D{{Key: "status", Value: "success"}}) {
		owner := strings.Split(a.Lookup("lockOwner").StringValue(), ":")
		event := a.Lookup("eventId").StringValue()
		when, ran := at[run{event, owner[len(owner)-2], a.Lookup("attempt").AsInt64()}]
		is.True(ran)
		is.True(accepted[number[event]].IsZero())
		accepted[number[event]] = when
	}
	for i := 1; i < n; i++ {
		if !accepted[i].After(accepted[i-1]) {
			t.Fatalf("the accepted run of event %d was not behind that of event %d", i, i-1)
		}
	}
}

// Three processes, of which the one that holds the order is killed, or frozen for longer than its lease, in
// the middle of its work, again and again, while one run of a hundred fails.
func TestOrdered_4_9_ProcessesKilledAndFrozen(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	const each = 300
	rounds, began, soak := 0, time.Now(), soaking(t)
	db := chaosDatabase(t)
	c := consumer{Database: db.Name(), Workers: 2, MaxRetries: 50, Ordered: true, FailOneIn: 100, Lease: 2 * time.Second}
	var processes []*process
	for range 3 {
		processes = append(processes, startProcess(t, c))
	}
	config := fast(db)
	config.ConsumerGroup = "shop"
	publisher := startOver(t, db.Client(), config)
	stop := watchPrefix(t, db)
	for round := 0; round < 4 || time.Since(began) < soak; round++ {
		rounds++
		pulsetest.Eventually(t, "they keep up", func(ctx context.Context) error {
			open, err := deliveriesOf(db).CountDocuments(ctx, bson.D{{Key: "status", Value: "pending"}})
			if err == nil && open > 2*each {
				err = fmt.Errorf("%d are open", open)
			}
			return err
		})
		messages := make([]pulse.Message[order], each)
		for i := range messages {
			messages[i].Data.Number = round*each + i
		}
		_, err := childOrders.PublishMany(t.Context(), publisher, messages)
		is.NoErr(err)
		var victim *process
		pulsetest.Eventually(t, "a process is in the middle of the round", func(ctx context.Context) error {
			n, err := db.Collection("runs").CountDocuments(ctx, bson.D{{Key: "number", Value: bson.D{{Key: "$gte", Value: round * each}}}})
			if victim = holder(ctx, db, processes); err == nil && (victim == nil || n < 20) {
				err = fmt.Errorf("holder %v, %d runs", victim != nil, n)
			}
			return err
		})
		if round%2 == 0 {
			victim.kill()
			for i, p := range processes {
				if p == victim {
					processes[i] = startProcess(t, c)
				}
			}
			continue
		}
		victim.freeze()
		pulsetest.Eventually(t, "another holds the order", func(ctx context.Context) error {
			if other := holder(ctx, db, processes); other == nil || other == victim {
				return fmt.Errorf("another: %v", other != nil)
			}
			return nil
		})
		victim.thaw()
	}
	attempts := settledV1(t, db, rounds*each)
	looks := stop()
	is.Equal(len(mustFind(t, deliveriesOf(db), bson.D{{Key: "status", Value: "success"}})), rounds*each)
	is.Equal(len(mustFind(t, historyOf(db), bson.D{{Key: "status", Value: "success"}})), rounds*each)
	is.Equal(len(mustFind(t, historyOf(db), bson.D{{Key: "status", Value: "pending"}})), 0)
	lost := failures(attempts, "worker_lost")
	t.Logf("%d looks, %d lost attempts, %d failures", looks, lost, failures(attempts, "handler_error"))
	is.True(looks > 0)
	is.True(lost <= rounds) // each strike costs the running event one attempt, and no other
	runsInOrder(t, db, rounds*each)
	acceptedInOrder(t, db, rounds*each)
}

// A process dies with a window of claims. Those that had not started are run as if nothing had happened;
// without retries there is no window, and the next event loses nothing either.
func TestOrdered_4_9_UnstartedClaimsOfAKilledProcessCostNothing(t *testing.T) {
	t.Parallel()
	for _, c := range []consumer{
		{MaxRetries: 3, Ordered: true}, {MaxRetries: 0, Ordered: true}, {AtMostOnce: true, Ordered: true},
	} {
		t.Run(fmt.Sprint("retries ", c.MaxRetries, " at most once ", c.AtMostOnce), func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			const n = 200
			db := chaosDatabase(t)
			backlog(t, db, n)
			// Handlers that do nothing, so that a window is claimed on any machine, and one that hangs within it.
			c.Database, c.Workers, c.Lease, c.HangAfter, c.HangAhead, c.Idle = db.Name(), 1, 2*time.Second, 31, c.MaxRetries > 0, true
			first := startProcess(t, c)
			first.waitLine("hang ")
			hanging := ""
			for _, line := range first.output.Values() {
				if id, ok := strings.CutPrefix(line, "hang "); ok {
					hanging = id
				}
			}
			before := mustFind(t, eventsOf(db), bson.D{{Key: "_id", Value: hanging}})[0].Lookup("data", "number").AsInt64()
			pulsetest.Eventually(t, "all before it are stored", func(ctx context.Context) error {
				ended, err := deliveriesOf(db).CountDocuments(ctx, bson.D{{Key: "status", Value: "success"}})
				if err == nil && ended != before {
					err = fmt.Errorf("%d are", ended)
				}
				return err
			})
			eventually(t, 1, historyOf(db), append(bson.D{{Key: "eventId", Value: hanging}, {Key: "startedAt", Value: bson.D{{Key: "$ne", Value: nil}}}}, locked...))
			is.Equal(len(mustFind(t, historyOf(db), locked)) > 1, c.MaxRetries > 0)
			first.kill()
			c.HangAfter, c.HangAhead, c.Lease = 0, false, survivor
			startProcess(t, c)
			attempts := settledV1(t, db, n)
			for _, of := range attempts {
				event := of[0].Lookup("eventId").StringValue()
				switch {
				case event != hanging:
					is.Equal(len(of), 1)
					is.Equal(codeOf(of[0]), "")
				case c.MaxRetries > 0:
					is.Equal(len(of), 2)
					is.Equal(codeOf(of[0]), "worker_lost")
					is.Equal(codeOf(of[1]), "")
				default:
					is.Equal(len(of), 1)
					is.Equal(codeOf(of[0]), "worker_lost")
				}
			}
		})
	}
}
