package pulse_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/matryer/is"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/orionjs/orion-go/pulse"
	"github.com/orionjs/orion-go/pulse/pulsetest"
)

// One of the leases is another's: the handler is told, what it returns changes nothing, and the order goes
// on elsewhere once the claims have run out. Of what was claimed, only the running event pays an attempt.
func TestOrdered_4_9_LeaseStolenInTheDatabase(t *testing.T) {
	t.Parallel()
	for _, what := range []string{"the ordered lease", "the attempt"} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			const n, at = 60, 30
			db := pulsetest.Database(t)
			var reported pulsetest.Recorder[error]
			first := startClient(t, leased(db, 3*time.Second, &reported))
			publishMany(t, orderedTopic, first, n)
			var causes pulsetest.Recorder[error]
			s := &sequencer{}
			s.fail = func(ctx context.Context, r orderedRun) error {
				if r.Number != at || r.Client != 0 || causes.Len() > 0 {
					return nil
				}
				<-ctx.Done()
				causes.Add(context.Cause(ctx))
				return nil // a success that must not count
			}
			s.subscribe(t, []*pulse.Client{first})
			s.runs.Wait(t, at+1)
			if what == "the attempt" {
				running := bson.D{{Key: "lockToken", Value: bson.D{{Key: "$ne", Value: nil}}}, {Key: "status", Value: "pending"}, {Key: "startedAt", Value: bson.D{{Key: "$ne", Value: nil}}}}
				// The one that is marked as started may be settled in this moment, and the next not yet be marked.
				pulsetest.Eventually(t, "the attempt is stolen", func(ctx context.Context) error {
					res, err := historyOf(db).UpdateOne(ctx, running, bson.D{{Key: "$set", Value: bson.D{{Key: "lockToken", Value: "another's"}}}})
					if err == nil && res.ModifiedCount == 0 {
						err = errors.New("none is running")
					}
					return err
				})
			} else {
				_, err := subscriptionsOf(db).UpdateOne(t.Context(), bson.D{}, bson.D{{Key: "$set", Value: bson.D{{Key: "orderedLockToken", Value: "another's"}}}})
				is.NoErr(err)
			}
			is.Equal(causes.Wait(t, 1)[0], pulse.ErrLockLost)
			other := startClient(t, leased(db, 8*time.Second, &reported))
			is.NoErr(second(orderedTopic.Subscribe(t.Context(), other, s.handle(1), orderedBy()...)))
			attempts := settledV1(t, db, n)
			if failures(attempts, "worker_lost") != 1 {
				for _, of := range attempts {
					for _, a := range of {
						if codeOf(a) != "" || len(of) > 1 {
							t.Log(a)
						}
					}
				}
				for _, r := range s.runs.Values() {
					t.Log(r)
				}
			}
			is.Equal(failures(attempts, "worker_lost"), 1)
			is.Equal(s.overlaps.Load(), int32(0))
			lastRuns := map[int]int{}
			next := 0
			for _, of := range attempts {
				is.True(len(of) <= 2)
			}
			for _, r := range s.runs.Values() {
				// Some before the stolen one were not stored yet, and run again; nothing runs before those
				// that come before it were run.
				is.True(r.Number <= next)
				next = max(next, r.Number+1)
				lastRuns[r.Number]++
			}
			is.Equal(len(lastRuns), n)
			is.True(lastRuns[at] >= 2)
			is.True(errorsOf(reported.Values(), pulse.ErrLockLost) >= 1)
		})
	}
}

// A claim takes longer than its lease, as in a process that was frozen meanwhile: its tasks are lost before
// they started. The order must go on when the server answers again.
func TestOrdered_4_9_GoesOnAfterClaimsThatTookTooLong(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	const n = 20
	db := pulsetest.Database(t)
	fail := pulsetest.NewFailPoint(t, db.Client())
	var reported pulsetest.Recorder[error]
	config := leased(db, 2*time.Second, &reported)
	config.PollInterval = 300 * time.Millisecond
	c := startClient(t, config, func(opts *options.ClientOptions) { opts.SetAppName(db.Name()) })
	publishMany(t, orderedTopic, c, n)
	s := &sequencer{}
	s.subscribe(t, []*pulse.Client{c})
	s.runs.Wait(t, n)
	settledV1(t, db, n)
	fail.Set(pulsetest.Failure{AppName: db.Name(), Commands: []string{"find", "update"}, Block: 2200 * time.Millisecond})
	publishMany(t, orderedTopic, startClient(t, fast(db)), n)
	pulsetest.Eventually(t, "a claim has run out", func(ctx context.Context) error {
		claims, err := find(ctx, historyOf(db), locked)
		if err == nil && (len(claims) == 0 || claims[0].Lookup("lockedUntil").Time().After(time.Now())) {
			err = errors.New("not yet")
		}
		return err
	})
	fail.Off()
	s.runs.Wait(t, 2*n)
	settledV1(t, db, 2*n)
	is.Equal(s.overlaps.Load(), int32(0))
}

// Where outcomes are stored more slowly than a window sends them, those of an attempt and the mark that it has started come
// together in one write. The order goes on: nothing waits for a lease that was never lost, and nothing runs again.
func TestOrdered_4_9_GoesOnWhereOutcomesAreStoredSlowly(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	const topics, n = 3, 100
	db := pulsetest.Database(t)
	var reported pulsetest.Recorder[error]
	config := leased(db, 10*time.Minute, &reported) // an order that is lost is not missed
	config.WorkerCount = topics
	c := startClient(t, config, func(opts *options.ClientOptions) { opts.SetAppName(db.Name()) })
	t.Cleanup(func() { // it failed once, beside all others, and nobody could tell why
		if !t.Failed() {
			return
		}
		for _, err := range reported.Values() {
			t.Log("reported: ", err)
		}
		for _, coll := range []*mongo.Collection{subscriptionsOf(db), historyOf(db)} {
			docs, err := find(context.Background(), coll, bson.D{{Key: "status", Value: bson.D{{Key: "$ne", Value: "success"}}}})
			t.Log(coll.Name(), docs, err)
		}
	})
	var runs [topics]pulsetest.Recorder[string]
	for i := range runs {
		topic := pulse.NewTopic[order](fmt.Sprint("order.created.", i))
		publishMany(t, topic, c, n)
	}
	pulsetest.NewFailPoint(t, db.Client()).Set(pulsetest.Failure{AppName: db.Name(), Commands: []string{"update"}, Block: 100 * time.Millisecond})
	for i := range runs {
		topic := pulse.NewTopic[order](fmt.Sprint("order.created.", i))
		_, err := topic.Subscribe(t.Context(), c, func(_ context.Context, e *pulse.Event[order]) error {
			time.Sleep(5 * time.Millisecond) // a window lasts for a while
			runs[i].Add(fmt.Sprint(e.Data.Number))
			return nil
		}, orderedBy()...)
		is.NoErr(err)
	}
	for i := range runs {
		is.Equal(runs[i].Wait(t, n), upTo(n))
	}
	settledV1(t, db, topics*n)
	for i := range runs {
		is.Equal(runs[i].Len(), n) // each once
	}
	is.Equal(reported.Len(), 0)
}
