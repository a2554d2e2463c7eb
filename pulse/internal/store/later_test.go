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

// What cannot be stamped when it is due, since somebody has changed it by hand or the server refuses it, does not hide
// what can, also when there is as much of it as a round looks at.
func TestStampDue_9_1_6_3_NothingHidesTheOthers(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s, db, _ := newStore(t)
	store.SetStampPage(s, 6)
	due := s.Now().Add(-time.Hour)
	later := s.Now().Add(time.Hour).Truncate(time.Millisecond).UTC()
	insert := func(id string, more ...bson.E) {
		doc := append(bson.D{{Key: "_id", Value: id}, {Key: "topic", Value: due}, {Key: "createdAt", Value: due}}, more...)
		_, err := events(db).InsertOne(t.Context(), doc)
		is.NoErr(err)
	}
	pendingTopic := bson.E{Key: "pendingTopic", Value: "t"}
	for i := range 6 {
		insert(fmt.Sprint("postponed ", i), pendingTopic, bson.E{Key: "notBefore", Value: later})
		insert(fmt.Sprint("refused ", i), pendingTopic, bson.E{Key: "notBefore", Value: due}, bson.E{Key: "$bad", Value: 1})
		insert(fmt.Sprint("for nobody ", i), bson.E{Key: "notBefore", Value: due})
		insert(fmt.Sprint("numbered ", i), pendingTopic, bson.E{Key: "notBefore", Value: due}, bson.E{Key: "sequence", Value: bson.Timestamp{T: 1, I: 1}})
		insert(fmt.Sprint("without its time ", i), pendingTopic, bson.E{Key: "notBefore", Value: "soon"})
	}
	insertWaiting(t, s, "good", due.Add(time.Minute))

	var got []string
	refused := 0
	for more := true; more; {
		stamped, err := s.StampDue(t.Context(), time.Minute)
		is.NoErr(err)
		got, refused, more = append(got, stamped.IDs...), refused+len(stamped.Refused), stamped.More
	}
	is.True(slices.Contains(got, "good"))
	is.Equal(refused, 6)
	stored, err := s.Events(t.Context(), []string{"good", "without its time 0", "without its time 5"})
	is.NoErr(err)
	for _, e := range stored {
		is.Equal(byID(t, events(db), e.ID).Lookup("topic").StringValue(), "t") // the date in its topic is its time
	}
	for i := range 6 {
		is.Equal(byID(t, events(db), fmt.Sprint("postponed ", i)).Lookup("topic").Time().UTC(), later)
		is.True(byID(t, events(db), fmt.Sprint("refused ", i)).Lookup("topic").Time().After(later.Add(-time.Minute)))
	}
	first, err := s.NextDue(t.Context(), 0)
	is.NoErr(err)
	is.True(first.IsZero()) // and no poll asks for another look
}
