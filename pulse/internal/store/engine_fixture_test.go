package store_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/matryer/is"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/orionjs/orion-go/pulse/internal/delivery"
	"github.com/orionjs/orion-go/pulse/internal/store"
	"github.com/orionjs/orion-go/pulse/pulsetest"
)

// The group and topic of the tests.
const (
	group = "billing"
	topic = "order.created"
)

var batchSettings = store.Settings{
	ExecutionVersion: 2, OffsetReset: store.OffsetEarliest, Delivery: store.AtLeastOnce, MaxRetries: 3,
	RetryDelay: time.Second, Multiplier: 2, ReceiverMode: store.ModeBatch, BatchSize: 10,
}

// newStore returns a store in a database of its own, with a subscription of the group to the topic.
func newStore(t *testing.T) (*store.Store, *mongo.Database, store.Subscription) {
	t.Helper()
	is := is.New(t)
	db := pulsetest.Database(t)
	s := store.New(db, indexPrefix)
	is.NoErr(s.Detect(t.Context()))
	_, err := s.EnsureIndexes(t.Context())
	is.NoErr(err)
	sub, err := s.EnsureSubscription(t.Context(), group, topic, batchSettings)
	is.NoErr(err)
	return s, db, sub
}

func deliveries(db *mongo.Database) *mongo.Collection {
	return db.Collection(indexPrefix + ".deliveries")
}

func subscriptions(db *mongo.Database) *mongo.Collection {
	return db.Collection(indexPrefix + ".subscriptions")
}
func events(db *mongo.Database) *mongo.Collection { return db.Collection(indexPrefix + ".events") }

// all reads a collection in the order of the IDs.
func all(t *testing.T, coll *mongo.Collection, filter any) []bson.Raw {
	t.Helper()
	cursor, err := coll.Find(t.Context(), filter)
	is := is.New(t)
	is.NoErr(err)
	var docs []bson.Raw
	is.NoErr(cursor.All(t.Context(), &docs))
	return docs
}

// byID reads one document.
func byID(t *testing.T, coll *mongo.Collection, id any) bson.Raw {
	t.Helper()
	raw, err := coll.FindOne(t.Context(), bson.D{{Key: "_id", Value: id}}).Raw()
	is.New(t).NoErr(err)
	return raw
}

// keys are n event keys behind one another, beginning at first.
func keys(first, n int) []store.EventKey {
	out := make([]store.EventKey, n)
	for i := range out {
		out[i] = store.EventKey{
			Position:    store.Position{Sequence: bson.Timestamp{T: uint32(1000 + first + i), I: 1}, EventID: fmt.Sprintf("e%04d", first+i)},
			PublishedAt: time.Now(),
		}
	}
	return out
}

// batches cuts keys into deliveries.
func batches(keys []store.EventKey, size int) []store.NewDelivery {
	var out []store.NewDelivery
	for len(keys) > 0 {
		n := min(size, len(keys))
		out = append(out, store.NewDelivery{ConsumerGroup: group, Topic: topic, Events: keys[:n], Batch: size > 1})
		keys = keys[n:]
	}
	return out
}

// lead takes the discovery lease.
func lead(t *testing.T, s *store.Store, sub store.Subscription, token string, d time.Duration) store.Lease {
	t.Helper()
	is := is.New(t)
	lease := store.Lease{ID: sub.ID, Token: token}
	_, won, err := s.AcquireDiscovery(t.Context(), lease, "go:"+token, d)
	is.NoErr(err)
	is.True(won)
	return lease
}

// overdue ends a lease in the database.
func overdue(t *testing.T, db *mongo.Database, sub store.Subscription) {
	t.Helper()
	_, err := subscriptions(db).UpdateByID(t.Context(), sub.ID, bson.D{{Key: "$set", Value: bson.D{{Key: "discoveryLockedUntil", Value: time.Now().Add(-time.Hour)}}}})
	is.New(t).NoErr(err)
}

// pending stores n single deliveries that are due, and reads them as candidates.
func pending(t *testing.T, s *store.Store, db *mongo.Database, sub store.Subscription, n int) []store.Candidate {
	t.Helper()
	is := is.New(t)
	lease := lead(t, s, sub, "leader", time.Hour)
	page := keys(0, n)
	is.NoErr(s.Materialize(t.Context(), lease, batches(page, 1), page[n-1].Position, bson.Timestamp{}))
	candidates, malformed, _, err := s.Candidates(t.Context(), group, topic, store.V2, n+1)
	is.NoErr(err)
	is.Equal(len(malformed), 0)
	is.Equal(len(candidates), n)
	return candidates
}

// claim claims candidates under a token.
func claim(t *testing.T, s *store.Store, candidates []store.Candidate, token string) []store.Lease {
	t.Helper()
	is := is.New(t)
	won, err := s.Claim(t.Context(), candidates, "go:"+token, token, time.Hour)
	is.NoErr(err)
	is.Equal(len(won), len(candidates))
	leases := make([]store.Lease, len(won))
	for i, c := range won {
		leases[i] = store.Lease{ID: c.ID, Token: token}
	}
	return leases
}

// settlement is an outcome of a lease.
func settlement(s *store.Store, lease store.Lease, verdict delivery.Verdict) store.Settlement {
	now := s.Now()
	o := store.Settlement{Lease: lease, Verdict: verdict, StartedAt: now, EndedAt: now.Add(time.Millisecond)}
	if verdict != delivery.Succeeded {
		o.Failure = &delivery.Failure{Code: delivery.CodeHandlerError, Name: "error", Message: "boom"}
	}
	return o
}

func status(d bson.Raw) string { return d.Lookup("status").StringValue() }
