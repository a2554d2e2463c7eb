package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/orionjs/orion-go/pulse/internal/delivery"
)

// Cancel ends an active delivery as an error, if it is still as it was read: waiting under the same attempt, or claimed
// under the same token, which is taken from its worker.
func (s *Store) Cancel(ctx context.Context, r Record, by By, retention time.Duration) (cancelled bool, err error) {
	failure := delivery.OperatorCancelled(by.Name, by.Reason)
	if r.Format == V2 {
		cancelled, err = s.cancelV2(ctx, r, failure, retention)
	} else {
		cancelled, err = s.cancelV1(ctx, r, failure, retention)
	}
	if err != nil {
		err = fmt.Errorf("pulse: topic %s, delivery %s: cancel it: %w", r.Topic, r.ID, err)
	}
	return cancelled, err
}

func (s *Store) cancelV2(ctx context.Context, r Record, failure *delivery.Failure, retention time.Duration) (bool, error) {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	o := Settlement{Verdict: delivery.Failed, EndedAt: s.Now(), Failure: failure}
	fence := bson.D{r.fields.fence("_id"), {Key: "status", Value: r.Status}, r.fields.fence("attemptId"), r.fields.fence("lockToken")}
	update := settlementUpdate(o, retention)
	if r.Status == delivery.StatusPending { // no attempt was made that could be recorded
		set := append(terminal(o, retention), bson.E{Key: "updatedAt", Value: literal(o.EndedAt)})
		update = pipelineSet(append(set, lockRemoved()...))
	}
	res, err := s.deliveries.UpdateOne(ctx, fence, update)
	if err != nil {
		return false, err
	}
	return res.ModifiedCount == 1, nil
}

func (s *Store) cancelV1(ctx context.Context, r Record, failure *delivery.Failure, retention time.Duration) (bool, error) {
	find, cancel := s.deadline(ctx)
	defer cancel()
	raw, err := s.history.FindOne(find, bson.D{{Key: "deliveryId", Value: r.ID}, {Key: "status", Value: delivery.StatusV1Pending}}).Raw()
	if errors.Is(err, mongo.ErrNoDocuments) {
		return s.cancelHalfDone(ctx, r, failure, retention)
	}
	if err != nil {
		return false, err
	}
	f := parse(raw)
	if f.str("lockToken") != r.lockToken {
		return false, nil
	}
	next := readAttemptV1(raw).ended
	next.verdict = delivery.Failed
	fence := bson.D{f.fence("_id"), {Key: "status", Value: delivery.StatusV1Pending}, f.fence("lockToken")}
	return s.endV1(ctx, fence, next, failure, retention)
}

// cancelHalfDone ends a delivery without a pending attempt, which a crash has left. Its attempts get their retention
// by the repair that the marker asks for.
func (s *Store) cancelHalfDone(ctx context.Context, r Record, failure *delivery.Failure, retention time.Duration) (bool, error) {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	now := s.Now()
	set := bson.D{
		{Key: "status", Value: delivery.StatusV1Error},
		{Key: "error", Value: failureDocument(failure)},
		{Key: "endedAt", Value: now},
		{Key: "updatedAt", Value: now},
		{Key: "needsReconciliation", Value: true},
	}
	if retention > 0 {
		set = append(set, bson.E{Key: "expiresAt", Value: now.Add(retention)})
	}
	res, err := s.deliveries.UpdateOne(ctx,
		bson.D{r.fields.fence("_id"), {Key: "status", Value: delivery.StatusV1Pending}, r.fields.fence("updatedAt")},
		bson.D{{Key: "$set", Value: set}})
	if err != nil {
		return false, err
	}
	return res.ModifiedCount == 1, nil
}

// HistoryRetention tells for how long a group keeps what has ended in a topic, by what ended there last: 0 is for ever.
// It is not known while nothing has ended.
func (s *Store) HistoryRetention(ctx context.Context, group, topic string) (retention time.Duration, known bool, err error) {
	newest, err := s.newestEnded(ctx, []Subscription{{ConsumerGroup: group, Topic: topic}})
	if err != nil {
		return 0, false, fmt.Errorf("pulse: consumer group %s, topic %s: read for how long ended deliveries are kept: %w", group, topic, err)
	}
	var last time.Time
	for _, f := range newest {
		ended, ok := f.date("endedAt")
		if !ok || ended.Before(last) {
			continue
		}
		last, known, retention = ended, true, 0
		if expires, kept := f.date("expiresAt"); kept {
			retention = expires.Sub(ended).Round(unit)
		}
	}
	return retention, known, nil
}
