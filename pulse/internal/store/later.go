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
//
// The date in topic decides when an event is stamped. It may be another one than notBefore: an event that the server
// has refused to stamp is put off by it, and people change documents by hand. None is stamped before its notBefore.

// waiting selects events that are published for a time up to until.
func waiting(until time.Time) bson.D {
	text := bson.D{{Key: "$type", Value: "string"}}
	return bson.D{
		{Key: "topic", Value: bson.D{{Key: "$lte", Value: until}}}, {Key: "sequence", Value: nil}, {Key: "_id", Value: text}, {Key: "pendingTopic", Value: text},
	}
}

// byDue is the order of waiting in its index.
var byDue = bson.D{{Key: "topic", Value: 1}}

// isDue keeps the events that are due by the server's clock: our idea of it may be a little ahead. It is a stage of
// its own, since beside an expression not every server uses an index.
func isDue() bson.D {
	isDate := func(field string) bson.D {
		return bson.D{{Key: "$eq", Value: bson.A{bson.D{{Key: "$type", Value: field}}, "date"}}}
	}
	past := func(field string) bson.D { return bson.D{{Key: "$lte", Value: bson.A{field, "$$NOW"}}} }
	return bson.D{{Key: "$match", Value: bson.D{
		{Key: "pendingTopic", Value: bson.D{{Key: "$type", Value: "string"}}},
		{Key: "$expr", Value: bson.D{{Key: "$and", Value: bson.A{
			isDate("$topic"), past("$topic"),
			bson.D{{Key: "$or", Value: bson.A{bson.D{{Key: "$not", Value: bson.A{isDate("$notBefore")}}}, past("$notBefore")}}},
		}}}},
	}}}
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
	page, err := s.dueKeys(ctx, now, now.Add(horizon))
	stamped := Stamped{Next: sooner(page.next, page.moved)}
	var done stampCount
	if err == nil {
		done, err = s.stampAll(ctx, page.keys, isDue(), &stamped)
	}
	var moved int
	if err == nil {
		moved, err = s.moveToNotBefore(ctx, page.misplaced)
	}
	if err != nil {
		return stamped, fmt.Errorf("pulse: publish the events whose time has come: %w", err)
	}
	stamped.Early = done.changed+len(stamped.Refused) < len(page.keys)
	stamped.More = page.full && done.changed+done.putOff+moved > 0
	if stamped.More {
		stamped.Next = now
	}
	return stamped, nil
}

// duePage is what a look for due events has found.
type duePage struct {
	// keys are those to be stamped, in the order of their times and then of their publication.
	keys []pendingKey
	// misplaced are due by their topic, and not by their notBefore, which somebody has changed.
	misplaced []string
	// next is when the next one is due, moved when the first of the misplaced; zero when that is after the end of the look.
	next, moved time.Time
	// full tells that there may be others.
	full bool
}

// dueKeys looks for events that are due now, and for the next one that is due up to until.
func (s *Store) dueKeys(ctx context.Context, now, until time.Time) (page duePage, err error) {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	cursor, err := s.events.Aggregate(ctx, mongo.Pipeline{
		{{Key: "$match", Value: waiting(until)}},
		{{Key: "$sort", Value: byDue}},
		{{Key: "$limit", Value: s.stampPage}},
		{{Key: "$project", Value: bson.D{
			{Key: "topic", Value: 1},
			{Key: "notBefore", Value: 1},
			{Key: "pendingOrder", Value: 1},
			{Key: "createdAt", Value: 1},
			{Key: "size", Value: bson.D{{Key: "$bsonSize", Value: "$$ROOT"}}},
		}}},
	})
	if err != nil {
		return duePage{}, err
	}
	defer cursor.Close(context.WithoutCancel(ctx))
	for page.next.IsZero() && cursor.Next(ctx) {
		f, key := parse(cursor.Current), readPendingKey(cursor.Current)
		notBefore := f.time("notBefore")
		switch key.due = f.time("topic"); {
		case key.due.After(now):
			page.next = key.due // what lies behind is of no interest yet
		case notBefore.After(now):
			page.misplaced = append(page.misplaced, key.id)
			if !notBefore.After(until) {
				page.moved = sooner(page.moved, notBefore)
			}
		default:
			page.keys = append(page.keys, key)
		}
	}
	page.full = len(page.keys)+len(page.misplaced) == s.stampPage
	slices.SortFunc(page.keys, pendingKey.compare)
	return page, cursor.Err()
}

// moveToNotBefore puts events to the place of their notBefore, where they hide no others.
func (s *Store) moveToNotBefore(ctx context.Context, ids []string) (moved int, err error) {
	move := mongo.Pipeline{{{Key: "$set", Value: bson.D{{Key: "topic", Value: "$notBefore"}}}}}
	for some := range slices.Chunk(ids, 1000) {
		ctx, cancel := s.deadline(ctx)
		res, err := s.events.UpdateMany(ctx, unpublished(in(some)), move)
		cancel()
		if err != nil {
			return moved, err
		}
		moved += int(res.ModifiedCount)
	}
	return moved, nil
}

// unpublished selects those of the events that wait for their time. Like unstamped it leaves topic out.
func unpublished(id any) bson.D {
	return append(unstamped(id),
		bson.E{Key: "notBefore", Value: bson.D{{Key: "$type", Value: "date"}}},
		bson.E{Key: "pendingTopic", Value: bson.D{{Key: "$type", Value: "string"}}})
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
