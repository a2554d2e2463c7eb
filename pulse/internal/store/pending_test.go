package store_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/matryer/is"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/orionjs/orion-go/pulse/internal/store"
)

// insertPending stores n events as a transaction would leave them, in another order than theirs.
func insertPending(t *testing.T, s *store.Store, n int) (ids []string) {
	t.Helper()
	is := is.New(t)
	docs := make([]bson.Raw, n)
	for i := range docs {
		id := fmt.Sprintf("e%05d", (i*7919)%n) // IDs say nothing about the order
		doc, err := store.Event{ID: id, Topic: fmt.Sprint("topic ", i%3), Data: bson.RawValue{Type: bson.TypeNull}}.PendingDocument(s.NextPending())
		is.NoErr(err)
		docs[i], ids = doc, append(ids, id)
	}
	shuffled := slices.Clone(docs)
	slices.Reverse(shuffled)
	is.NoErr(s.InsertPending(t.Context(), shuffled))
	return ids
}

// Many clients stamp at once: each event gets one sequence, in the order of their publication, for ever.
func TestStamp_3_5_ManyClientsStampEachEventOnceAndInOrder(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s, db, _ := newStore(t)
	ids := insertPending(t, s, 2500)
	news, err := s.News(t.Context(), nil)
	is.NoErr(err)
	is.True(news.Pending)

	var wait sync.WaitGroup
	for range 4 {
		wait.Go(func() {
			for {
				stamped, err := s.Stamp(t.Context())
				if err != nil {
					t.Error(err)
				}
				if err != nil || !stamped.More {
					return
				}
			}
		})
	}
	wait.Wait()
	news, err = s.News(t.Context(), nil)
	is.NoErr(err)
	is.True(!news.Pending)

	before := storedInOrder(t, db)
	is.Equal(len(before), len(ids))
	for i, doc := range before {
		is.Equal(doc.Lookup("topic").StringValue(), fmt.Sprint("topic ", slices.Index(ids, doc.Lookup("_id").StringValue())%3))
		is.Equal(doc.Lookup("pendingTopic").Type, bson.Type(0))
		is.Equal(doc.Lookup("pendingOrder").Type, bson.Type(0))
		is.Equal(doc.Lookup("_id").StringValue(), ids[i])
		if i > 0 {
			is.True(!doc.Lookup("sequence").Equal(before[i-1].Lookup("sequence"))) // unique
		}
	}
	stamped, err := s.Stamp(t.Context())
	is.NoErr(err)
	is.Equal(len(stamped.IDs), 0)
	after := storedInOrder(t, db)
	for i := range before {
		is.Equal(before[i].String(), after[i].String()) // nothing is stamped twice
	}
}

// The order of publication is kept, whatever the IDs.
func TestStamp_3_5_KeepsTheOrderOfPublication(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s, db, _ := newStore(t)
	ids := insertPending(t, s, 900)
	stamped, err := s.Stamp(t.Context())
	is.NoErr(err)
	is.Equal(stamped.IDs, ids)
	is.Equal(len(stamped.Topics), 3)
	var got []string
	for _, doc := range storedInOrder(t, db) {
		got = append(got, doc.Lookup("_id").StringValue())
	}
	is.Equal(got, ids)
}

// Payloads are moved in portions.
func TestStamp_3_5_LargeEvents(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s, db, _ := newStore(t)
	for i := range 3 {
		value := bson.RawValue{}
		var err error
		value.Type, value.Value, err = bson.MarshalValue(make([]byte, 9<<20))
		is.NoErr(err)
		doc, err := store.Event{ID: fmt.Sprint(i), Topic: "t", Data: value}.PendingDocument(s.NextPending())
		is.NoErr(err)
		is.NoErr(s.InsertPending(t.Context(), []bson.Raw{doc}))
	}
	stamped, err := s.Stamp(t.Context())
	is.NoErr(err)
	is.Equal(stamped.IDs, []string{"0", "1", "2"})
	is.Equal(len(storedInOrder(t, db)), 3)
}

// What the server refuses to replace is passed over, told of and put off; those behind it are stamped, also when there
// are as many refused ones as a round looks at.
func TestStamp_6_3_RefusedDocuments(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s, db, _ := newStore(t)
	store.SetStampPage(s, 5)
	now := s.Now()
	created := map[string]time.Time{"a": now, "b": now.Add(-10 * time.Minute), "c": now.Add(-time.Hour), "d": now.Add(-240 * time.Hour), "e": {}}
	for id, at := range created {
		_, err := events(db).InsertOne(t.Context(), bson.D{{Key: "_id", Value: id}, {Key: "pendingTopic", Value: "t"}, {Key: "pendingOrder", Value: int64(1)}, {Key: "$bad", Value: 1}, {Key: "createdAt", Value: at}})
		is.NoErr(err)
	}
	ids := insertPending(t, s, 8)
	var refused, rounds int
	for more := true; more; rounds++ {
		stamped, err := s.Stamp(t.Context())
		is.NoErr(err)
		refused += len(stamped.Refused)
		more = stamped.More
		if rounds == 0 { // when the first is tried again
			is.True(!stamped.Next.Before(now.Add(time.Second)) && stamped.Next.Before(now.Add(time.Minute)))
		}
	}
	is.Equal(refused, 5)
	is.Equal(rounds, 3)
	is.Equal(len(storedInOrder(t, db)), len(ids))
	for id, at := range created { // put off for as long as they have been overdue, within bounds
		topic := byID(t, events(db), id).Lookup("topic").Time()
		want := min(max(now.Sub(at), time.Second), time.Hour)
		is.True(!topic.Before(now.Add(want).Truncate(time.Millisecond)))
		is.True(id == "a" || topic.Before(s.Now().Add(time.Hour+time.Millisecond)))
	}
	news, err := s.News(t.Context(), nil)
	is.NoErr(err)
	is.True(!news.Pending)
}

// Documents that no client writes are stamped where that makes sense, and hold up nobody else.
func TestStamp_6_3_HostileDocuments(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s, db, _ := newStore(t)
	docs := []any{
		bson.D{{Key: "_id", Value: bson.NewObjectID()}, {Key: "pendingTopic", Value: "t"}},
		bson.D{{Key: "_id", Value: "number"}, {Key: "pendingTopic", Value: 5}},
		bson.D{{Key: "_id", Value: "both"}, {Key: "topic", Value: "t"}, {Key: "pendingTopic", Value: "t"}},
		bson.D{{Key: "_id", Value: "numbered"}, {Key: "sequence", Value: bson.Timestamp{T: 1, I: 1}}, {Key: "pendingTopic", Value: "t"}},
		bson.D{{Key: "_id", Value: "nothing"}},
		bson.D{{Key: "_id", Value: "nulls"}, {Key: "topic", Value: nil}, {Key: "sequence", Value: nil}, {Key: "pendingTopic", Value: "t"}},
		bson.D{{Key: "_id", Value: "odd order"}, {Key: "pendingTopic", Value: "t"}, {Key: "pendingOrder", Value: "first"}},
	}
	_, err := events(db).InsertMany(t.Context(), docs)
	is.NoErr(err)
	ids := insertPending(t, s, 3)
	stamped, err := s.Stamp(t.Context())
	is.NoErr(err)
	slices.Sort(stamped.IDs)
	want := append([]string{"nulls", "odd order"}, ids...)
	slices.Sort(want)
	is.Equal(stamped.IDs, want)
	is.Equal(byID(t, events(db), "nulls").Lookup("sequence").Type, bson.TypeTimestamp)
	is.Equal(byID(t, events(db), "nulls").Lookup("topic").StringValue(), "t")
	news, err := s.News(t.Context(), nil)
	is.NoErr(err)
	is.True(!news.Pending)
}

func storedInOrder(t *testing.T, db *mongo.Database) []bson.Raw {
	t.Helper()
	cursor, err := events(db).Find(context.Background(), bson.D{{Key: "sequence", Value: bson.D{{Key: "$gt", Value: bson.Timestamp{T: 2}}}}},
		options.Find().SetSort(bson.D{{Key: "sequence", Value: 1}}))
	is.New(t).NoErr(err)
	var docs []bson.Raw
	is.New(t).NoErr(cursor.All(context.Background(), &docs))
	return docs
}
