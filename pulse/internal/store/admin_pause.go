package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// Pause is by whom, why and when a subscription was paused.
type Pause struct {
	By
	At time.Time
}

// readPause reads the field paused of a subscription. A document there pauses it, whatever is in it.
func readPause(f fields) *Pause {
	doc, ok := f["paused"].DocumentOK()
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
		bson.D{{Key: "$set", Value: bson.D{{Key: "paused", Value: by.document(s.Now())}}}})
}

// Resume ends the pause of a subscription, and tells whether there was one.
func (s *Store) Resume(ctx context.Context, group, topic string) (changed, found bool, err error) {
	return s.setPause(ctx, group, topic, bson.E{Key: "paused", Value: bson.D{{Key: "$type", Value: "object"}}},
		bson.D{{Key: "$unset", Value: bson.D{{Key: "paused", Value: ""}}}})
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
