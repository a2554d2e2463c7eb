package pulse_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/matryer/is"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/orionjs/orion-go/pulse"
	"github.com/orionjs/orion-go/pulse/pulsetest"
)

// Without a limit a page has a hundred attempts, whichever format has more of them.
func TestHistory_5_1_DefaultLimit(t *testing.T) {
	t.Parallel()
	for name, share := range map[string]int{"most in the history": 95, "most on deliveries": 10} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			db := pulsetest.Database(t)
			config := fast(db)
			config.ManualStart = true // it only reads
			c := startClient(t, config)
			begin := time.Now().Add(-time.Hour).Truncate(time.Millisecond)
			var history, embedded []any
			const n = 105
			for i := range n {
				attempt := bson.D{{Key: "_id", Value: fmt.Sprintf("a%03d", i)}, {Key: "attempt", Value: 1}, {Key: "status", Value: "success"}, {Key: "createdAt", Value: begin.Add(time.Duration(i*8%n) * time.Second)}}
				of := bson.D{{Key: "consumerGroup", Value: "billing"}, {Key: "topic", Value: "t"}, {Key: "eventId", Value: fmt.Sprint("e", i)}}
				if i < share {
					history = append(history, append(append(attempt, of...), bson.E{Key: "deliveryId", Value: fmt.Sprint("d", i)}))
				} else {
					embedded = append(embedded, append(of, bson.E{Key: "_id", Value: fmt.Sprint("d", i)}, bson.E{Key: "status", Value: "v2-success"}, bson.E{Key: "attempts", Value: bson.A{attempt}}))
				}
			}
			is.NoErr(second(historyOf(db).InsertMany(t.Context(), history)))
			is.NoErr(second(deliveriesOf(db).InsertMany(t.Context(), embedded)))
			first, err := c.History().Find(t.Context(), pulse.HistoryQuery{})
			is.NoErr(err)
			is.Equal(len(first.Attempts), 100)
			rest, err := c.History().Find(t.Context(), pulse.HistoryQuery{Cursor: first.Next})
			is.NoErr(err)
			is.Equal(len(rest.Attempts), n-100)
			is.Equal(rest.Next, "")
			for i, a := range append(first.Attempts, rest.Attempts...) {
				is.True(a.CreatedAt.Equal(begin.Add(time.Duration(n-1-i) * time.Second))) // each once, the newest first
			}
		})
	}
}

// A delivery that goes on after more than ten attempts shows the last ten, and the next one, which waits, under
// its number; and when that runs, under the same.
func TestHistory_5_1_PendingBehindMoreThanTenAttempts(t *testing.T) {
	cellsOf(t, []kind{v2Kind, batchKind}, func(t *testing.T, is *is.I, s *suite) {
		var runs pulsetest.Recorder[int]
		release := make(chan struct{})
		s.attachAll(t, func(ctx context.Context, es []*pulse.Event[order]) error {
			runs.Add(es[0].Attempt)
			switch {
			case es[0].Attempt < 13:
				return pulse.RetryAfter(errPlanned, 0)
			case es[0].Attempt == 13:
				return pulse.RetryAfter(errPlanned, time.Hour)
			}
			<-release
			return nil
		}, pulse.MaxRetries(20), pulse.RetryDelay(time.Millisecond), pulse.RetryBackoffMultiplier(1))
		id := published(t, orderedTopic, s.clients[0], 0)
		eventually(t, 1, deliveriesOf(s.db), bson.D{{Key: "attempt", Value: 13}, {Key: "status", Value: "v2-pending"}})
		check := func(lock pulse.LockState) pulse.Attempt {
			t.Helper()
			page, err := s.clients[0].History().Find(t.Context(), pulse.HistoryQuery{EventID: id, Topic: orderedTopic.Name()})
			is.NoErr(err)
			is.Equal(len(page.Attempts), 11)
			byNumber := map[int]pulse.Attempt{}
			for _, a := range page.Attempts {
				byNumber[a.Attempt] = a
			}
			for n := 4; n <= 13; n++ {
				is.Equal(byNumber[n].Status, pulse.AttemptFailed)
				is.Equal(byNumber[n].Lock, pulse.LockState(""))
				is.Equal(byNumber[n].Error.Code, "handler_error")
			}
			is.Equal(byNumber[14].Status, pulse.AttemptPending)
			is.Equal(byNumber[14].Lock, lock)
			is.Equal(byNumber[14].CreatedAt, byNumber[13].EndedAt)
			return byNumber[14]
		}
		waits := check(pulse.LockQueued)
		is.True(waits.StartedAt.IsZero() && waits.Error == nil)
		is.Equal(waits.NextAttemptAt, waits.CreatedAt.Add(time.Hour))
		// As if the hour had passed.
		is.NoErr(second(deliveriesOf(s.db).UpdateMany(t.Context(), bson.D{}, bson.D{{Key: "$set", Value: bson.D{{Key: "nextAttemptAt", Value: waits.CreatedAt}}}})))
		runs.Wait(t, 14)
		is.Equal(check(pulse.LockActive).ID, waits.ID)
		close(release)
	})
}

// expiries returns the documents' expiresAt by ID, the zero time for those that are kept for ever.
func expiries(t *testing.T, colls ...*mongo.Collection) map[string]time.Time {
	t.Helper()
	out := map[string]time.Time{}
	for _, coll := range colls {
		for _, d := range mustFind(t, coll, bson.D{}) {
			at, _ := d.Lookup("expiresAt").TimeOK()
			out[coll.Name()+" "+d.Lookup("_id").StringValue()] = at
		}
	}
	return out
}

// Documents keep the retention that they were stored with, whatever clients of another one do later; a retention
// counts when a document gets its end: an event's with its publication, a delivery's with its outcome.
func TestRetention_4_4_ChangeLeavesStoredDocumentsAlone(t *testing.T) {
	t.Parallel()
	for name, change := range map[string][2]time.Duration{
		"shorter":    {48 * time.Hour, time.Hour},
		"turned off": {48 * time.Hour, pulse.NoTTL},
		"turned on":  {pulse.NoTTL, 48 * time.Hour},
		"longer":     {time.Hour, 48 * time.Hour},
	} {
		for _, k := range []kind{v2Kind, v1Kind, orderedKind, batchKind} {
			t.Run(name+"/"+k.name, func(t *testing.T) {
				t.Parallel()
				is := is.New(t)
				s := &suite{&group{db: pulsetest.Database(t)}, k}
				s.oneByOne()
				colls := []*mongo.Collection{eventsOf(s.db), deliveriesOf(s.db), historyOf(s.db)}
				run := func(keep time.Duration) *pulse.Client {
					config := fast(s.db)
					config.EventRetention, config.HistoryRetention = keep, keep
					c := newClient(t, s.db, config)
					s.attach(t, orderedTopic, c, func(_ context.Context, es []*pulse.Event[order]) error {
						switch n := es[0].Data.Number; {
						case n == 2 && es[0].Attempt == 1:
							return pulse.RetryAfter(errPlanned, time.Hour) // it ends under the other retention
						case n == 1:
							return pulse.Permanent(errPlanned)
						}
						return nil
					}, pulse.RetryDelay(time.Millisecond))
					return c
				}
				c := run(change[0])
				publishFrom(t, c, 0, 3)
				s.ended(t, "success", 1)
				s.ended(t, "error", 1)
				retried := bson.D{{Key: "nextAttemptAt", Value: bson.D{{Key: "$gt", Value: time.Now().Add(30 * time.Minute)}}}}
				waits := deliveriesOf(s.db)
				if s.inHistory() {
					waits = historyOf(s.db)
				}
				eventually(t, 1, waits, retried)
				closeClient(t, c)
				open := expiries(t, colls[0])
				stored := map[string]time.Time{}
				for _, d := range append(s.ended(t, "success", 1), s.ended(t, "error", 1)...) {
					stored[deliveriesOf(s.db).Name()+" "+d.Lookup("_id").StringValue()], _ = d.Lookup("expiresAt").TimeOK()
					if s.inHistory() {
						for _, a := range d.attempts {
							stored[historyOf(s.db).Name()+" "+a.Lookup("_id").StringValue()], _ = a.Lookup("expiresAt").TimeOK()
						}
					}
				}
				for key, at := range open {
					stored[key] = at
				}
				for _, at := range stored {
					is.Equal(at.IsZero(), change[0] == pulse.NoTTL)
				}

				// As if the hour had passed.
				is.NoErr(second(waits.UpdateMany(t.Context(), retried, bson.D{{Key: "$set", Value: bson.D{{Key: "nextAttemptAt", Value: time.Now().Add(-time.Second)}}}})))
				c = run(change[1])
				e := publishFrom(t, c, 3, 1)[0]
				s.ended(t, "success", 3)
				closeClient(t, c)
				now := expiries(t, colls...)
				for key, at := range stored {
					is.Equal(now[key], at)
				}
				for _, d := range s.ended(t, "success", 3)[1:] { // the one that had waited, and the new one
					at, has := d.Lookup("expiresAt").TimeOK()
					is.Equal(has, change[1] != pulse.NoTTL)
					if has {
						is.Equal(at, dateIn(d.Raw, "endedAt").Add(change[1]))
					}
				}
				is.Equal(e.ExpiresAt.IsZero(), change[1] == pulse.NoTTL)
			})
		}
	}
}
