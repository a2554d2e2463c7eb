package store

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/orionjs/orion-go/pulse/internal/delivery"
)

// Expired is a delivery in processing whose lease has ended, or that has none.
type Expired struct {
	ID, Topic string
	Attempt   int
	Format    Format
	// Granted tells that the attempt was granted by an operator, and is the last one.
	Granted bool
	// Owner is whose lease it was, in version 1.
	Owner string
	fence bson.D
	v1    ended
}

// notDate matches what is absent, null, or of another type than a date.
var notDate = bson.D{{Key: "$not", Value: bson.D{{Key: "$type", Value: "date"}}}}

// ExpiredLeases reads up to limit deliveries of the topics whose lease has ended by the server's clock,
// the longest ended first, then those that are in processing without the lease that this state needs.
func (s *Store) ExpiredLeases(ctx context.Context, group string, format Format, topics []string, limit int) ([]Expired, error) {
	read := s.expiredV2
	if format == V1 {
		read = s.expiredV1
	}
	expired, err := read(ctx, group, topics, limit)
	if err != nil {
		return nil, fmt.Errorf("pulse: consumer group %s: look for expired leases: %w", group, err)
	}
	return expired, nil
}

func (s *Store) expiredV2(ctx context.Context, group string, topics []string, limit int) ([]Expired, error) {
	now := s.Now()
	ended, err := s.inProcessing(ctx, group, topics, bson.D{{Key: "$lte", Value: now}}, limit)
	if err == nil && len(ended) < limit {
		var without []Expired
		without, err = s.inProcessing(ctx, group, topics, notDate, limit-len(ended))
		ended = append(ended, without...)
	}
	return ended, err
}

func (s *Store) inProcessing(ctx context.Context, group string, topics []string, lockedUntil bson.D, limit int) ([]Expired, error) {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	cursor, err := s.deliveries.Find(ctx,
		bson.D{
			{Key: "consumerGroup", Value: group},
			{Key: "status", Value: delivery.StatusProcessing},
			{Key: "lockedUntil", Value: lockedUntil},
			{Key: "topic", Value: in(topics)},
		},
		options.Find().SetSort(bson.D{{Key: "lockedUntil", Value: 1}}).SetLimit(int64(limit)).SetProjection(bson.D{
			{Key: "topic", Value: 1}, {Key: "attempt", Value: 1}, {Key: "lockToken", Value: 1}, {Key: "lockedUntil", Value: 1}, {Key: "grants.attempt", Value: 1},
		}))
	return readAll(ctx, cursor, err, readExpired)
}

func readExpired(raw bson.Raw) Expired {
	f := parse(raw)
	e := Expired{ID: f.str("_id"), Topic: f.str("topic"), Format: V2, Granted: f.has("grants")}
	e.Attempt, _ = f.int("attempt")
	e.fence = expiredFence(f, delivery.StatusProcessing)
	return e
}

// expiredFence matches the document for as long as it is as it was read, and its lease expired.
func expiredFence(f fields, status string) bson.D {
	fence := bson.D{f.fence("_id"), {Key: "status", Value: status}, f.fence("lockToken")}
	if _, ok := f.date("lockedUntil"); ok {
		// Decided again by the server: a heartbeat between the read and this write wins.
		return append(fence, bson.E{Key: "$expr", Value: bson.D{{Key: "$lte", Value: bson.A{"$lockedUntil", "$$NOW"}}}})
	}
	return append(fence, f.fence("lockedUntil"))
}

// Reap ends the attempt of an expired delivery as worker_lost, if it is still as it was read.
func (s *Store) Reap(ctx context.Context, e Expired, verdict delivery.Verdict, delay, historyRetention time.Duration) (bool, error) {
	if e.Format == V1 {
		reaped, err := s.reapV1(ctx, e, verdict, delay, historyRetention)
		if err != nil {
			err = fmt.Errorf("pulse: topic %s, delivery %s: end the attempt of a lost worker: %w", e.Topic, e.ID, err)
		}
		return reaped, err
	}
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	res, err := s.deliveries.UpdateOne(ctx, e.fence, settlementUpdate(Settlement{
		Verdict: verdict, EndedAt: s.Now(), Failure: delivery.WorkerLost(), Delay: delay,
	}, historyRetention))
	if err != nil {
		return false, fmt.Errorf("pulse: topic %s, delivery %s: end the attempt of a lost worker: %w", e.Topic, e.ID, err)
	}
	return res.ModifiedCount == 1, nil
}

// DeleteSuccesses deletes up to limit successful deliveries whose events lie before their topic's sequence, and returns
// how many: one command for up to 100 topics when there are none. With keepUntilExpired only those whose retention has
// ended go.
func (s *Store) DeleteSuccesses(ctx context.Context, group string, before map[string]bson.Timestamp, keepUntilExpired bool, limit int) (int, error) {
	const chunk = 100
	deleted := 0
	for topics := range slices.Chunk(slices.Collect(maps.Keys(before)), chunk) {
		branches := make(bson.A, len(topics))
		for i, topic := range topics {
			branches[i] = s.deletable(group, topic, before[topic], keepUntilExpired)
		}
		n, err := s.deleteSome(ctx, bson.D{{Key: "$or", Value: branches}}, limit-deleted, !keepUntilExpired)
		if err != nil {
			return deleted, fmt.Errorf("pulse: consumer group %s: delete old deliveries: %w", group, err)
		}
		if deleted += n; deleted == limit {
			break
		}
	}
	return deleted, nil
}

// keepWithoutTransactions is how long successes stay on a server without transactions.
const keepWithoutTransactions = 10 * time.Minute

// successes are the states of success of both formats.
var successes = []string{delivery.StatusSuccess, delivery.StatusV1Success}

// deletable selects a topic's successes. It is whole, so that the server plans each branch of an $or for itself.
func (s *Store) deletable(group, topic string, before bson.Timestamp, keepUntilExpired bool) bson.D {
	filter := bson.D{
		{Key: "consumerGroup", Value: group},
		{Key: "topic", Value: topic},
		{Key: "status", Value: in(successes)},
		{Key: "eventSequence", Value: bson.D{{Key: "$lt", Value: before}}},
	}
	if keepUntilExpired {
		filter = append(filter, bson.E{Key: "expiresAt", Value: bson.D{{Key: "$lte", Value: s.Now()}}})
	}
	if !s.transactions {
		// A paused leader may insert late here, and only the delivery that stands keeps it from it.
		filter = append(filter, bson.E{Key: "endedAt", Value: bson.D{{Key: "$lte", Value: s.Now().Add(-keepWithoutTransactions)}}})
	}
	return filter
}

// deleteSome deletes successes, with their attempts in the history where those have no retention of their own.
func (s *Store) deleteSome(ctx context.Context, filter bson.D, limit int, attempts bool) (int, error) {
	find, cancel := s.deadline(ctx)
	defer cancel()
	cursor, err := s.deliveries.Find(find, filter,
		options.Find().SetLimit(int64(limit)).SetBatchSize(int32(limit)).SetProjection(bson.D{{Key: "status", Value: 1}}))
	var v1 []any
	ids, err := readAll(find, cursor, err, func(raw bson.Raw) any {
		f := parse(raw)
		id := f.any("_id")
		if f.str("status") == delivery.StatusV1Success {
			v1 = append(v1, id)
		}
		return id
	})
	if err != nil || len(ids) == 0 {
		return 0, err
	}
	if attempts && len(v1) > 0 { // first: those of a delivery that is gone nobody would find
		ctx, cancel := s.deadline(ctx)
		defer cancel()
		if _, err := s.history.DeleteMany(ctx, bson.D{{Key: "deliveryId", Value: in(v1)}}); err != nil {
			return 0, err
		}
	}
	ctx, cancel = s.deadline(ctx)
	defer cancel()
	res, err := s.deliveries.DeleteMany(ctx, bson.D{{Key: "_id", Value: in(ids)}, {Key: "status", Value: in(successes)}})
	if err != nil {
		return 0, err
	}
	return int(res.DeletedCount), nil
}
