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

// StepInOrder stores the success of an attempt and claims the next one of the order, started, with one command.
// The outcome is the authority at once; what follows from it is owed: FollowInOrder does it for many, and the
// marker lets whoever finds it do so after a crash. Not stored means that the attempt's lease was lost; the next
// one may be claimed all the same then.
//
// After an error it may be called again, with the same token.
func (s *Store) StepInOrder(ctx context.Context, done Settlement, next Head, owner, token string, lease time.Duration) (stored, claimed bool, err error) {
	step, cancel := s.deadline(ctx)
	defer cancel()
	res, err := s.history.BulkWrite(step, []mongo.WriteModel{
		mongo.NewUpdateOneModel().SetFilter(lockedV1([]string{done.ID}, []string{done.Token})).SetUpdate(pipelineSet(outcomeV1(done, true))),
		mongo.NewUpdateOneModel().SetFilter(freeV1([]string{next.ID})).SetUpdate(pipelineSet(lockSet(owner, token, lease))),
	}, options.BulkWrite().SetOrdered(true))
	switch {
	case err != nil:
		return false, false, fmt.Errorf("pulse: store an outcome in order and claim the next attempt: %w", err)
	case res.ModifiedCount == 2:
		return true, true, nil
	}
	find, cancel := s.deadline(ctx)
	defer cancel()
	cursor, err := s.history.Find(find, bson.D{{Key: "_id", Value: in([]string{done.ID, next.ID})}},
		options.Find().SetProjection(bson.D{{Key: "status", Value: 1}, {Key: "lockToken", Value: 1}}))
	_, err = readAll(find, cursor, err, func(raw bson.Raw) struct{} {
		switch f := parse(raw); f.str("_id") {
		case done.ID:
			stored = f.str("lockToken") == done.Token && f.str("status") == delivery.StatusV1Success
		case next.ID:
			claimed = f.str("lockToken") == token && f.str("status") == delivery.StatusV1Pending
		}
		return struct{}{}
	})
	if err != nil {
		err = fmt.Errorf("pulse: look up a step of an order: %w", err)
	}
	return stored, claimed, err
}

// FollowInOrder does what follows from outcomes that StepInOrder has stored: with transactions together, so that
// of an order's deliveries those that have ended are always the first. It may be repeated, and be done by several.
func (s *Store) FollowInOrder(ctx context.Context, outcomes []Settlement, retention time.Duration) error {
	follow := func(ctx context.Context) error { return s.followV1(ctx, endedOf(outcomes), retention, true) }
	var err error
	if s.transactions {
		err = s.inTransaction(ctx, follow)
	} else {
		err = follow(mongo.NewSessionContext(ctx, nil))
	}
	if err != nil {
		return fmt.Errorf("pulse: end %d deliveries of an order: %w", len(outcomes), err)
	}
	return nil
}
