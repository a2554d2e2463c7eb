package store

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/orionjs/orion-go/pulse/internal/delivery"
)

// What tests of services do to deliveries, for package pulsetest: no client calls these.

const (
	// rehearser owns the leases that a test takes away.
	rehearser = "pulsetest"
	// rehearsedRetention is how long deliveries stay that a test ends: longer than any test.
	rehearsedRetention = 7 * 24 * time.Hour
)

// Hurry makes all waiting attempts of the group due now, and returns how many there were. An attempt that is
// claimed in this moment is left alone.
func (s *Store) Hurry(ctx context.Context, group string) (int, error) {
	hurry := func(coll *mongo.Collection, filter ...bson.E) (int, error) {
		ctx, cancel := s.deadline(ctx)
		defer cancel()
		now := s.Now()
		filter = append(filter, bson.E{Key: "consumerGroup", Value: group}, bson.E{Key: "nextAttemptAt", Value: bson.D{{Key: "$gt", Value: now}}})
		res, err := coll.UpdateMany(ctx, bson.D(filter), bson.D{{Key: "$set", Value: bson.D{{Key: "nextAttemptAt", Value: now}}}})
		if err != nil {
			return 0, fmt.Errorf("pulse: consumer group %s: make waiting attempts due: %w", group, err)
		}
		return int(res.ModifiedCount), nil
	}
	n, err := hurry(s.deliveries, bson.E{Key: "status", Value: delivery.StatusPending})
	if err != nil {
		return 0, err
	}
	v1, err := hurry(s.history, bson.E{Key: "status", Value: delivery.StatusV1Pending}, bson.E{Key: "lockToken", Value: nil})
	return n + v1, err
}

// Rob ends all claimed attempts of the group as worker_lost, whatever is left of their leases, and returns how
// many were running: what the reaper, and in an order the next holder, do after the end of a process. Each is
// fenced by its token, and the orders are taken from their holders meanwhile.
func (s *Store) Rob(ctx context.Context, group string) (int, error) {
	fail := func(err error) (int, error) {
		return 0, fmt.Errorf("pulse: consumer group %s: take leases away: %w", group, err)
	}
	_, subs, err := s.cursors(ctx, group)
	if err != nil {
		return fail(err)
	}
	robbed := 0
	for _, sub := range subs {
		release, err := s.robOrder(ctx, sub)
		if err != nil {
			return fail(err)
		}
		n, err := s.robTopic(ctx, sub)
		robbed += n
		if err == nil && release != nil {
			err = s.ReleaseOrdered(ctx, []Lease{*release})
		}
		if err != nil {
			return fail(err)
		}
	}
	return robbed, nil
}

// robOrder takes the ordered lease from its holder, if there is one, so that nobody goes on in the order
// before its attempts were ended.
func (s *Store) robOrder(ctx context.Context, sub Subscription) (*Lease, error) {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	lease := Lease{ID: sub.ID, Token: uuid.NewString()}
	res, err := s.subscriptions.UpdateOne(ctx,
		bson.D{
			{Key: "_id", Value: sub.ID},
			{Key: "orderedLockToken", Value: bson.D{{Key: "$type", Value: "string"}}},
		},
		pipelineSet(bson.D{
			{Key: "orderedLockOwner", Value: rehearser},
			{Key: "orderedLockToken", Value: literal(lease.Token)},
			{Key: "orderedLockedUntil", Value: serverNowPlus(DefaultTimeout)},
		}))
	if err != nil || res.ModifiedCount == 0 {
		return nil, err
	}
	return &lease, nil
}

// robTopic ends the claimed attempts of a topic.
func (s *Store) robTopic(ctx context.Context, sub Subscription) (int, error) {
	policy, robbed := sub.Settings.Over(Settings{}).Policy(), 0
	claimed, err := s.claimed(ctx, sub)
	if err != nil {
		return 0, err
	}
	// As a new holder of an order does, last to first: what is left is a prefix of it.
	for i := len(claimed) - 1; i >= 0; i-- {
		c := claimed[i]
		if !c.started {
			ctx, cancel := s.deadline(ctx)
			_, err := s.history.UpdateOne(ctx, c.fence, pipelineSet(lockRemoved()))
			cancel()
			if err != nil {
				return robbed, err
			}
			continue
		}
		verdict, delay := delivery.Decide(c.Attempt, delivery.Outcome{Failure: delivery.WorkerLost(), Permanent: c.Granted}, policy)
		done, err := s.Reap(ctx, c.Expired, verdict, delay, rehearsedRetention)
		if err != nil {
			return robbed, err
		}
		if done {
			robbed++
		}
	}
	return robbed, nil
}

// claimedAttempt is an attempt that somebody holds. One of version 2 counts as started with its claim.
type claimedAttempt struct {
	Expired
	started bool
}

func (s *Store) claimed(ctx context.Context, sub Subscription) ([]claimedAttempt, error) {
	read := func(coll *mongo.Collection, status string, format Format) ([]claimedAttempt, error) {
		ctx, cancel := s.deadline(ctx)
		defer cancel()
		cursor, err := coll.Find(ctx, bson.D{
			{Key: "consumerGroup", Value: sub.ConsumerGroup},
			{Key: "topic", Value: sub.Topic},
			{Key: "status", Value: status},
			{Key: "lockToken", Value: bson.D{{Key: "$type", Value: "string"}}},
		}, sortedBy("createdAt", "_id"))
		return readAll(ctx, cursor, err, func(raw bson.Raw) claimedAttempt {
			f := parse(raw)
			c := claimedAttempt{started: true}
			if format == V1 {
				c.Expired, c.started = readExpiredV1(raw), f.has("startedAt")
			} else {
				c.Expired = readExpired(raw)
			}
			c.fence = bson.D{f.fence("_id"), {Key: "status", Value: status}, f.fence("lockToken")}
			return c
		})
	}
	v1, err := read(s.history, delivery.StatusV1Pending, V1)
	if err != nil {
		return nil, err
	}
	v2, err := read(s.deliveries, delivery.StatusProcessing, V2)
	return append(v1, v2...), err
}

func sortedBy(fields ...string) *options.FindOptionsBuilder {
	by := make(bson.D, len(fields))
	for i, field := range fields {
		by[i] = bson.E{Key: field, Value: 1}
	}
	return options.Find().SetSort(by)
}
