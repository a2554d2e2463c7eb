package store

import (
	"context"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/orionjs/orion-go/pulse/internal/delivery"
)

// Version 1: the attempt's document is what is claimed, renewed and ended; it stays "pending" while it
// runs, and has a lock. Its states are those of the delivery, so their names serve for both.

// candidatesV1 reads attempts that are due and not claimed. The delivery's state is looked at when the
// attempt is about to run.
func (s *Store) candidatesV1(ctx context.Context, group, topic string, limit int) ([]Candidate, int, error) {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	cursor, err := s.history.Find(ctx,
		bson.D{
			{Key: "consumerGroup", Value: group},
			{Key: "topic", Value: topic},
			{Key: "status", Value: delivery.StatusV1Pending},
			{Key: "nextAttemptAt", Value: bson.D{{Key: "$lte", Value: s.Now()}}},
			{Key: "lockToken", Value: nil},
		},
		options.Find().SetLimit(int64(limit)).SetBatchSize(int32(limit)).SetProjection(bson.D{
			{Key: "deliveryId", Value: 1}, {Key: "eventId", Value: 1}, {Key: "attempt", Value: 1}, {Key: "granted.at", Value: 1},
		}))
	all, err := readAll(ctx, cursor, err, readCandidateV1)
	if err != nil {
		return nil, 0, err
	}
	due := all[:0:0]
	for _, c := range all {
		if c.ID != "" && c.DeliveryID != "" && c.Attempts >= 0 && len(c.EventIDs) > 0 {
			due = append(due, c)
		}
	}
	return due, len(all), nil
}

func readCandidateV1(raw bson.Raw) Candidate {
	f := parse(raw)
	attempt, _ := f.int("attempt")
	return Candidate{
		Format: V1, ID: f.str("_id"), DeliveryID: f.str("deliveryId"),
		Attempts: attempt - 1, EventIDs: eventIDs(f), Granted: f.has("granted"),
	}
}

// claimV1 locks attempts that are still free, and returns how many.
func (s *Store) claimV1(ctx context.Context, ids []string, owner, token string, lease time.Duration) (int64, error) {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	res, err := s.history.UpdateMany(ctx, freeV1(ids), pipelineSet(lockSet(owner, token, lease)))
	if err != nil {
		return 0, err
	}
	return res.ModifiedCount, nil
}

// lockSet is the part of an update that locks a document under a token.
func lockSet(owner, token string, lease time.Duration) bson.D {
	return bson.D{
		{Key: "startedAt", Value: "$$NOW"},
		{Key: "lockOwner", Value: literal(owner)},
		{Key: "lockToken", Value: literal(token)},
		{Key: "lockedAt", Value: "$$NOW"},
		{Key: "lockedUntil", Value: serverNowPlus(lease)},
		{Key: "heartbeatAt", Value: "$$NOW"},
	}
}

// freeV1 is the condition of every claim.
func freeV1(ids []string) bson.D {
	return bson.D{
		{Key: "_id", Value: in(ids)},
		{Key: "status", Value: delivery.StatusV1Pending},
		{Key: "lockToken", Value: nil},
	}
}

// lockedV1 is the fence of every write to a claimed attempt.
func lockedV1(ids, tokens []string) bson.D {
	return bson.D{
		{Key: "_id", Value: in(ids)},
		{Key: "status", Value: delivery.StatusV1Pending},
		{Key: "lockToken", Value: in(tokens)},
	}
}

func (s *Store) renewV1(ctx context.Context, leases []Lease, d time.Duration) (map[string]bool, error) {
	s.attempts.Lock()
	defer s.attempts.Unlock()
	return s.renew(ctx, s.history, leases, bson.D{{Key: "status", Value: delivery.StatusV1Pending}}, "lockToken", bson.D{
		{Key: "lockedUntil", Value: serverNowPlus(d)},
		{Key: "heartbeatAt", Value: "$$NOW"},
	})
}

func (s *Store) handBackV1(ctx context.Context, leases []Lease) error {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	ids, tokens := split(leases)
	_, err := s.history.UpdateMany(ctx, lockedV1(ids, tokens), pipelineSet(lockRemoved()))
	return err
}

// PendingDeliveries returns which of the version 1 deliveries are still pending: an attempt of one that
// is not must not run.
func (s *Store) PendingDeliveries(ctx context.Context, ids []string) (map[string]bool, error) {
	found, err := s.idsOf(ctx, s.deliveries, bson.D{{Key: "_id", Value: in(ids)}, {Key: "status", Value: delivery.StatusV1Pending}})
	pending := make(map[string]bool, len(found))
	for _, id := range found {
		pending[id] = true
	}
	return pending, err
}
