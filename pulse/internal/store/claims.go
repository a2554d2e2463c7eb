package store

import (
	"context"
	"fmt"
	"maps"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/orionjs/orion-go/pulse/internal/delivery"
)

// Candidate is a pending delivery that may be claimed.
type Candidate struct {
	Format Format
	// ID is the document that is claimed: the delivery, or in version 1 the attempt.
	ID string
	// DeliveryID is set in version 1, AttemptID in version 2.
	DeliveryID, AttemptID string
	// Attempts counts the claims so far.
	Attempts int
	// Granted tells that an operator has granted this attempt to a delivery that had ended: it is the last one.
	Granted  bool
	EventIDs []string
}

// Candidates reads up to limit deliveries of the topic and format that are due, and tells whether there may be
// more. It neither sorts nor asks for one delivery at a time: replicas that take different parts of one
// large answer meet each other less than replicas that all want the first.
//
// Malformed ones among them take room in the answer: mend them, or they hide the others for ever.
func (s *Store) Candidates(ctx context.Context, group, topic string, format Format, limit int) (due []Candidate, malformed []Malformed, more bool, err error) {
	var n int
	if format == V1 {
		due, n, err = s.candidatesV1(ctx, group, topic, limit)
	} else {
		due, malformed, n, err = s.candidatesV2(ctx, group, topic, limit)
	}
	if err != nil {
		return nil, nil, false, fmt.Errorf("pulse: consumer group %s, topic %s: look for due deliveries: %w", group, topic, err)
	}
	return due, malformed, n == limit, nil
}

func (s *Store) candidatesV2(ctx context.Context, group, topic string, limit int) (due []Candidate, malformed []Malformed, read int, err error) {
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
		return nil, nil, 0, err
	}
	return due, malformed, len(all), nil
}

// Claim takes the candidates, all of one format, that are still as they were read, under one token, and returns those that
// it won: one command, and a second one when another client was faster for some. That a candidate is
// unchanged is proven by its attemptId, which every scheduled attempt gets anew, or by its own ID.
//
// When the answer does not arrive, the claim may have been stored all the same: use Claimed.
func (s *Store) Claim(ctx context.Context, candidates []Candidate, owner, token string, lease time.Duration) ([]Candidate, error) {
	ids, attemptIDs := make([]string, len(candidates)), make([]string, len(candidates))
	for i, c := range candidates {
		ids[i], attemptIDs[i] = c.ID, c.AttemptID
	}
	var n int64
	var err error
	if candidates[0].Format == V1 {
		n, err = s.claimV1(ctx, ids, owner, token, lease)
	} else {
		n, err = s.claimV2(ctx, ids, attemptIDs, owner, token, lease)
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("pulse: claim %d deliveries: %w", len(ids), err)
	case int(n) == len(candidates):
		return candidates, nil
	case n == 0:
		return nil, nil
	default:
		return s.Claimed(ctx, candidates, token)
	}
}

func (s *Store) claimV2(ctx context.Context, ids, attemptIDs []string, owner, token string, lease time.Duration) (int64, error) {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	res, err := s.deliveries.UpdateMany(ctx,
		bson.D{
			{Key: "_id", Value: in(ids)},
			{Key: "status", Value: delivery.StatusPending},
			{Key: "attemptId", Value: in(attemptIDs)},
		},
		pipelineSet(append(lockSet(owner, token, lease),
			bson.E{Key: "status", Value: delivery.StatusProcessing},
			bson.E{Key: "attempt", Value: bson.D{{Key: "$add", Value: bson.A{"$attempt", int32(1)}}}},
			bson.E{Key: "updatedAt", Value: "$$NOW"},
		)))
	if err != nil {
		return 0, err
	}
	return res.ModifiedCount, nil
}

// Claimed returns which of the candidates are held under the token.
func (s *Store) Claimed(ctx context.Context, candidates []Candidate, token string) ([]Candidate, error) {
	ids := make([]string, len(candidates))
	for i, c := range candidates {
		ids[i] = c.ID
	}
	coll, fence := s.deliveries, processing(ids, []string{token})
	if candidates[0].Format == V1 {
		coll, fence = s.history, lockedV1(ids, []string{token})
	}
	held, err := s.idsOf(ctx, coll, fence)
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
	held := make(map[string]bool, len(leases))
	for _, format := range Formats {
		mine := ofFormat(leases, format)
		if len(mine) == 0 {
			continue
		}
		renew := s.renewV2
		if format == V1 {
			renew = s.renewV1
		}
		some, err := renew(ctx, mine, d)
		if err != nil {
			return nil, fmt.Errorf("pulse: renew the leases of %d deliveries: %w", len(mine), err)
		}
		maps.Copy(held, some)
	}
	return held, nil
}

func (s *Store) renewV2(ctx context.Context, leases []Lease, d time.Duration) (map[string]bool, error) {
	return s.renew(ctx, s.deliveries, leases, bson.D{{Key: "status", Value: delivery.StatusProcessing}}, "lockToken", bson.D{
		{Key: "lockedUntil", Value: serverNowPlus(d)},
		{Key: "heartbeatAt", Value: "$$NOW"},
		{Key: "updatedAt", Value: "$$NOW"},
	})
}

// HandBack returns claimed deliveries that were not run: pending as before, the attempt not consumed.
func (s *Store) HandBack(ctx context.Context, leases []Lease) error {
	for _, format := range Formats {
		mine := ofFormat(leases, format)
		if len(mine) == 0 {
			continue
		}
		handBack := s.handBackV2
		if format == V1 {
			handBack = s.handBackV1
		}
		if err := handBack(ctx, mine); err != nil {
			return fmt.Errorf("pulse: hand back %d deliveries: %w", len(mine), err)
		}
	}
	return nil
}

func (s *Store) handBackV2(ctx context.Context, leases []Lease) error {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	ids, tokens := split(leases)
	set := bson.D{
		{Key: "status", Value: delivery.StatusPending},
		{Key: "attempt", Value: bson.D{{Key: "$subtract", Value: bson.A{"$attempt", int32(1)}}}},
		{Key: "updatedAt", Value: "$$NOW"},
	}
	_, err := s.deliveries.UpdateMany(ctx, processing(ids, tokens), pipelineSet(append(set, lockRemoved()...)))
	return err
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

// DueTopics returns, for each format and each of the topics that has unclaimed deliveries of it, when the
// first is or was due. One command for all: the indexes of the pending states cover it.
func (s *Store) DueTopics(ctx context.Context, group string, topics map[Format][]string) (map[Format]map[string]time.Time, error) {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	branch := func(format Format, status string, more ...bson.E) mongo.Pipeline {
		match := bson.D{
			{Key: "consumerGroup", Value: group},
			{Key: "status", Value: status},
			// What is no date would pass for the least one (Undated finds it).
			{Key: "nextAttemptAt", Value: bson.D{{Key: "$type", Value: "date"}}},
			{Key: "topic", Value: in(topics[format])},
		}
		return mongo.Pipeline{
			{{Key: "$match", Value: append(match, more...)}},
			{{Key: "$group", Value: bson.D{
				{Key: "_id", Value: bson.D{{Key: "topic", Value: "$topic"}, {Key: "format", Value: literal(int32(format))}}},
				{Key: "due", Value: bson.D{{Key: "$min", Value: "$nextAttemptAt"}}},
			}}},
		}
	}
	v2 := branch(V2, delivery.StatusPending)
	v1 := branch(V1, delivery.StatusV1Pending, bson.E{Key: "lockToken", Value: nil})
	coll, pipeline := s.deliveries, v2
	switch {
	case len(topics[V1]) == 0:
	case len(topics[V2]) == 0:
		coll, pipeline = s.history, v1
	default:
		pipeline = append(pipeline, bson.D{{Key: "$unionWith", Value: bson.D{{Key: "coll", Value: s.history.Name()}, {Key: "pipeline", Value: v1}}}})
	}
	cursor, err := coll.Aggregate(ctx, pipeline)
	due := map[Format]map[string]time.Time{V1: {}, V2: {}}
	_, err = readAll(ctx, cursor, err, func(raw bson.Raw) struct{} {
		f := parse(raw)
		id, _ := f["_id"].DocumentOK()
		key := parse(id)
		format, _ := key.int("format")
		if of := due[Format(format)]; of != nil {
			of[key.str("topic")] = f.time("due")
		}
		return struct{}{}
	})
	if err != nil {
		return nil, fmt.Errorf("pulse: consumer group %s: look for pending deliveries: %w", group, err)
	}
	return due, nil
}
