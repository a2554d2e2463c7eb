package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// An event that is published for a later time waits like one of a transaction, without a sequence, and is stamped
// when it is due (spec 9.1). Until then its topic is a date, the one of notBefore. No reader asks for such a topic,
// and comparisons are typed: so in the index {topic, sequence, _id} those that are due are one range, beside the
// events of transactions, whose topic is absent, and those that are not due yet. However many wait, nobody reads them
// before their time.

// waiting selects events that are published for a time up to until.
func waiting(until time.Time) bson.D {
	text := bson.D{{Key: "$type", Value: "string"}}
	return bson.D{{Key: "topic", Value: bson.D{{Key: "$lte", Value: until}}}, {Key: "_id", Value: text}, {Key: "pendingTopic", Value: text}}
}

// byDue is the order of waiting in its index.
var byDue = bson.D{{Key: "topic", Value: 1}}

// unpublished selects those of the events that wait for their time. Like unstamped it leaves topic out.
func unpublished(id any) bson.D {
	return append(unstamped(id),
		bson.E{Key: "notBefore", Value: bson.D{{Key: "$type", Value: "date"}}},
		bson.E{Key: "pendingTopic", Value: bson.D{{Key: "$type", Value: "string"}}})
}

// isDue keeps the events that are due by the server's clock: our idea of it may be a little ahead. It is a stage of
// its own, since beside an expression not every server uses an index.
func isDue() bson.D {
	return bson.D{{Key: "$match", Value: bson.D{{Key: "$expr", Value: bson.D{{Key: "$lte", Value: bson.A{"$notBefore", "$$NOW"}}}}}}}
}

// NextDue tells when the next event is due that is published for a later time; zero when none is within the horizon.
func (s *Store) NextDue(ctx context.Context, horizon time.Duration) (time.Time, error) {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	raw, err := s.events.FindOne(ctx, waiting(s.Now().Add(horizon)),
		options.FindOne().SetSort(byDue).SetProjection(bson.D{{Key: "topic", Value: 1}})).Raw()
	if err != nil && !errors.Is(err, mongo.ErrNoDocuments) {
		return time.Time{}, fmt.Errorf("pulse: look for events that are published for a later time: %w", err)
	}
	return parse(raw).time("topic"), nil
}

// StampDue is Stamp for events whose time has come. Next is when the next one is due, if that is within the horizon.
func (s *Store) StampDue(ctx context.Context, horizon time.Duration) (Stamped, error) {
	now := s.Now()
	keys, next, err := s.dueKeys(ctx, now, now.Add(horizon))
	stamped := Stamped{More: len(keys) == stampEvents, Next: next}
	n := len(keys)
	var changed int
	if err == nil {
		changed, err = s.stampAll(ctx, keys, guard{unpublished, isDue()}, &stamped)
	}
	if err != nil {
		return stamped, fmt.Errorf("pulse: publish the events whose time has come: %w", err)
	}
	stamped.Early = changed+len(stamped.Refused) < n
	if stamped.More && changed > 0 {
		stamped.Next = now
	}
	return stamped, nil
}

// dueKeys returns the events that are due, in the order of their times and then of their publication, and when the
// next one is due, if that is not after until.
func (s *Store) dueKeys(ctx context.Context, now, until time.Time) (keys []pendingKey, next time.Time, err error) {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	cursor, err := s.events.Aggregate(ctx, mongo.Pipeline{
		{{Key: "$match", Value: waiting(until)}},
		{{Key: "$sort", Value: byDue}},
		{{Key: "$limit", Value: stampEvents}},
		{{Key: "$project", Value: bson.D{
			{Key: "topic", Value: 1}, {Key: "pendingOrder", Value: 1}, {Key: "createdAt", Value: 1}, {Key: "size", Value: bson.D{{Key: "$bsonSize", Value: "$$ROOT"}}},
		}}},
	})
	if err != nil {
		return nil, time.Time{}, err
	}
	defer cursor.Close(context.WithoutCancel(ctx))
	for next.IsZero() && cursor.Next(ctx) {
		key := readPendingKey(cursor.Current)
		if key.due = parse(cursor.Current).time("topic"); key.due.After(now) {
			next = key.due
			break // what lies behind is of no interest yet
		}
		keys = append(keys, key)
	}
	slices.SortFunc(keys, pendingKey.compare)
	return keys, next, cursor.Err()
}

// Unpublish deletes an event that waits for its time, in the session that ctx carries, and tells whether it did.
// Of a stamp and a deletion in the same moment one finds nothing.
func (s *Store) Unpublish(ctx context.Context, id string) (bool, error) {
	ctx, cancel := s.joined(ctx)
	defer cancel()
	res, err := s.events.DeleteOne(ctx, unpublished(id))
	if err != nil {
		return false, err
	}
	return res.DeletedCount == 1, nil
}
