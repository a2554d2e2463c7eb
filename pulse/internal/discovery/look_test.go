package discovery

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.uber.org/goleak"

	"github.com/orionjs/orion-go/pulse/internal/receiver"
	"github.com/orionjs/orion-go/pulse/internal/store"
	"github.com/orionjs/orion-go/pulse/pulsetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// keys are n event keys of the given size behind one another.
func keys(n, size int) []store.EventKey {
	out := make([]store.EventKey, n)
	for i := range out {
		out[i] = store.EventKey{Position: store.Position{Sequence: bson.Timestamp{T: uint32(i + 1), I: 1}, EventID: fmt.Sprintf("e%06d", i)}, Size: size}
	}
	return out
}

func TestCut_3_3_Batches(t *testing.T) {
	t.Parallel()
	l := New(Config{Group: "billing"})
	long := keys(300, 100)
	for i := range long {
		long[i].EventID += strings.Repeat("x", 100_000)
	}
	unnamedBetween := keys(10, 100)
	unnamedBetween[3].EventID, unnamedBetween[9].EventID = "", ""
	for _, c := range []struct {
		name  string
		page  []store.EventKey
		known []int // of the page
		size  int
		more  bool
		want  []int // sizes of the deliveries
		to    int   // index of the last event that is dealt with
	}{
		{"full ones, and a rest that is the end", keys(25, 100), nil, 10, false, []int{10, 10, 5}, 24},
		{"the rest waits while there are more", keys(25, 100), nil, 10, true, []int{10, 10}, 19},
		{"a page that is too small for one batch does not wait", keys(9, 100), nil, 10, true, []int{9}, 8},
		{"exactly full", keys(20, 100), nil, 10, true, []int{10, 10}, 19},
		{"single events", keys(3, 0), nil, 1, true, []int{1, 1, 1}, 2},
		{"known ones are left out, batches stay full", keys(25, 100), []int{0, 7, 24}, 10, false, []int{10, 10, 2}, 24},
		{"all are known", keys(5, 100), []int{0, 1, 2, 3, 4}, 10, false, nil, 4},
		{"16 MB of payload", keys(10, 5<<20), nil, 100, false, []int{3, 3, 3, 1}, 9},
		{"one that is larger than the bound", keys(3, 17<<20), nil, 100, false, []int{1, 1, 1}, 2},
		{"8 MB of IDs", long, nil, 1000, false, []int{83, 83, 83, 51}, 299},
		{"IDs that are no text are passed over", unnamedBetween, nil, 4, false, []int{4, 4}, 9},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			known := map[string]bson.Timestamp{}
			for _, i := range c.known {
				known[c.page[i].EventID] = c.page[i].Sequence
			}
			deliveries, to, rest := l.cut("t", c.page, known, store.V2, c.size > 1, c.size, c.more)
			var sizes []int
			last := store.Position{}
			for _, d := range deliveries {
				sizes = append(sizes, len(d.Events))
				for _, k := range d.Events { // in order, none twice, none that is known
					is.True(k.After(last))
					is.True(known[k.EventID].IsZero())
					last = k.Position
				}
			}
			is.Equal(sizes, c.want)
			is.Equal(to, c.page[c.to].Position)
			is.Equal(rest, c.to < len(c.page)-1)
		})
	}
}

// IDs that are no text sort behind the strings of their sequence: the cursor must not fall behind those.
func TestCut_6_3_CursorNeverFallsBehindWhatIsDelivered(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	page := keys(3, 100)
	for i := range page {
		page[i].Sequence = bson.Timestamp{T: 7, I: 1}
	}
	page[2].EventID = ""
	_, to, _ := New(Config{}).cut("t", page, nil, store.V2, true, 10, false)
	is.Equal(to, page[1].Position)
}

func TestPageLimit_3_3_HoldsWholeBatches(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	for size, want := range map[int]int{1: 1000, 7: 4998, 100: 5000, 3000: 3000, 5000: 5000, 7500: 7500, 1 << 30: maxPageEvents} {
		is.Equal(pageLimit(size), want)
	}
}

// fixture is a database in which leaders of one group compete for the topic "t"; the test takes each step.
type fixture struct {
	db      *mongo.Database
	store   *store.Store
	reports pulsetest.Recorder[error]
	told    pulsetest.Recorder[string] // topics with new deliveries
}

var settings = store.Settings{
	ExecutionVersion: 2, OffsetReset: store.OffsetEarliest, Delivery: store.AtLeastOnce, MaxRetries: 3,
	RetryDelay: time.Second, Multiplier: 2, ReceiverMode: store.ModeBatch, BatchSize: 10,
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	is := is.New(t)
	db := pulsetest.Database(t)
	f := &fixture{db: db, store: store.New(db, "p")}
	is.NoErr(f.store.Detect(t.Context()))
	_, err := f.store.EnsureIndexes(t.Context())
	is.NoErr(err)
	return f
}

func (f *fixture) leader(lease time.Duration) *Leader {
	return New(Config{
		Store: f.store, Group: "billing", Owner: "go:test", Lease: lease, Window: 10 * time.Second,
		Born: func(_ context.Context, topic string, deliveries []store.NewDelivery, put func() error) error {
			err := put()
			if err == nil && len(deliveries) > 0 {
				f.told.Add(topic)
			}
			return err
		},
		Report: func(err error) { f.reports.Add(err) },
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
}

// polled is the look of a poll that found news.
func polled(ctx context.Context, l *Leader) error {
	l.Look("t")
	return l.look(ctx, "t")
}

// receiver subscribes the group, and returns the subscription as stored.
func (f *fixture) receiver(t *testing.T) (*receiver.Receiver, store.Subscription) {
	t.Helper()
	sub, err := f.store.EnsureSubscription(t.Context(), "billing", "t", settings)
	is.New(t).NoErr(err)
	r := &receiver.Receiver{Topic: "t", SubscriptionID: sub.ID, Batch: true}
	r.Adopt(settings)
	return r, sub
}

func (f *fixture) publish(t *testing.T, n int) {
	t.Helper()
	docs := make([]bson.D, n)
	for i := range docs {
		docs[i] = bson.D{{Key: "_id", Value: bson.NewObjectID().Hex()}, {Key: "topic", Value: "t"}, {Key: "sequence", Value: bson.Timestamp{}}, {Key: "createdAt", Value: time.Now()}}
	}
	_, err := f.db.Collection("p.events").InsertMany(t.Context(), docs)
	is.New(t).NoErr(err)
}

func (f *fixture) overdue(t *testing.T) {
	t.Helper()
	_, err := f.db.Collection("p.subscriptions").UpdateMany(t.Context(), bson.D{}, bson.D{{Key: "$set", Value: bson.D{{Key: "discoveryLockedUntil", Value: time.Now().Add(-time.Minute)}}}})
	is.New(t).NoErr(err)
}

// events returns how often each event is in a delivery.
func (f *fixture) events(t *testing.T) map[string]int {
	t.Helper()
	is := is.New(t)
	cursor, err := f.db.Collection("p.deliveries").Find(t.Context(), bson.D{})
	is.NoErr(err)
	var docs []bson.Raw
	is.NoErr(cursor.All(t.Context(), &docs))
	n := map[string]int{}
	for _, d := range docs {
		values, _ := d.Lookup("eventIds").Array().Values()
		for _, v := range values {
			n[v.StringValue()]++
		}
	}
	return n
}

func (f *fixture) eachOnce(t *testing.T, n int) {
	t.Helper()
	is := is.New(t)
	found := f.events(t)
	is.Equal(len(found), n)
	for _, times := range found {
		is.Equal(times, 1)
	}
}

// A leader that does not know yet that another one took over reads a page, and writes nothing.
func TestLook_3_1_StaleLeaderWritesNothingAndStopsLeading(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	f := newFixture(t)
	r, sub := f.receiver(t)
	stale, next := f.leader(time.Hour), f.leader(time.Hour)
	is.NoErr(stale.Campaign(t.Context(), r, sub))
	is.NoErr(next.Campaign(t.Context(), r, sub)) // as if it had not read that the lease is taken
	is.Equal(len(stale.Leading()), 1)
	is.Equal(len(next.Leading()), 0)
	f.publish(t, 5)
	is.NoErr(polled(t.Context(), stale))
	f.eachOnce(t, 5)

	f.overdue(t)
	is.NoErr(next.Campaign(t.Context(), r, sub))
	is.Equal(len(next.Leading()), 1)
	f.publish(t, 25)
	is.NoErr(polled(t.Context(), stale))
	f.eachOnce(t, 5)
	is.Equal(len(stale.Leading()), 0)
	is.NoErr(polled(t.Context(), next))
	f.eachOnce(t, 30)
	is.Equal(f.told.Values(), []string{"t", "t"})
	is.Equal(f.reports.Len(), 0)
}

// The local deadline ends a term without the network.
func TestLook_3_1_LocalDeadline(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	f := newFixture(t)
	r, sub := f.receiver(t)
	l := f.leader(time.Hour)
	is.NoErr(l.Campaign(t.Context(), r, sub))
	f.publish(t, 5)
	l.term("t").deadline = time.Now().Add(-time.Millisecond)
	is.NoErr(polled(t.Context(), l))
	is.Equal(len(f.events(t)), 0)
	is.Equal(len(l.Leading()), 0)
}

// Renewing finds out too, and keeps what is held.
func TestRenew_3_1_DropsWhatIsLost(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	f := newFixture(t)
	r, sub := f.receiver(t)
	l := f.leader(time.Hour)
	is.NoErr(l.Campaign(t.Context(), r, sub))
	before := l.term("t").deadline
	is.NoErr(l.renew(t.Context()))
	is.True(l.term("t").deadline.After(before))
	f.overdue(t)
	is.NoErr(f.leader(time.Hour).Campaign(t.Context(), r, sub))
	is.NoErr(l.renew(t.Context()))
	is.Equal(len(l.Leading()), 0)
}

// A commit whose answer was lost may or may not have happened: the next look finds out.
func TestLook_3_2_UnknownCommit(t *testing.T) {
	t.Parallel()
	for _, happened := range []bool{true, false} {
		t.Run(fmt.Sprint("happened=", happened), func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			f := newFixture(t)
			r, sub := f.receiver(t)
			l := f.leader(time.Hour)
			is.NoErr(l.Campaign(t.Context(), r, sub))
			f.publish(t, 20)
			term := l.term("t")
			if happened { // the commit, but not what the leader does after it
				page, _, err := f.store.EventsAfter(t.Context(), "t", term.cursor, 10, true)
				is.NoErr(err)
				deliveries, to, _ := l.cut("t", page[:10], nil, store.V2, true, 10, true)
				is.NoErr(f.store.Materialize(t.Context(), term.lease, deliveries, to, bson.Timestamp{}))
			}
			term.uncertain = true // as after any error of Materialize
			for range 3 {
				is.NoErr(polled(t.Context(), l))
			}
			f.eachOnce(t, 20)
		})
	}
}

// An error is remembered as a doubt.
func TestLook_3_2_ErrorOfTheCommitLeavesADoubt(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	f := newFixture(t)
	r, sub := f.receiver(t)
	l := f.leader(time.Hour)
	is.NoErr(l.Campaign(t.Context(), r, sub))
	f.publish(t, 5)
	is.NoErr(polled(t.Context(), l))
	is.True(!l.term("t").uncertain)
	f.publish(t, 5)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	is.True(errors.Is(polled(ended, l), context.Canceled))
	is.NoErr(polled(t.Context(), l))
	f.eachOnce(t, 10)
}

// Events with IDs that are no text are passed over, and reported.
func TestLook_6_3_UnnamedEvents(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	f := newFixture(t)
	r, sub := f.receiver(t)
	l := f.leader(time.Hour)
	is.NoErr(l.Campaign(t.Context(), r, sub))
	f.publish(t, 3)
	for _, id := range []any{bson.NewObjectID(), 12, bson.D{{Key: "a", Value: 1}}} {
		_, err := f.db.Collection("p.events").InsertOne(t.Context(), bson.D{{Key: "_id", Value: id}, {Key: "topic", Value: "t"}, {Key: "sequence", Value: bson.Timestamp{}}})
		is.NoErr(err)
	}
	f.publish(t, 3)
	is.NoErr(polled(t.Context(), l))
	f.eachOnce(t, 6)
	is.Equal(f.reports.Len(), 1)
	is.True(strings.Contains(f.reports.Values()[0].Error(), "3 events are passed over"))
	is.NoErr(polled(t.Context(), l))
	is.Equal(f.reports.Len(), 1)
	f.publish(t, 1)
	is.NoErr(polled(t.Context(), l))
	f.eachOnce(t, 7)
	is.Equal(f.reports.Len(), 1)
}
