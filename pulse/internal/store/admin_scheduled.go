package store

import (
	"context"
	"fmt"
	"math"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// forever is behind every date that MongoDB stores.
var forever = time.UnixMilli(math.MaxInt64)

// Scheduled is what waits of a topic for a later time.
type Scheduled struct {
	N    int
	Next time.Time
}

// Scheduled tells what waits for a later time, by topic: of the limit events of all topics that are due next. No index
// has their topics, so a topic's events cannot be counted without those of the others. More tells that there may be others.
func (s *Store) Scheduled(ctx context.Context, limit int) (topics map[string]Scheduled, more bool, err error) {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	cursor, err := s.events.Aggregate(ctx, mongo.Pipeline{
		{{Key: "$match", Value: waiting(forever)}},
		{{Key: "$sort", Value: byDue}},
		{{Key: "$limit", Value: limit + 1}},
		{{Key: "$group", Value: bson.D{
			{Key: "_id", Value: "$pendingTopic"},
			{Key: "n", Value: bson.D{{Key: "$sum", Value: 1}}},
			{Key: "next", Value: bson.D{{Key: "$min", Value: "$topic"}}},
		}}},
	})
	topics, all := map[string]Scheduled{}, 0
	_, err = readAll(ctx, cursor, err, func(raw bson.Raw) struct{} {
		f := parse(raw)
		n, _ := f.int("n")
		all += n
		topics[f.str("_id")] = Scheduled{N: n, Next: f.time("next")}
		return struct{}{}
	})
	if err != nil {
		return nil, false, fmt.Errorf("pulse: count the events that are published for a later time: %w", err)
	}
	return topics, all > limit, nil
}

// Displaced samples the events that wait for a later time under another date than the one that they are published for:
// somebody has changed them by hand, or the server has refused to stamp them. It looks at the limit that are due next.
func (s *Store) Displaced(ctx context.Context, limit int) (Sample, error) {
	return s.sampleWaiting(ctx, limit, waiting(forever), bson.D{{Key: "$expr", Value: bson.D{{Key: "$ne", Value: bson.A{"$topic", "$notBefore"}}}}})
}

// Unstampable samples the events that wait for a later time and that no client can stamp ever: they name no topic, have
// a place in the order, or an _id that is no string. It looks at the limit that are due next.
func (s *Store) Unstampable(ctx context.Context, limit int) (Sample, error) {
	noText := bson.D{{Key: "$not", Value: bson.D{{Key: "$type", Value: "string"}}}}
	return s.sampleWaiting(ctx, limit, bson.D{{Key: "topic", Value: bson.D{{Key: "$lte", Value: forever}}}}, bson.D{{Key: "$or", Value: bson.A{
		bson.D{{Key: "pendingTopic", Value: noText}},
		bson.D{{Key: "_id", Value: noText}},
		bson.D{{Key: "sequence", Value: bson.D{{Key: "$ne", Value: nil}}}},
	}}})
}

// sampleWaiting samples those of the first limit events of a range that match as well.
func (s *Store) sampleWaiting(ctx context.Context, limit int, within, match bson.D) (Sample, error) {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	cursor, err := s.events.Aggregate(ctx, mongo.Pipeline{
		{{Key: "$match", Value: within}},
		{{Key: "$sort", Value: byDue}},
		{{Key: "$limit", Value: limit}},
		{{Key: "$match", Value: match}},
		{{Key: "$project", Value: bson.D{{Key: "_id", Value: 1}}}},
	})
	found, err := readSample(ctx, cursor, err, limit)
	if err != nil {
		err = fmt.Errorf("pulse: look for events whose later time was changed: %w", err)
	}
	return found, err
}
