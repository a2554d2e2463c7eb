package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// Pause is by whom, why and when a subscription was paused, or resumed.
type Pause struct {
	By
	At time.Time
}

// readPause reads the field paused, or resumed, of a subscription. A document in paused pauses it, whatever is in it.
func readPause(f fields, field string) *Pause {
	doc, ok := f[field].DocumentOK()
	if !ok {
		return nil
	}
	e := parse(doc)
	return &Pause{By: By{e.str("by"), e.str("reason")}, At: e.time("at")}
}

// Pause pauses a subscription, and tells whether it was not paused before. One that is paused stays as it is: who paused
// it first is kept. Found is false when there is no subscription.
func (s *Store) Pause(ctx context.Context, group, topic string, by By) (changed, found bool, err error) {
	return s.setPause(ctx, group, topic, bson.E{Key: "paused", Value: bson.D{{Key: "$not", Value: bson.D{{Key: "$type", Value: "object"}}}}},
		s.pauseUpdate("paused", "resumed", by))
}

// pauseUpdate records the last change alone: by whom the subscription was paused, or else resumed.
func (s *Store) pauseUpdate(now, before string, by By) bson.D {
	return bson.D{
		{Key: "$set", Value: bson.D{{Key: now, Value: by.document(s.Now())}}},
		{Key: "$unset", Value: bson.D{{Key: before, Value: ""}}},
	}
}

// Resume ends the pause of a subscription, and tells whether there was one.
func (s *Store) Resume(ctx context.Context, group, topic string, by By) (changed, found bool, err error) {
	return s.setPause(ctx, group, topic, bson.E{Key: "paused", Value: bson.D{{Key: "$type", Value: "object"}}},
		s.pauseUpdate("resumed", "paused", by))
}

func (s *Store) setPause(ctx context.Context, group, topic string, from bson.E, update bson.D) (changed, found bool, err error) {
	write, cancel := s.deadline(ctx)
	defer cancel()
	res, err := s.subscriptions.UpdateOne(write, bson.D{{Key: "consumerGroup", Value: group}, {Key: "topic", Value: topic}, from}, update)
	if err == nil && res.MatchedCount == 1 {
		return true, true, nil
	}
	if err == nil {
		_, err = s.findSubscription(ctx, group, topic)
	}
	switch {
	case errors.Is(err, mongo.ErrNoDocuments):
		return false, false, nil
	case err != nil:
		return false, false, fmt.Errorf("pulse: consumer group %s, topic %s: pause or resume it: %w", group, topic, err)
	}
	return false, true, nil
}
