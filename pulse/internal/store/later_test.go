package store_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/matryer/is"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/orionjs/orion-go/pulse/internal/store"
)

// insertWaiting stores an event that is published for a later time.
func insertWaiting(t *testing.T, s *store.Store, id string, notBefore time.Time) {
	t.Helper()
	doc, err := store.Event{ID: id, Topic: "t", Data: bson.RawValue{Type: bson.TypeNull}, NotBefore: notBefore}.PendingDocument(s.NextPending())
	is.New(t).NoErr(err)
	is.New(t).NoErr(s.InsertEvent(t.Context(), doc))
}

func TestStampDue_9_1_OnlyWhatIsDueInTheOrderOfItsTime(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s, db, _ := newStore(t)
	now := s.Now()
	insertWaiting(t, s, "c", now.Add(-time.Second))
	insertWaiting(t, s, "b", now.Add(-time.Hour))
	insertWaiting(t, s, "d", now.Add(-time.Second)) // after c, which was published before
	insertWaiting(t, s, "a", now.Add(-time.Second))
	next := now.Add(time.Hour)
	insertWaiting(t, s, "later", next)
	insertWaiting(t, s, "much later", next.Add(time.Hour))
	insertPending(t, s, 1)

	first, err := s.NextDue(t.Context(), time.Minute)
	is.NoErr(err)
	is.True(first.Equal(now.Add(-time.Hour)))
	stamped, err := s.StampDue(t.Context(), time.Minute)
	is.NoErr(err)
	is.Equal(stamped.IDs, []string{"b", "c", "d", "a"})
	is.Equal(stamped.Topics, []string{"t"})
	is.True(stamped.Next.IsZero()) // not within the horizon
	is.True(!stamped.More)

	before := storedInOrder(t, db)
	var got []string
	for _, doc := range before {
		got = append(got, doc.Lookup("_id").StringValue())
		is.Equal(doc.Lookup("topic").StringValue(), "t")
		is.Equal(doc.Lookup("pendingTopic").Type, bson.Type(0))
		is.Equal(doc.Lookup("pendingOrder").Type, bson.Type(0))
	}
	is.Equal(got, stamped.IDs) // the event of a transaction has its own way

	stamped, err = s.StampDue(t.Context(), 2*time.Hour)
	is.NoErr(err)
	is.Equal(len(stamped.IDs), 0)
	is.True(stamped.Next.Equal(next))
	first, err = s.NextDue(t.Context(), time.Minute)
	is.NoErr(err)
	is.True(first.IsZero())
	news, err := s.News(t.Context(), nil)
	is.NoErr(err)
	is.True(news.Pending)
	other, err := s.Stamp(t.Context())
	is.NoErr(err)
	is.Equal(other.IDs, []string{"e00000"}) // and takes none that waits for its time with it
}

// A client whose idea of the server's clock is ahead publishes nothing too early, and looks again soon.
func TestStampDue_9_1_TheServersClockDecides(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s, _, _ := newStore(t)
	insertWaiting(t, s, "a", s.Now().Add(time.Hour))
	store.MoveClock(s, 2*time.Hour)
	stamped, err := s.StampDue(t.Context(), time.Minute)
	is.NoErr(err)
	is.Equal(len(stamped.IDs), 0)
	is.True(stamped.Early)
	is.True(stamped.Next.IsZero())
	stored, err := s.Events(t.Context(), []string{"a"})
	is.NoErr(err)
	is.Equal(stored["a"].Topic, "t")
	cancelled, err := s.Unpublish(t.Context(), "a")
	is.NoErr(err)
	is.True(cancelled) // it waits still
}

// Many clients look at once while others cancel: each event is stamped once, or deleted, and never both.
func TestStampDue_9_1_OneOfManyWins(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s, db, _ := newStore(t)
	const n = 600
	due := s.Now().Add(-time.Second)
	docs := make([]bson.Raw, n)
	for i := range docs {
		var err error
		docs[i], err = store.Event{ID: fmt.Sprintf("e%05d", i), Topic: "t", Data: bson.RawValue{Type: bson.TypeNull}, NotBefore: due}.PendingDocument(s.NextPending())
		is.NoErr(err)
	}
	is.NoErr(s.InsertPending(t.Context(), docs))
	var wait sync.WaitGroup
	var mu sync.Mutex
	var cancelled []string
	for range 3 {
		wait.Go(func() {
			if _, err := s.StampDue(t.Context(), 0); err != nil {
				t.Error(err)
			}
		})
	}
	for at := range 2 {
		wait.Go(func() {
			for i := n - 1 - at; i >= 0; i -= 2 {
				id := fmt.Sprintf("e%05d", i)
				done, err := s.Unpublish(t.Context(), id)
				if err != nil {
					t.Error(err)
				}
				if done {
					mu.Lock()
					cancelled = append(cancelled, id)
					mu.Unlock()
				}
			}
		})
	}
	wait.Wait()
	_, err := s.StampDue(t.Context(), 0)
	is.NoErr(err)
	left := storedInOrder(t, db)
	is.Equal(len(left)+len(cancelled), n)
	for i, doc := range left {
		id := doc.Lookup("_id").StringValue()
		is.Equal(doc.Lookup("topic").StringValue(), "t")
		is.True(!slices.Contains(cancelled, id))
		is.True(i == 0 || id > left[i-1].Lookup("_id").StringValue()) // in the order of publication
	}
	again, err := s.Unpublish(t.Context(), "e00000")
	is.NoErr(err)
	is.True(!again) // stamped or deleted
}
