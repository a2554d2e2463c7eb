package store_test

import (
	"testing"
	"time"

	"github.com/matryer/is"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/orionjs/orion-go/pulse/internal/store"
)

// A lease that has ended, or that a document lacks, is an expired one, in both formats.
func TestBacklogs_CountsExpiredLeases(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s, db, sub := newStore(t)
	now := s.Now()
	insert := func(coll, id, status string, fields ...bson.E) {
		t.Helper()
		doc := append(bson.D{
			{Key: "_id", Value: id}, {Key: "eventId", Value: id}, {Key: "consumerGroup", Value: group}, {Key: "topic", Value: topic}, {Key: "status", Value: status},
		}, fields...)
		_, err := db.Collection(indexPrefix+"."+coll).InsertOne(t.Context(), doc)
		is.NoErr(err)
	}
	until := func(at time.Time) bson.E { return bson.E{Key: "lockedUntil", Value: at} }
	attempt := func(n int) bson.E { return bson.E{Key: "attempt", Value: n} }
	token := bson.E{Key: "lockToken", Value: "token"}
	of := func(delivery string) bson.E { return bson.E{Key: "deliveryId", Value: delivery} }

	insert("deliveries", "held", "v2-processing", until(now.Add(time.Hour)), token, attempt(1))
	insert("deliveries", "expired", "v2-processing", until(now.Add(-time.Hour)), token, attempt(1))
	insert("deliveries", "lacking", "v2-processing", attempt(1))
	insert("history", "a", "pending", attempt(1), of("d1"), until(now.Add(time.Hour)), token)
	insert("history", "b", "pending", attempt(1), of("d2"), until(now.Add(-time.Hour)), token)
	insert("history", "c", "pending", attempt(1), of("d3"))
	all, err := s.Backlogs(t.Context(), []store.Overview{{Subscription: sub}}, 100)
	is.NoErr(err)
	is.Equal(all[0].Processing, store.Count{N: 5})
	is.Equal(all[0].Expired, store.Count{N: 3})
	is.Equal(all[0].Pending, store.Count{N: 1})
	lower, err := s.Backlogs(t.Context(), []store.Overview{{Subscription: sub}}, 2)
	is.NoErr(err)
	is.True(lower[0].Expired.AtLeast)
}
