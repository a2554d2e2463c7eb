package store

import (
	"context"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/orionjs/orion-go/pulse/internal/delivery"
)

// Candidate is a pending delivery that may be claimed.
type Candidate struct {
	ID, AttemptID string
	// Attempts counts the claims so far.
	Attempts int
	EventIDs []string
}

// Candidates reads up to limit deliveries of the topic that are due, and tells whether there may be
// more. It neither sorts nor asks for one delivery at a time: replicas that take different parts of one
// large answer meet each other less than replicas that all want the first.
//
// Malformed ones among them take room in the answer: mend them, or they hide the others for ever.
func (s *Store) Candidates(ctx context.Context, group, topic string, limit int) (due []Candidate, malformed []Malformed, more bool, err error) {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	cursor, err := s.deliveries.Find(ctx,
		bson.D{
			{Key: "consumerGroup", Value: group},
			{Key: "topic", Value: topic},
			{Key: "status", Value: delivery.StatusPending},
			{Key: "nextAttemptAt", Value: bson.D{{Key: "$lte", Value: s.Now()}}},
		},
		options.Find().SetLimit(int64(limit)).SetBatchSize(int32(limit)).SetProjection(pendingProjection))
	all, err := readAll(ctx, cursor, err, func(raw bson.Raw) struct{} {
		if c, m := readPending(raw); m != nil {
			malformed = append(malformed, *m)
		} else {
			due = append(due, c)
		}
		return struct{}{}
	})
	if err != nil {
		return nil, nil, false, fmt.Errorf("pulse: consumer group %s, topic %s: look for due deliveries: %w", group, topic, err)
	}
	return due, malformed, len(all) == limit, nil
}

// Claim takes the candidates that are still as they were read, under one token, and returns those that
// it won: one command, and a second one when another client was faster for some. That a candidate is
// unchanged is proven by its attemptId, which every scheduled attempt gets anew.
//
// When the answer does not arrive, the claim may have been stored all the same: use Claimed.
func (s *Store) Claim(ctx context.Context, candidates []Candidate, owner, token string, lease time.Duration) ([]Candidate, error) {
	ids, attemptIDs := make([]string, len(candidates)), make([]string, len(candidates))
	for i, c := range candidates {
		ids[i], attemptIDs[i] = c.ID, c.AttemptID
	}
	update, cancel := s.deadline(ctx)
	defer cancel()
	res, err := s.deliveries.UpdateMany(update,
		bson.D{
			{Key: "_id", Value: in(ids)},
			{Key: "status", Value: delivery.StatusPending},
			{Key: "attemptId", Value: in(attemptIDs)},
		},
		pipelineSet(bson.D{
			{Key: "status", Value: delivery.StatusProcessing},
			{Key: "attempt", Value: bson.D{{Key: "$add", Value: bson.A{"$attempt", int32(1)}}}},
			{Key: "startedAt", Value: "$$NOW"},
			{Key: "lockOwner", Value: literal(owner)},
			{Key: "lockToken", Value: literal(token)},
			{Key: "lockedAt", Value: "$$NOW"},
			{Key: "lockedUntil", Value: serverNowPlus(lease)},
			{Key: "heartbeatAt", Value: "$$NOW"},
			{Key: "updatedAt", Value: "$$NOW"},
		}))
	if err != nil {
		return nil, fmt.Errorf("pulse: claim %d deliveries: %w", len(ids), err)
	}
	if int(res.ModifiedCount) == len(candidates) {
		return candidates, nil
	}
	if res.ModifiedCount == 0 {
		return nil, nil
	}
	return s.Claimed(ctx, candidates, token)
}

// Claimed returns which of the candidates are held under the token.
func (s *Store) Claimed(ctx context.Context, candidates []Candidate, token string) ([]Candidate, error) {
	ids := make([]string, len(candidates))
	for i, c := range candidates {
		ids[i] = c.ID
	}
	held, err := s.idsOf(ctx, s.deliveries, processing(ids, []string{token}))
	if err != nil {
		return nil, fmt.Errorf("pulse: look up %d claims: %w", len(ids), err)
	}
	mine := make(map[string]bool, len(held))
	for _, id := range held {
		mine[id] = true
	}
	var won []Candidate
	for _, c := range candidates {
		if mine[c.ID] {
			won = append(won, c)
		}
	}
	return won, nil
}

// processing is the fence of every write to a claimed delivery: ID, state and token.
func processing(ids, tokens []string) bson.D {
	return bson.D{
		{Key: "_id", Value: in(ids)},
		{Key: "status", Value: delivery.StatusProcessing},
		{Key: "lockToken", Value: in(tokens)},
	}
}

// Renew prolongs the leases of claimed deliveries and returns the IDs that are still held.
func (s *Store) Renew(ctx context.Context, leases []Lease, d time.Duration) (map[string]bool, error) {
	held, err := s.renew(ctx, s.deliveries, leases,
		bson.D{{Key: "status", Value: delivery.StatusProcessing}}, "lockToken",
		bson.D{
			{Key: "lockedUntil", Value: serverNowPlus(d)},
			{Key: "heartbeatAt", Value: "$$NOW"},
			{Key: "updatedAt", Value: "$$NOW"},
		})
	if err != nil {
		return nil, fmt.Errorf("pulse: renew the leases of %d deliveries: %w", len(leases), err)
	}
	return held, nil
}

// HandBack returns claimed deliveries that were not run: pending as before, the attempt not consumed.
func (s *Store) HandBack(ctx context.Context, leases []Lease) error {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	ids, tokens := split(leases)
	set := bson.D{
		{Key: "status", Value: delivery.StatusPending},
		{Key: "attempt", Value: bson.D{{Key: "$subtract", Value: bson.A{"$attempt", int32(1)}}}},
		{Key: "updatedAt", Value: "$$NOW"},
	}
	_, err := s.deliveries.UpdateMany(ctx, processing(ids, tokens), pipelineSet(append(set, lockRemoved()...)))
	if err != nil {
		return fmt.Errorf("pulse: hand back %d deliveries: %w", len(leases), err)
	}
	return nil
}

// lockFields are present while a delivery is in processing, all of them, and never else.
var lockFields = []string{"startedAt", "lockOwner", "lockToken", "lockedAt", "lockedUntil", "heartbeatAt"}

// attemptFields are present while a delivery is active.
var attemptFields = []string{"attemptId", "attemptCreatedAt", "nextAttemptAt"}

func lockRemoved() bson.D { return removed(lockFields...) }

// removed is the part of a $set stage that removes fields.
func removed(names ...string) bson.D {
	d := make(bson.D, len(names))
	for i, name := range names {
		d[i] = bson.E{Key: name, Value: "$$REMOVE"}
	}
	return d
}

// DueTopics returns, for each of the topics that has pending deliveries, when the first is or was due.
// One command for all topics; the partial index of the pending state covers it.
func (s *Store) DueTopics(ctx context.Context, group string, topics []string) (map[string]time.Time, error) {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	cursor, err := s.deliveries.Aggregate(ctx, mongo.Pipeline{
		{{Key: "$match", Value: bson.D{
			{Key: "consumerGroup", Value: group},
			{Key: "status", Value: delivery.StatusPending},
			// What is no date would pass for the least one (Undated finds it).
			{Key: "nextAttemptAt", Value: bson.D{{Key: "$type", Value: "date"}}},
			{Key: "topic", Value: in(topics)},
		}}},
		{{Key: "$group", Value: bson.D{
			{Key: "_id", Value: "$topic"},
			{Key: "due", Value: bson.D{{Key: "$min", Value: "$nextAttemptAt"}}},
		}}},
	})
	due := make(map[string]time.Time)
	_, err = readAll(ctx, cursor, err, func(raw bson.Raw) struct{} {
		f := parse(raw)
		due[f.str("_id")] = f.time("due")
		return struct{}{}
	})
	if err != nil {
		return nil, fmt.Errorf("pulse: consumer group %s: look for pending deliveries: %w", group, err)
	}
	return due, nil
}
