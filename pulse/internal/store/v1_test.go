package store_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/matryer/is"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/orionjs/orion-go/pulse/internal/delivery"
	"github.com/orionjs/orion-go/pulse/internal/store"
)

func history(db *mongo.Database) *mongo.Collection { return db.Collection(indexPrefix + ".history") }

// ofFormat makes single deliveries of a format.
func ofFormat(keys []store.EventKey, format store.Format) []store.NewDelivery {
	out := batches(keys, 1)
	for i := range out {
		out[i].Format = format
	}
	return out
}

// Leaders of different execution versions store the same events at the same time: whichever is first decides
// the format, each event has one delivery, and only those of version 1 have attempts in the history.
func TestMaterialize_4_11_RacingLeadersOfDifferentVersions(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s, db, sub := newStore(t)
	const n = 20
	for round := range 5 {
		page := keys(round*n, n)
		first := lead(t, s, sub, fmt.Sprint("one", round), time.Hour)
		overdue(t, db, sub)
		latter := lead(t, s, sub, fmt.Sprint("two", round), time.Hour)
		var both sync.WaitGroup
		errs := make([]error, 2)
		both.Go(func() {
			errs[0] = s.Materialize(t.Context(), first, ofFormat(page, store.V2), page[n-1].Position, bson.Timestamp{})
		})
		both.Go(func() {
			errs[1] = s.Materialize(t.Context(), latter, ofFormat(page, store.V1), page[n-1].Position, bson.Timestamp{})
		})
		both.Wait()
		is.True(errors.Is(errs[0], store.ErrLeaseLost)) // its term is over
		is.NoErr(errs[1])
		// The same leader again, in the other format, as after a lost answer.
		err := s.Materialize(t.Context(), latter, ofFormat(page, store.V2), page[n-1].Position, bson.Timestamp{})
		is.True(errors.Is(err, store.ErrDelivered))
		overdue(t, db, sub)
	}
	is.Equal(len(all(t, deliveries(db), bson.D{})), 5*n)
	is.Equal(len(all(t, deliveries(db), bson.D{{Key: "status", Value: "pending"}})), 5*n)
	is.Equal(len(all(t, history(db), bson.D{})), 5*n)
}

// pendingV1 stores n version 1 deliveries and reads their heads.
func pendingV1(t *testing.T, s *store.Store, sub store.Subscription, n int) []store.Head {
	t.Helper()
	is := is.New(t)
	page := keys(0, n)
	is.NoErr(s.Materialize(t.Context(), lead(t, s, sub, "leader", time.Hour), ofFormat(page, store.V1), page[n-1].Position, bson.Timestamp{}))
	heads, err := s.Heads(t.Context(), group, topic, n)
	is.NoErr(err)
	is.Equal(len(heads), n)
	for i, h := range heads {
		is.Equal(h.EventIDs[0], page[i].EventID) // in order
	}
	return heads
}

func settlementsV1(s *store.Store, heads []store.Head, token string) []store.Settlement {
	var out []store.Settlement
	for _, h := range heads {
		o := settlement(s, store.Lease{ID: h.ID, Token: token, Format: store.V1}, delivery.Succeeded)
		o.Attempt, o.DeliveryID, o.EventID, o.ConsumerGroup, o.Topic = 1, h.DeliveryID, h.EventIDs[0], group, topic
		out = append(out, o)
	}
	return out
}

// The outcomes of an order are stored as a whole or not at all, and of a claim only the first is started.
func TestSettleInOrder_4_9_AllOrNothing(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s, db, sub := newStore(t)
	heads := pendingV1(t, s, sub, 10)
	n, err := s.ClaimOrdered(t.Context(), heads, "go:a", "mine", time.Hour)
	is.NoErr(err)
	is.Equal(n, 10)
	is.Equal(len(all(t, history(db), bson.D{{Key: "startedAt", Value: bson.D{{Key: "$ne", Value: nil}}}})), 1)
	n, err = s.ClaimOrdered(t.Context(), heads, "go:b", "another's", time.Hour)
	is.NoErr(err)
	is.Equal(n, 0)

	next := store.Lease{ID: heads[3].ID, Token: "mine", Format: store.V1}
	stored, held, err := s.SettleInOrder(t.Context(), settlementsV1(s, heads[:3], "mine"), &next, time.Hour)
	is.NoErr(err)
	is.True(stored && held)
	is.Equal(len(all(t, deliveries(db), bson.D{{Key: "status", Value: "success"}})), 3)
	stored, held, err = s.SettleInOrder(t.Context(), settlementsV1(s, heads[:3], "mine"), &next, time.Hour)
	is.NoErr(err)
	is.True(stored && held) // once more after a lost answer

	_, err = history(db).UpdateByID(t.Context(), heads[6].ID, bson.D{{Key: "$set", Value: bson.D{{Key: "lockToken", Value: "another's"}}}})
	is.NoErr(err)
	stored, held, err = s.SettleInOrder(t.Context(), settlementsV1(s, heads[3:], "mine"), nil, time.Hour)
	is.NoErr(err)
	is.True(!stored && !held)
	is.Equal(len(all(t, deliveries(db), bson.D{{Key: "status", Value: "success"}})), 3)
	is.Equal(len(all(t, history(db), bson.D{{Key: "status", Value: "success"}})), 3)

	// The next one's lease is gone: what was done before is stored all the same, and the order is lost.
	gone := store.Lease{ID: heads[6].ID, Token: "mine", Format: store.V1}
	stored, held, err = s.SettleInOrder(t.Context(), settlementsV1(s, heads[3:6], "mine"), &gone, time.Hour)
	is.NoErr(err)
	is.True(stored && !held)
	is.Equal(len(all(t, deliveries(db), bson.D{{Key: "status", Value: "success"}})), 6)
}

// One of many takes the ordered lease, and only when it is free by the server's clock.
func TestAcquireOrdered_4_9_OneOfManyWins(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s, db, sub := newStore(t)
	var wins []string
	for _, token := range []string{"a", "b", "c"} {
		won, until, err := s.AcquireOrdered(t.Context(), store.Lease{ID: sub.ID, Token: token}, "go:"+token, time.Hour)
		is.NoErr(err)
		is.True(until.After(time.Now()))
		if won {
			wins = append(wins, token)
		}
	}
	is.Equal(wins, []string{"a"})
	is.NoErr(s.ReleaseOrdered(t.Context(), []store.Lease{{ID: sub.ID, Token: "b"}})) // not its to release
	held, err := s.RenewOrdered(t.Context(), []store.Lease{{ID: sub.ID, Token: "a"}}, time.Hour)
	is.NoErr(err)
	is.True(held[sub.ID])
	// What is no date is no lease.
	for _, hostile := range []any{"tomorrow", nil, bson.Timestamp{T: 1 << 31}, true} {
		_, err := subscriptions(db).UpdateByID(t.Context(), sub.ID, bson.D{{Key: "$set", Value: bson.D{{Key: "orderedLockedUntil", Value: hostile}}}})
		is.NoErr(err)
		won, _, err := s.AcquireOrdered(t.Context(), store.Lease{ID: sub.ID, Token: fmt.Sprint(hostile)}, "go:x", time.Hour)
		is.NoErr(err)
		is.True(won)
	}
}
