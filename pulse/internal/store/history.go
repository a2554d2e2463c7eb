package store

import (
	"context"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/orionjs/orion-go/pulse/internal/delivery"
)

// Attempt is one attempt of a delivery, of either format.
type Attempt struct {
	ID, DeliveryID, EventID string
	EventIDs                []string
	ConsumerGroup, Topic    string
	Format                  Format
	Attempt                 int
	// Status is pending, success or error.
	Status                                                              string
	CreatedAt, NextAttemptAt, StartedAt, EndedAt, LockedAt, LockedUntil time.Time
	LockOwner                                                           string
	// Locked tells that the attempt is claimed.
	Locked     bool
	DurationMs float64
	Failure    *delivery.Failure
	Expired    int
}

// AttemptKey is an attempt's place in the order of History: by creation, then ID, newest first.
type AttemptKey struct {
	CreatedAt time.Time
	ID        string
}

// HistoryQuery selects attempts. Empty fields select all.
type HistoryQuery struct {
	ConsumerGroup, Topic, EventID string
	// Status is pending, success or error.
	Status string
	// Lock is queued (pending, not claimed), active (claimed, the lease holds) or expired.
	Lock string
	// From and To bound the creation: From included, To not.
	From, To time.Time
	// After continues behind an attempt.
	After *AttemptKey
	Limit int
}

// The lock states.
const (
	LockQueued  = "queued"
	LockActive  = "active"
	LockExpired = "expired"
)

// History reads attempts, newest first: the documents of version 1, and those that version 2 deliveries
// carry, the last ten and the one that is pending or running.
func (s *Store) History(ctx context.Context, q HistoryQuery) ([]Attempt, error) {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	embedded := mongo.Pipeline{
		{{Key: "$match", Value: q.deliveries()}},
		{{Key: "$project", Value: bson.D{
			{Key: "consumerGroup", Value: 1},
			{Key: "topic", Value: 1},
			{Key: "eventId", Value: 1},
			{Key: "eventIds", Value: 1},
			{Key: "attempt", Value: bson.D{{Key: "$concatArrays", Value: bson.A{
				bson.D{{Key: "$filter", Value: bson.D{
					{Key: "input", Value: bson.D{{Key: "$cond", Value: bson.A{bson.D{{Key: "$isArray", Value: "$attempts"}}, "$attempts", bson.A{}}}}},
					{Key: "as", Value: "a"},
					{Key: "cond", Value: bson.D{{Key: "$eq", Value: bson.A{bson.D{{Key: "$type", Value: "$$a"}}, "object"}}}},
				}}},
				bson.D{{Key: "$cond", Value: bson.A{
					bson.D{{Key: "$in", Value: bson.A{"$status", bson.A{delivery.StatusPending, delivery.StatusProcessing}}}},
					bson.A{currentAttempt()},
					bson.A{},
				}}},
			}}}},
		}}},
		{{Key: "$unwind", Value: "$attempt"}},
		{{Key: "$replaceRoot", Value: bson.D{{Key: "newRoot", Value: bson.D{{Key: "$mergeObjects", Value: bson.A{
			"$attempt",
			bson.D{
				{Key: "deliveryId", Value: "$_id"},
				{Key: "consumerGroup", Value: "$consumerGroup"},
				{Key: "topic", Value: "$topic"},
				{Key: "eventId", Value: "$eventId"},
				{Key: "eventIds", Value: "$eventIds"},
				{Key: "format", Value: literal(int32(V2))},
			},
		}}}}}}},
		{{Key: "$match", Value: q.attempts(s.Now())}},
		{{Key: "$sort", Value: newestFirst}},
		{{Key: "$limit", Value: q.Limit}},
	}
	pipeline := mongo.Pipeline{
		{{Key: "$match", Value: append(q.selection(), q.attempts(s.Now())...)}},
		{{Key: "$sort", Value: newestFirst}},
		{{Key: "$limit", Value: q.Limit}},
		{{Key: "$unionWith", Value: bson.D{{Key: "coll", Value: s.deliveries.Name()}, {Key: "pipeline", Value: embedded}}}},
		{{Key: "$sort", Value: newestFirst}},
		{{Key: "$limit", Value: q.Limit}},
	}
	cursor, err := s.history.Aggregate(ctx, pipeline)
	attempts, err := readAll(ctx, cursor, err, readAttempt)
	if err != nil {
		return nil, fmt.Errorf("pulse: read the history: %w", err)
	}
	return attempts, nil
}

var newestFirst = bson.D{{Key: "createdAt", Value: -1}, {Key: "_id", Value: -1}}

// currentAttempt is the attempt of an active version 2 delivery, in the form of a completed one.
func currentAttempt() bson.D {
	number := bson.D{{Key: "$cond", Value: bson.A{
		bson.D{{Key: "$and", Value: bson.A{
			bson.D{{Key: "$eq", Value: bson.A{"$status", delivery.StatusPending}}},
			bson.D{{Key: "$isNumber", Value: "$attempt"}},
		}}},
		bson.D{{Key: "$add", Value: bson.A{"$attempt", int32(1)}}},
		"$attempt",
	}}}
	return bson.D{
		{Key: "_id", Value: "$attemptId"},
		{Key: "attempt", Value: number},
		{Key: "status", Value: delivery.StatusV1Pending},
		{Key: "createdAt", Value: "$attemptCreatedAt"},
		{Key: "nextAttemptAt", Value: "$nextAttemptAt"},
		{Key: "startedAt", Value: "$startedAt"},
		{Key: "lockOwner", Value: "$lockOwner"},
		{Key: "lockToken", Value: "$lockToken"},
		{Key: "lockedAt", Value: "$lockedAt"},
		{Key: "lockedUntil", Value: "$lockedUntil"},
		{Key: "heartbeatAt", Value: "$heartbeatAt"},
	}
}

// selection is the part of the query that both collections answer by the same fields.
func (q HistoryQuery) selection() bson.D {
	filter := bson.D{}
	add := func(key, value string) {
		if value != "" {
			filter = append(filter, bson.E{Key: key, Value: value})
		}
	}
	add("consumerGroup", q.ConsumerGroup)
	add("topic", q.Topic)
	add("eventId", q.EventID)
	return filter
}

// deliveries selects version 2 deliveries that may have a matching attempt.
func (q HistoryQuery) deliveries() bson.D {
	filter := bson.D{}
	for _, e := range q.selection() {
		if e.Key == "eventId" {
			// A batch is found by each of its events.
			filter = append(filter, bson.E{Key: "$or", Value: bson.A{
				bson.D{{Key: "eventId", Value: e.Value}}, bson.D{{Key: "eventIds", Value: e.Value}},
			}})
			continue
		}
		filter = append(filter, e)
	}
	states := []string{delivery.StatusPending, delivery.StatusProcessing, delivery.StatusSuccess, delivery.StatusError}
	switch {
	case q.Status == delivery.StatusV1Success:
		states = []string{delivery.StatusSuccess}
	case q.Lock == LockQueued:
		states = []string{delivery.StatusPending}
	case q.Lock != "":
		states = []string{delivery.StatusProcessing}
	case q.Status == delivery.StatusV1Pending:
		states = []string{delivery.StatusPending, delivery.StatusProcessing}
	}
	return append(filter, bson.E{Key: "status", Value: in(states)})
}

// attempts selects attempts by what they are themselves. Those whose ID or creation is of another type than any
// client writes have no place in the order, and are passed over.
func (q HistoryQuery) attempts(now time.Time) bson.D {
	filter := bson.D{{Key: "_id", Value: bson.D{{Key: "$type", Value: "string"}}}}
	switch {
	case q.Lock != "":
		filter = append(filter, bson.E{Key: "status", Value: delivery.StatusV1Pending})
	case q.Status != "":
		filter = append(filter, bson.E{Key: "status", Value: q.Status})
	}
	switch q.Lock {
	case LockQueued:
		filter = append(filter, bson.E{Key: "lockToken", Value: nil})
	case LockActive:
		filter = append(filter, bson.E{Key: "lockToken", Value: bson.D{{Key: "$ne", Value: nil}}},
			bson.E{Key: "lockedUntil", Value: bson.D{{Key: "$gt", Value: now}}})
	case LockExpired:
		filter = append(filter, bson.E{Key: "lockToken", Value: bson.D{{Key: "$ne", Value: nil}}},
			bson.E{Key: "lockedUntil", Value: bson.D{{Key: "$lte", Value: now}}})
	}
	created := bson.D{{Key: "$type", Value: "date"}}
	if !q.From.IsZero() {
		created = append(created, bson.E{Key: "$gte", Value: q.From})
	}
	if !q.To.IsZero() {
		created = append(created, bson.E{Key: "$lt", Value: q.To})
	}
	if q.After != nil {
		created = append(created, bson.E{Key: "$lte", Value: q.After.CreatedAt})
		filter = append(filter, bson.E{Key: "$or", Value: bson.A{
			bson.D{{Key: "createdAt", Value: bson.D{{Key: "$lt", Value: q.After.CreatedAt}}}},
			bson.D{{Key: "_id", Value: bson.D{{Key: "$lt", Value: q.After.ID}}}},
		}})
	}
	return append(filter, bson.E{Key: "createdAt", Value: created})
}

func readAttempt(raw bson.Raw) Attempt {
	f := parse(raw)
	a := Attempt{
		ID: f.str("_id"), DeliveryID: f.str("deliveryId"), EventID: f.str("eventId"), EventIDs: eventIDs(f),
		ConsumerGroup: f.str("consumerGroup"), Topic: f.str("topic"), Format: V1, Status: f.str("status"),
		CreatedAt: f.time("createdAt"), NextAttemptAt: f.time("nextAttemptAt"), StartedAt: f.time("startedAt"),
		EndedAt: f.time("endedAt"), LockedAt: f.time("lockedAt"), LockedUntil: f.time("lockedUntil"),
		LockOwner: f.str("lockOwner"), Locked: f.has("lockToken"),
	}
	if format, ok := f.int("format"); ok {
		a.Format = Format(format)
	}
	a.Attempt, _ = f.int("attempt")
	a.DurationMs, _ = f.number("durationMs")
	a.Expired, _ = f.int("expiredEventCount")
	a.Failure = readFailure(f)
	return a
}
