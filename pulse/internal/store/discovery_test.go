package store_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/matryer/is"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/orionjs/orion-go/pulse/internal/delivery"
	"github.com/orionjs/orion-go/pulse/internal/store"
)

func TestAcquireDiscovery_3_1_OneOfManyWins(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s, db, sub := newStore(t)
	for range 3 {
		var won atomic.Int32
		var clients sync.WaitGroup
		for range 10 {
			clients.Go(func() {
				_, ok, err := s.AcquireDiscovery(t.Context(), store.Lease{ID: sub.ID, Token: uuid.NewString()}, "go:x", time.Hour)
				if err != nil {
					t.Error(err)
				}
				if ok {
					won.Add(1)
				}
			})
		}
		clients.Wait()
		is.Equal(won.Load(), int32(1))
		overdue(t, db, sub)
	}
}

// Whatever is no date in the future is no lease.
func TestAcquireDiscovery_6_3_HostileLeases(t *testing.T) {
	t.Parallel()
	s, db, sub := newStore(t)
	for _, value := range []any{nil, "soon", 17, true, bson.Timestamp{T: 4_000_000_000}, bson.NewObjectID(), bson.D{}, time.Now().Add(-time.Second)} {
		_, err := subscriptions(db).UpdateByID(t.Context(), sub.ID, bson.D{{Key: "$set", Value: bson.D{{Key: "discoveryLockedUntil", Value: value}}}})
		is.New(t).NoErr(err)
		t.Logf("%v", value)
		lead(t, s, sub, uuid.NewString(), time.Hour)
	}
}

func TestDiscoveryLease_3_1_RenewAndReleaseAreFenced(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s, db, sub := newStore(t)
	mine := lead(t, s, sub, "mine", time.Hour)
	old := store.Lease{ID: sub.ID, Token: "old"}
	before := byID(t, subscriptions(db), sub.ID)

	held, err := s.RenewDiscovery(t.Context(), []store.Lease{old}, 2*time.Hour)
	is.NoErr(err)
	is.True(!held[sub.ID])
	is.NoErr(s.ReleaseDiscovery(t.Context(), []store.Lease{old}))
	is.Equal(byID(t, subscriptions(db), sub.ID), before) // neither wrote anything

	held, err = s.RenewDiscovery(t.Context(), []store.Lease{mine}, 2*time.Hour)
	is.NoErr(err)
	is.True(held[sub.ID])
	until := func() time.Time { return byID(t, subscriptions(db), sub.ID).Lookup("discoveryLockedUntil").Time() }
	is.True(until().After(before.Lookup("discoveryLockedUntil").Time()))
	is.NoErr(s.ReleaseDiscovery(t.Context(), []store.Lease{mine}))
	is.True(!until().After(s.Now().Add(time.Second)))
	is.Equal(byID(t, subscriptions(db), sub.ID).Lookup("discoveryLockOwner").StringValue(), "go:mine")
	lead(t, s, sub, "next", time.Hour)
}

func TestMaterialize_3_1_OldTokenWritesNothing(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s, db, sub := newStore(t)
	old := lead(t, s, sub, "old", time.Hour)
	overdue(t, db, sub)
	lead(t, s, sub, "new", time.Hour)
	before := byID(t, subscriptions(db), sub.ID)
	page := keys(0, 25)
	for _, size := range []int{1, 10} {
		is.True(errors.Is(s.Materialize(t.Context(), old, batches(page, size), page[24].Position, bson.Timestamp{}), store.ErrLeaseLost))
	}
	is.Equal(len(all(t, deliveries(db), bson.D{})), 0)
	is.Equal(byID(t, subscriptions(db), sub.ID), before)
}

func TestMaterialize_3_2_DuplicateWritesNothing(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s, db, sub := newStore(t)
	lease := lead(t, s, sub, "mine", time.Hour)
	page := keys(0, 10)
	is.NoErr(s.Materialize(t.Context(), lease, batches(page[6:7], 1), store.Beginning, bson.Timestamp{}))
	before, one := byID(t, subscriptions(db), sub.ID), all(t, deliveries(db), bson.D{})
	is.True(errors.Is(s.Materialize(t.Context(), lease, batches(page, 1), page[9].Position, bson.Timestamp{}), store.ErrDelivered))
	is.Equal(byID(t, subscriptions(db), sub.ID), before)
	is.Equal(all(t, deliveries(db), bson.D{}), one)
}

// A leader materializes while its lease ends and another one takes over and does the same, in batches whose
// unique keys would not show an overlap. Whichever commits first, each event is in one delivery.
func TestMaterialize_3_3_TakeoverInFlight(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s, db, sub := newStore(t)
	const rounds, size = 25, 6
	lost := 0
	for round := range rounds {
		page := keys(round*size, size)
		to := page[size-1].Position
		old := lead(t, s, sub, fmt.Sprint("old", round), time.Hour)
		var both sync.WaitGroup
		var first error
		both.Go(func() {
			first = s.Materialize(t.Context(), old, batches(page, 4), to, bson.Timestamp{})
		})
		overdue(t, db, sub)
		current, won, err := s.AcquireDiscovery(t.Context(), store.Lease{ID: sub.ID, Token: fmt.Sprint("new", round)}, "go:new", time.Hour)
		is.NoErr(err)
		is.True(won)
		rest := slices.DeleteFunc(slices.Clone(page), func(k store.EventKey) bool { return !k.After(current.Cursor) })
		if len(rest) > 0 {
			is.NoErr(s.Materialize(t.Context(), store.Lease{ID: sub.ID, Token: fmt.Sprint("new", round)}, batches(rest, 5), to, bson.Timestamp{}))
		}
		both.Wait()
		if errors.Is(first, store.ErrLeaseLost) {
			lost++
		} else {
			is.NoErr(first)
		}
		overdue(t, db, sub)
	}
	t.Logf("the old leader lost %d of %d", lost, rounds)
	seen := map[string]int{}
	for _, d := range all(t, deliveries(db), bson.D{}) {
		values, _ := d.Lookup("eventIds").Array().Values()
		for _, v := range values {
			seen[v.StringValue()]++
		}
	}
	is.Equal(len(seen), rounds*size)
	for id, n := range seen {
		if n != 1 {
			t.Errorf("event %s is in %d deliveries", id, n)
		}
	}
}

func TestDelivered_3_2_AllStatesAndBatches(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s, db, _ := newStore(t)
	page := keys(0, 12)
	var want []string
	for i, status := range delivery.Statuses {
		doc := bson.D{
			{Key: "_id", Value: uuid.NewString()},
			{Key: "consumerGroup", Value: group},
			{Key: "topic", Value: topic},
			{Key: "eventId", Value: page[i+3].EventID},
			{Key: "eventSequence", Value: page[i+3].Sequence},
			{Key: "status", Value: status},
		}
		_, err := deliveries(db).InsertOne(t.Context(), doc)
		is.NoErr(err)
		want = append(want, page[i+3].EventID)
	}
	is.Equal(len(want), 7)
	_, err := deliveries(db).InsertOne(t.Context(), bson.D{
		{Key: "_id", Value: uuid.NewString()},
		{Key: "consumerGroup", Value: group},
		{Key: "topic", Value: topic},
		{Key: "eventId", Value: page[11].EventID},
		{Key: "eventIds", Value: bson.A{page[10].EventID, page[11].EventID}},
		{Key: "eventSequence", Value: page[11].Sequence},
		{Key: "status", Value: delivery.StatusPending},
	})
	is.NoErr(err)
	want = append(want, page[10].EventID, page[11].EventID)
	found, err := s.Delivered(t.Context(), group, topic, page[0].Sequence, nil)
	is.NoErr(err)
	is.Equal(len(found), len(want))
	for _, id := range want {
		is.True(found[id])
	}
	// Behind the cursor only those that are asked for.
	found, err = s.Delivered(t.Context(), group, topic, page[11].Sequence, []string{page[3].EventID, page[2].EventID})
	is.NoErr(err)
	is.Equal(found, map[string]bool{page[10].EventID: true, page[11].EventID: true, page[3].EventID: true})
}

// Paging by EventsAfter sees each event once, in order, whatever the ties; a page is full while there are
// enough events.
func TestEventsAfter_3_2_PagesAreCompleteAndFull(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s, db, _ := newStore(t)
	var docs []bson.D
	var want []store.Position
	for i := range 700 {
		sequence := bson.Timestamp{T: uint32(100 + rand.IntN(40)), I: 1} // some
		if i%2 == 0 {
			sequence = bson.Timestamp{T: 120, I: 1} // many
		}
		id := uuid.NewString()
		want = append(want, store.Position{Sequence: sequence, EventID: id})
		docs = append(docs, bson.D{{Key: "_id", Value: id}, {Key: "topic", Value: topic}, {Key: "sequence", Value: sequence}})
	}
	// Not to be seen: without a usable sequence, of another topic.
	for _, sequence := range []any{nil, "120", 120, time.Now()} {
		docs = append(docs, bson.D{{Key: "_id", Value: uuid.NewString()}, {Key: "topic", Value: topic}, {Key: "sequence", Value: sequence}})
	}
	docs = append(docs, bson.D{{Key: "_id", Value: "other"}, {Key: "topic", Value: "other"}, {Key: "sequence", Value: bson.Timestamp{T: 120, I: 1}}})
	_, err := events(db).InsertMany(t.Context(), docs)
	is.NoErr(err)
	slices.SortFunc(want, func(a, b store.Position) int {
		if a.After(b) {
			return 1
		}
		return -1
	})
	for _, limit := range []int{17, 64, 699, 700, 5000} {
		for _, sized := range []bool{false, true} {
			var got []store.Position
			at := store.Beginning
			for more := true; more; {
				var page []store.EventKey
				page, more, err = s.EventsAfter(t.Context(), topic, at, limit, sized)
				is.NoErr(err)
				if len(page) < limit {
					is.Equal(len(got)+len(page), len(want)) // only the last page may be short
				}
				if len(page) == 0 {
					break
				}
				// As a leader that cuts batches, go on from within the page.
				page = page[:min(limit, len(page))]
				for _, k := range page {
					got = append(got, k.Position)
					is.True(!sized || k.Size > 0)
				}
				at = got[len(got)-1]
				more = more || len(got) < len(want)
			}
			is.Equal(got, want)
		}
	}
}

func TestNews_3_4_ManyTopics(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s, db, _ := newStore(t)
	cursors := map[string]store.Position{}
	var want []string
	var docs []any
	for i := range 130 { // more than one command's worth
		name := fmt.Sprintf("topic %03d", i)
		sequence := bson.Timestamp{T: 500, I: 1}
		cursors[name] = store.Position{Sequence: sequence, EventID: "e" + name}
		docs = append(docs, bson.D{{Key: "_id", Value: "e" + name}, {Key: "topic", Value: name}, {Key: "sequence", Value: sequence}})
		switch i % 3 {
		case 0: // behind the cursor
			docs = append(docs, bson.D{{Key: "_id", Value: "a" + name}, {Key: "topic", Value: name}, {Key: "sequence", Value: bson.Timestamp{T: 400, I: 1}}})
		case 1: // a tie behind it in the order
			docs = append(docs, bson.D{{Key: "_id", Value: "f" + name}, {Key: "topic", Value: name}, {Key: "sequence", Value: sequence}})
			want = append(want, name)
		case 2:
			docs = append(docs, bson.D{{Key: "_id", Value: "n" + name}, {Key: "topic", Value: name}, {Key: "sequence", Value: bson.Timestamp{T: 501, I: 1}}})
			want = append(want, name)
		}
	}
	_, err := events(db).InsertMany(t.Context(), docs)
	is.NoErr(err)
	got, err := s.News(t.Context(), cursors)
	is.NoErr(err)
	slices.Sort(got.Topics)
	is.Equal(got.Topics, want)
	is.True(!got.Pending)
}

// A caller's session must not carry leases and cursors into its transaction.
func TestStore_1_4_StaysOutOfTheCallersTransaction(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s, db, sub := newStore(t)
	session, err := db.Client().StartSession()
	is.NoErr(err)
	defer session.EndSession(context.WithoutCancel(t.Context()))
	abort := errors.New("abort")
	_, err = session.WithTransaction(t.Context(), func(ctx context.Context) (any, error) {
		_, won, err := s.AcquireDiscovery(ctx, store.Lease{ID: sub.ID, Token: "kept"}, "go:x", time.Hour)
		is.NoErr(err)
		is.True(won)
		return nil, abort
	})
	is.Equal(err, abort)
	is.Equal(byID(t, subscriptions(db), sub.ID).Lookup("discoveryLockToken").StringValue(), "kept")
}

// A delivery that is stored as claimed has the fields, and their types, of one that was claimed later, and its lease
// is of the server's time.
func TestMaterialize_4_10_ClaimedAtBirthAsByAClaim(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s, db, sub := newStore(t)
	lease := lead(t, s, sub, "leader", time.Hour)
	page := keys(0, 2)
	made := batches(page, 1)
	made[0].Lock = &store.Lock{Owner: "go:me", Token: "born", Lease: time.Minute}
	is.NoErr(s.Materialize(t.Context(), lease, made, page[1].Position, bson.Timestamp{}))
	later, _, _, err := s.Candidates(t.Context(), group, topic, store.V2, 10)
	is.NoErr(err)
	is.Equal(len(later), 1)
	won, err := s.Claim(t.Context(), later, "go:me", "later", time.Minute)
	is.NoErr(err)
	is.Equal(len(won), 1)
	born, claimed := byID(t, deliveries(db), made[0].Candidate().ID), byID(t, deliveries(db), won[0].ID)
	types := func(doc bson.Raw) map[string]bson.Type {
		out := map[string]bson.Type{}
		elements, err := doc.Elements()
		is.NoErr(err)
		for _, e := range elements {
			out[e.Key()] = e.Value().Type
		}
		return out
	}
	is.Equal(types(born), types(claimed))
	for _, field := range []string{"status", "attempt", "lockOwner"} {
		is.Equal(born.Lookup(field), claimed.Lookup(field))
	}
	is.Equal(born.Lookup("lockedUntil").Time().Sub(born.Lookup("lockedAt").Time()), time.Minute)
	is.Equal(born.Lookup("lockedAt"), byID(t, subscriptions(db), sub.ID).Lookup("updatedAt")) // which the server has set
	won, err = s.Claimed(t.Context(), []store.Candidate{made[0].Candidate()}, "born")
	is.NoErr(err)
	is.Equal(len(won), 1)
}
