package store

import (
	"context"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/orionjs/orion-go/pulse/internal/delivery"
)

// expiredV1 reads attempts whose lock has ended, and those that have a token and no time at which it ends.
func (s *Store) expiredV1(ctx context.Context, group string, topics []string, limit int) ([]Expired, error) {
	read := func(lockedUntil bson.D, more ...bson.E) ([]Expired, error) {
		ctx, cancel := s.deadline(ctx)
		defer cancel()
		filter := bson.D{
			{Key: "consumerGroup", Value: group},
			{Key: "status", Value: delivery.StatusV1Pending},
			{Key: "lockedUntil", Value: lockedUntil},
			{Key: "topic", Value: in(topics)},
		}
		cursor, err := s.history.Find(ctx, append(filter, more...),
			options.Find().SetSort(bson.D{{Key: "lockedUntil", Value: 1}}).SetLimit(int64(limit)))
		return readAll(ctx, cursor, err, readExpiredV1)
	}
	ended, err := read(bson.D{{Key: "$lte", Value: s.Now()}})
	if err == nil && len(ended) < limit {
		var without []Expired
		without, err = read(notDate,
			bson.E{Key: "lockToken", Value: bson.D{{Key: "$ne", Value: nil}}})
		ended = append(ended, without...)
	}
	return ended, err
}

func readExpiredV1(raw bson.Raw) Expired {
	a := readAttemptV1(raw)
	e := Expired{ID: a.deliveryID, Topic: a.topic, Attempt: a.attempt, Format: V1, v1: a.ended}
	f := parse(raw)
	e.Granted = f.has("granted")
	e.Owner, e.fence = f.str("lockOwner"), expiredFence(f, delivery.StatusV1Pending)
	return e
}

// reapV1 ends an expired attempt as worker_lost, with what follows.
func (s *Store) reapV1(ctx context.Context, e Expired, verdict delivery.Verdict, delay, retention time.Duration) (bool, error) {
	next := e.v1
	next.verdict, next.delay = verdict, delay
	return s.endV1(ctx, e.fence, next, delivery.WorkerLost(), retention)
}

// endV1 ends an attempt that is not the caller's with a failure, and does what follows, if the attempt is still as the
// fence says.
func (s *Store) endV1(ctx context.Context, fence bson.D, next ended, failure *delivery.Failure, retention time.Duration) (bool, error) {
	o := Settlement{EndedAt: s.Now(), Failure: failure}
	next.endedAt, next.failure = o.EndedAt, failureDocument(o.Failure)
	reaped := false
	reap := func(ctx context.Context) error {
		ctx, cancel := s.joined(ctx)
		defer cancel()
		res, err := s.history.UpdateOne(ctx, fence, pipelineSet(failedV1(o, !s.transactions)))
		if err != nil {
			return err
		}
		if reaped = res.ModifiedCount == 1; !reaped {
			return nil
		}
		return s.followV1(ctx, []ended{next}, retention, !s.transactions)
	}
	var err error
	if s.transactions {
		err = s.inTransaction(ctx, reap)
	} else {
		err = reap(ctx)
	}
	return reaped && err == nil, err
}
