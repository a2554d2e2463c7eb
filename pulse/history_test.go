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
	"golang.org/x/sync/errgroup"

	"github.com/orionjs/orion-go/pulse"
	"github.com/orionjs/orion-go/pulse/pulsetest"
)

// pages reads a listing to its end and returns the attempts, having checked each page's size.
func pages(t *testing.T, c *pulse.Client, q pulse.HistoryQuery) []pulse.Attempt {
	t.Helper()
	is := is.New(t)
	var all []pulse.Attempt
	for {
		page, err := c.History().Find(t.Context(), q)
		is.NoErr(err)
		all = append(all, page.Attempts...)
		if page.Next == "" {
			return all
		}
		is.Equal(len(page.Attempts), q.Limit)
		q.Cursor = page.Next
	}
}

// newestFirst checks that the attempts are in order, and none twice.
func newestFirst(t *testing.T, attempts []pulse.Attempt) {
	t.Helper()
	is := is.New(t)
	seen := map[string]bool{}
	for i, a := range attempts {
		is.True(!seen[a.ID])
		seen[a.ID] = true
		if i > 0 {
			is.True(!a.CreatedAt.After(attempts[i-1].CreatedAt))
		}
	}
}

// mixed fills a group's history with attempts of both formats: of each topic n single events that fail once,
// and of "batched" one batch.
func mixed(t *testing.T, c *pulse.Client, n int) (v1, v2, batched []string) {
	t.Helper()
	is := is.New(t)
	var done pulsetest.Recorder[string]
	handle := func(_ context.Context, e *pulse.Event[order]) error {
		if e.Attempt == 1 {
			return errPlanned
		}
		done.Add(e.ID)
		return nil
	}
	one, two, three := pulse.NewTopic[order]("one"), pulse.NewTopic[order]("two"), pulse.NewTopic[order]("batched")
	v1, v2, batched = publishMany(t, one, c, n), publishMany(t, two, c, n), publishMany(t, three, c, 3)
	is.NoErr(second(one.Subscribe(t.Context(), c, handle, version1()...)))
	is.NoErr(second(two.Subscribe(t.Context(), c, handle, version1(pulse.ExecutionVersion(2))...)))
	is.NoErr(second(three.SubscribeBatch(t.Context(), c, 3, func(_ context.Context, es []*pulse.Event[order]) error {
		done.Add(es[0].ID)
		return nil
	}, pulse.OffsetReset(pulse.Earliest))))
	done.Wait(t, 2*n+1)
	return v1, v2, batched
}

func TestHistory_5_1_BothFormatsMergedAndPaged(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	g := newGroup(t, setup{clients: 1})
	c := g.clients[0]
	v1, v2, batched := mixed(t, c, 10)
	pulsetest.Eventually(t, "all outcomes are stored", func(ctx context.Context) error {
		page, err := c.History().Find(ctx, pulse.HistoryQuery{Status: pulse.AttemptSucceeded})
		if err == nil && len(page.Attempts) != 21 {
			err = fmt.Errorf("%d are", len(page.Attempts))
		}
		return err
	})
	all := pages(t, c, pulse.HistoryQuery{Limit: 7})
	newestFirst(t, all)
	is.Equal(len(all), 41)
	for _, limit := range []int{1, 40, 41, 500} {
		is.Equal(pages(t, c, pulse.HistoryQuery{Limit: limit}), all) // a page's end changes nothing
	}
	versions := map[int]int{}
	for _, a := range all {
		versions[a.ExecutionVersion]++
		is.Equal(a.ConsumerGroup, "billing")
		is.Equal(a.Lock, pulse.LockState(""))
		is.True(!a.StartedAt.IsZero() && !a.EndedAt.Before(a.StartedAt) && a.LockOwner != "" && a.DeliveryID != "")
		is.Equal(a.Error != nil, a.Status == pulse.AttemptFailed)
	}
	is.Equal(versions, map[int]int{1: 20, 2: 21})

	for _, q := range []struct {
		query pulse.HistoryQuery
		want  int
	}{
		{pulse.HistoryQuery{Topic: "one"}, 20},
		{pulse.HistoryQuery{Topic: "two"}, 20},
		{pulse.HistoryQuery{Topic: "two", Status: pulse.AttemptFailed}, 10},
		{pulse.HistoryQuery{Topic: "one", Status: pulse.AttemptFailed}, 10},
		{pulse.HistoryQuery{EventID: v1[3]}, 2},
		{pulse.HistoryQuery{EventID: v2[3]}, 2},
		{pulse.HistoryQuery{EventID: batched[0]}, 1},
		{pulse.HistoryQuery{EventID: batched[2]}, 1},
		{pulse.HistoryQuery{EventID: v1[3], Status: pulse.AttemptSucceeded}, 1},
		{pulse.HistoryQuery{Topic: "none"}, 0},
		{pulse.HistoryQuery{Status: pulse.AttemptPending}, 0},
		{pulse.HistoryQuery{Lock: pulse.LockQueued}, 0},
		{pulse.HistoryQuery{ConsumerGroup: "another"}, 0},
		{pulse.HistoryQuery{ConsumerGroup: pulse.AllGroups}, 41},
		{pulse.HistoryQuery{From: all[0].CreatedAt}, same(all, all[0].CreatedAt)},
		{pulse.HistoryQuery{To: all[0].CreatedAt}, 41 - same(all, all[0].CreatedAt)},
		{pulse.HistoryQuery{From: all[40].CreatedAt, To: all[40].CreatedAt.Add(time.Millisecond)}, same(all, all[40].CreatedAt)},
	} {
		q.query.Limit = 3
		found := pages(t, c, q.query)
		newestFirst(t, found)
		if len(found) != q.want {
			t.Errorf("%+v: %d attempts, want %d", q.query, len(found), q.want)
		}
	}
	of := pages(t, c, pulse.HistoryQuery{EventID: batched[1], Limit: 5})[0]
	is.Equal(of.EventIDs, batched)
}

// same counts the attempts of a time.
func same(all []pulse.Attempt, at time.Time) int {
	n := 0
	for _, a := range all {
		if a.CreatedAt.Equal(at) {
			n++
		}
	}
	return n
}

func TestHistory_5_1_LockStates(t *testing.T) {
	t.Parallel()
	for _, version := range []int{1, 2} {
		t.Run(fmt.Sprint("version ", version), func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			g := newGroup(t, setup{clients: 1})
			c := g.clients[0]
			gate := newGate()
			opts := version1(pulse.ExecutionVersion(version), pulse.MaxConcurrency(1), pulse.MaxRetries(0))
			is.NoErr(second(orderedTopic.Subscribe(t.Context(), c, gate.handle, opts...)))
			publishMany(t, orderedTopic, c, 3)
			gate.begun.Wait(t, 1)
			count := func(q pulse.HistoryQuery) int {
				q.Limit = 10
				return len(pages(t, c, q))
			}
			is.Equal(count(pulse.HistoryQuery{Lock: pulse.LockActive}), 1)
			is.Equal(count(pulse.HistoryQuery{Lock: pulse.LockQueued}), 2)
			is.Equal(count(pulse.HistoryQuery{Lock: pulse.LockExpired}), 0)
			is.Equal(count(pulse.HistoryQuery{Status: pulse.AttemptPending}), 3)
			is.Equal(count(pulse.HistoryQuery{Status: pulse.AttemptPending, Lock: pulse.LockQueued}), 2)
			active := pages(t, c, pulse.HistoryQuery{Lock: pulse.LockActive, Limit: 10})[0]
			is.Equal(active.Attempt, 1)
			is.Equal(active.Lock, pulse.LockActive)
			is.True(active.LockedUntil.After(active.StartedAt) && active.EndedAt.IsZero())
			for _, a := range pages(t, c, pulse.HistoryQuery{Lock: pulse.LockQueued, Limit: 10}) {
				is.Equal(a.Attempt, 1) // the one to come
				is.Equal(a.Lock, pulse.LockQueued)
				is.Equal(a.LockOwner, "")
			}
			// The same claim, and a lease that has ended.
			coll := historyOf(g.db)
			if version == 2 {
				coll = deliveriesOf(g.db)
			}
			expired := bson.D{{Key: "$set", Value: bson.D{{Key: "lockedUntil", Value: time.Now().Add(-time.Hour)}}}}
			_, err := coll.UpdateOne(t.Context(), bson.D{{Key: "lockToken", Value: bson.D{{Key: "$ne", Value: nil}}}}, expired)
			is.NoErr(err)
			is.Equal(count(pulse.HistoryQuery{Lock: pulse.LockActive}), 0)
			is.Equal(pages(t, c, pulse.HistoryQuery{Lock: pulse.LockExpired, Limit: 10})[0].Lock, pulse.LockExpired)
			close(gate.open)
		})
	}
}

// While attempts are added, a listing that began before shows each attempt of its time once.
func TestHistory_5_1_PagesWhileAttemptsAreAdded(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	g := newGroup(t, setup{clients: 1})
	c := g.clients[0]
	mixed(t, c, 30)
	pulsetest.Eventually(t, "all outcomes are stored", func(ctx context.Context) error {
		page, err := c.History().Find(ctx, pulse.HistoryQuery{Status: pulse.AttemptPending})
		if err == nil && len(page.Attempts) > 0 {
			err = errors.New("not yet")
		}
		return err
	})
	before := pages(t, c, pulse.HistoryQuery{Limit: 100})
	is.Equal(len(before), 121)
	ctx, stop := context.WithCancel(t.Context())
	var adding errgroup.Group
	adding.Go(func() error {
		for i := 0; ctx.Err() == nil && i < 100; i++ {
			topic := pulse.NewTopic[order]([]string{"one", "two"}[i%2])
			if _, err := topic.Publish(ctx, c, order{Number: i}); err != nil && ctx.Err() == nil {
				return err
			}
		}
		return nil
	})
	for _, limit := range []int{3, 7, 50} {
		first, err := c.History().Find(t.Context(), pulse.HistoryQuery{Limit: limit})
		is.NoErr(err)
		listed := append(first.Attempts, pages(t, c, pulse.HistoryQuery{Limit: limit, Cursor: first.Next})...)
		newestFirst(t, listed)
		ids := map[string]bool{}
		for _, a := range listed {
			ids[a.ID] = true
		}
		for _, a := range before {
			is.True(ids[a.ID]) // none is missed
		}
	}
	stop()
	is.NoErr(adding.Wait())
}

// Documents of wrong types and unknown states neither fail a listing nor end it too early.
func TestHistory_6_3_HostileDocuments(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	db := pulsetest.Database(t)
	config := fast(db)
	config.ManualStart = true // it serves nothing: what it reads stays as it is
	c := startClient(t, config)
	now := time.Now().Add(-time.Hour).Truncate(time.Millisecond)
	hostile := []any{nil, "text", int32(7), bson.D{{Key: "$add", Value: 1}}, bson.A{1, "x", nil}, true, bson.Timestamp{T: 1 << 31, I: 1}}
	for i, value := range hostile {
		for _, field := range []string{"_id", "attempt", "attempts", "attemptId", "attemptCreatedAt", "createdAt", "nextAttemptAt", "startedAt", "lockToken", "lockedUntil", "error", "eventIds", "eventId", "durationMs", "status"} {
			for _, status := range []string{"v2-pending", "v2-processing", "v2-error", "pending"} {
				d := bson.M{
					"_id": fmt.Sprint(field, i, status), "consumerGroup": "billing", "topic": "t", "eventId": fmt.Sprint("e", field, i, status), "status": status,
					"attempt": int32(1), "attemptId": "a", "attemptCreatedAt": now, "createdAt": now, "nextAttemptAt": now, "eventSequence": bson.Timestamp{T: 1, I: 1},
					"attempts": bson.A{bson.D{{Key: "_id", Value: "b"}, {Key: "attempt", Value: 1}, {Key: "status", Value: "error"}, {Key: "createdAt", Value: now}}},
				}
				coll := deliveriesOf(db)
				if status == "pending" {
					coll = historyOf(db)
					delete(d, "attempts")
					d["deliveryId"] = d["_id"]
				}
				d[field] = value
				if field == "attempts" {
					d[field] = bson.A{value, value}
				}
				_, err := coll.InsertOne(t.Context(), d)
				// The server refuses some as an _id, and what is unique can be hostile but once.
				is.True(err == nil || mongo.IsDuplicateKeyError(err) || field == "_id")
			}
		}
	}
	good := bson.D{{Key: "_id", Value: "good"}, {Key: "deliveryId", Value: "g"}, {Key: "eventId", Value: "good"}, {Key: "attempt", Value: 1}, {Key: "consumerGroup", Value: "billing"}, {Key: "topic", Value: "t"}, {Key: "status", Value: "success"}, {Key: "createdAt", Value: now.Add(-time.Minute)}}
	_, err := historyOf(db).InsertOne(t.Context(), good)
	is.NoErr(err)
	for _, q := range []pulse.HistoryQuery{{}, {Lock: pulse.LockQueued}, {Lock: pulse.LockExpired}, {Lock: pulse.LockActive}, {Status: pulse.AttemptFailed}, {EventID: "x"}, {From: now.Add(-time.Hour), To: now.Add(time.Hour)}} {
		for _, limit := range []int{50, 500} {
			q.Limit = limit
			all := pages(t, c, q)
			if q.Lock == "" && q.Status == "" && q.EventID == "" {
				is.Equal(all[len(all)-1].ID, "good") // the oldest, behind all that
			}
		}
	}
}

func TestHistory_5_1_BadQueries(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	c := newGroup(t, setup{clients: 1}).clients[0]
	for _, c2 := range []struct {
		query    pulse.HistoryQuery
		problems int
	}{
		{pulse.HistoryQuery{Status: "done"}, 1},
		{pulse.HistoryQuery{Lock: "locked"}, 1},
		{pulse.HistoryQuery{Lock: pulse.LockQueued, Status: pulse.AttemptFailed}, 1},
		{pulse.HistoryQuery{Limit: -1}, 1},
		{pulse.HistoryQuery{Limit: 501}, 1},
		{pulse.HistoryQuery{Cursor: "???"}, 1},
		{pulse.HistoryQuery{Cursor: "bm90YSBudW1iZXI"}, 1},
		{pulse.HistoryQuery{Status: "done", Lock: "locked", Limit: 501, Cursor: "?"}, 4},
	} {
		_, err := c.History().Find(t.Context(), c2.query)
		var wrong *pulse.ConfigurationError
		is.True(errors.As(err, &wrong))
		is.Equal(len(wrong.Problems), c2.problems)
	}
	page, err := c.History().Find(t.Context(), pulse.HistoryQuery{})
	is.NoErr(err)
	is.Equal(len(page.Attempts), 0)
	is.Equal(page.Next, "")
	closeClient(t, c)
	_, err = c.History().Find(t.Context(), pulse.HistoryQuery{})
	is.True(errors.Is(err, pulse.ErrClosed))
}
