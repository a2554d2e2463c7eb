package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/orionjs/orion-go/pulse/internal/delivery"
)

// AcquireOrdered takes the ordered lease of a subscription if it is free by the server's clock. When it
// is not, until says when it would be.
func (s *Store) AcquireOrdered(ctx context.Context, lease Lease, owner string, d time.Duration) (won bool, until time.Time, err error) {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	free := bson.D{{Key: "$or", Value: bson.A{ // whatever is no date is no lease
		bson.D{{Key: "$ne", Value: bson.A{bson.D{{Key: "$type", Value: "$orderedLockedUntil"}}, "date"}}},
		bson.D{{Key: "$lte", Value: bson.A{"$orderedLockedUntil", "$$NOW"}}},
	}}}
	take := func(value any, old string) bson.D {
		return bson.D{{Key: "$cond", Value: bson.A{free, value, old}}}
	}
	// One command that takes the lease or leaves it as it is, and tells which by its answer.
	raw, err := s.subscriptions.FindOneAndUpdate(ctx,
		bson.D{{Key: "_id", Value: lease.ID}},
		pipelineSet(bson.D{
			{Key: "orderedLockOwner", Value: take(literal(owner), "$orderedLockOwner")},
			{Key: "orderedLockToken", Value: take(literal(lease.Token), "$orderedLockToken")},
			{Key: "orderedLockedUntil", Value: take(serverNowPlus(d), "$orderedLockedUntil")},
		}),
		options.FindOneAndUpdate().SetReturnDocument(options.After).SetProjection(bson.D{
			{Key: "orderedLockToken", Value: 1}, {Key: "orderedLockedUntil", Value: 1},
		}),
	).Raw()
	if errors.Is(err, mongo.ErrNoDocuments) {
		return false, s.Now().Add(d), nil
	}
	if err != nil {
		return false, time.Time{}, fmt.Errorf("pulse: take the ordered lease: %w", err)
	}
	f := parse(raw)
	return f.str("orderedLockToken") == lease.Token, f.time("orderedLockedUntil"), nil
}

// RenewOrdered prolongs ordered leases and returns the subscriptions whose lease is still held.
func (s *Store) RenewOrdered(ctx context.Context, leases []Lease, d time.Duration) (map[string]bool, error) {
	held, err := s.renew(ctx, s.subscriptions, leases, bson.D{}, "orderedLockToken", bson.D{
		{Key: "orderedLockedUntil", Value: serverNowPlus(d)},
	})
	if err != nil {
		return nil, fmt.Errorf("pulse: renew %d ordered leases: %w", len(leases), err)
	}
	return held, nil
}

// ReleaseOrdered ends ordered leases at once.
func (s *Store) ReleaseOrdered(ctx context.Context, leases []Lease) error {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	ids, tokens := split(leases)
	_, err := s.subscriptions.UpdateMany(ctx,
		bson.D{{Key: "_id", Value: in(ids)}, {Key: "orderedLockToken", Value: in(tokens)}},
		bson.D{{Key: "$unset", Value: bson.D{
			{Key: "orderedLockOwner", Value: ""}, {Key: "orderedLockToken", Value: ""}, {Key: "orderedLockedUntil", Value: ""},
		}}})
	if err != nil {
		return fmt.Errorf("pulse: release %d ordered leases: %w", len(leases), err)
	}
	return nil
}

// Head is one of the first pending deliveries of an ordered topic, with its pending attempt.
type Head struct {
	Candidate
	At Position
	// Due is when the attempt may run.
	Due time.Time
	// Broken tells that no attempt is pending: a crash left a step half done.
	Broken bool
	// Locked tells that the attempt is claimed, Started that its handler was, LockedUntil until when.
	Locked, Started bool
	LockedUntil     time.Time
	expired         Expired
	id              any // of the delivery, whatever its type
}

// Owner is whose lock it is.
func (h Head) Owner() string { return h.expired.Owner }

// Heads reads the first pending version 1 deliveries of a topic, in order, with their pending attempts.
func (s *Store) Heads(ctx context.Context, group, topic string, limit int) ([]Head, error) {
	fail := func(err error) ([]Head, error) {
		return nil, fmt.Errorf("pulse: consumer group %s, topic %s: read the head of the order: %w", group, topic, err)
	}
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	cursor, err := s.deliveries.Find(ctx,
		bson.D{{Key: "consumerGroup", Value: group}, {Key: "topic", Value: topic}, {Key: "status", Value: delivery.StatusV1Pending}},
		options.Find().SetSort(bson.D{{Key: "eventSequence", Value: 1}, {Key: "eventId", Value: 1}}).
			SetLimit(int64(limit)).SetBatchSize(int32(limit)).
			SetProjection(bson.D{{Key: "eventId", Value: 1}, {Key: "eventSequence", Value: 1}}))
	heads, err := readAll(ctx, cursor, err, func(raw bson.Raw) Head {
		f := parse(raw)
		h := Head{Candidate: Candidate{Format: V1, DeliveryID: f.str("_id"), EventIDs: eventIDs(f)}, Broken: true, id: f.any("_id")}
		h.At.Sequence, _ = f.timestamp("eventSequence")
		h.At.EventID = f.str("eventId")
		return h
	})
	if err != nil {
		return fail(err)
	}
	if len(heads) == 0 {
		return nil, nil
	}
	ids, at := make([]string, len(heads)), make(map[string]*Head, len(heads))
	for i := range heads {
		ids[i] = heads[i].DeliveryID
		at[ids[i]] = &heads[i]
	}
	cursor, err = s.history.Find(ctx, bson.D{{Key: "deliveryId", Value: in(ids)}, {Key: "status", Value: delivery.StatusV1Pending}})
	_, err = readAll(ctx, cursor, err, func(raw bson.Raw) struct{} {
		f := parse(raw)
		h := at[f.str("deliveryId")]
		attempt, ok := f.int("attempt")
		if h == nil || !ok {
			return struct{}{}
		}
		h.ID, h.Attempts = f.str("_id"), attempt-1
		h.Broken = h.ID == ""
		h.Due, h.LockedUntil = f.time("nextAttemptAt"), f.time("lockedUntil")
		h.Locked, h.Started, h.Granted = f.has("lockToken"), f.has("startedAt"), f.has("granted")
		h.expired = readExpiredV1(raw)
		return struct{}{}
	})
	if err != nil {
		return fail(err)
	}
	return heads, nil
}

// Key names the head's delivery.
func (h Head) Key() string { return fmt.Sprint(h.id) }

// EndHopeless ends a head that no repair has brought into a state in which it can run: its documents are such as
// no client writes, and everything behind it waits. It tells whether the head was still pending.
func (s *Store) EndHopeless(ctx context.Context, h Head, retention time.Duration) (bool, error) {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	set := malformedEnd(delivery.StatusV1Error, "the documents of the delivery and its attempts cannot be run", s.Now(), retention)
	pending := bson.E{Key: "status", Value: delivery.StatusV1Pending}
	res, err := s.deliveries.UpdateOne(ctx, bson.D{{Key: "_id", Value: bson.D{{Key: "$eq", Value: h.id}}}, pending}, bson.D{{Key: "$set", Value: set}})
	if err == nil && h.DeliveryID != "" {
		_, err = s.history.UpdateMany(ctx, bson.D{{Key: "deliveryId", Value: h.DeliveryID}, pending}, bson.D{{Key: "$set", Value: set}})
	}
	if err != nil {
		return false, fmt.Errorf("pulse: delivery %v: end what cannot be run: %w", h.id, err)
	}
	return res.ModifiedCount == 1, nil
}

// ClaimOrdered claims attempts of the order under one token, the first one started: if the process dies,
// only a started attempt counts. It returns how many it claimed; when not all, hand back those it did.
func (s *Store) ClaimOrdered(ctx context.Context, heads []Head, owner, token string, lease time.Duration) (int, error) {
	ids := make([]string, len(heads))
	for i, h := range heads {
		ids[i] = h.ID
	}
	set := lockSet(owner, token, lease)
	set[0].Value = bson.D{{Key: "$cond", Value: bson.A{
		bson.D{{Key: "$eq", Value: bson.A{"$_id", literal(ids[0])}}}, "$$NOW", "$$REMOVE",
	}}}
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	res, err := s.history.UpdateMany(ctx, freeV1(ids), pipelineSet(set))
	if err != nil {
		return 0, fmt.Errorf("pulse: claim %d deliveries in order: %w", len(ids), err)
	}
	return int(res.ModifiedCount), nil
}

// Recover frees an attempt whose lock has expired: one that was started has lost its worker, one that was
// only claimed ahead is as it was. It tells whether the attempt was still as it was read.
func (s *Store) Recover(ctx context.Context, h Head, verdict delivery.Verdict, delay, retention time.Duration) (bool, error) {
	if h.Started {
		return s.Reap(ctx, h.expired, verdict, delay, retention)
	}
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	res, err := s.history.UpdateOne(ctx, h.expired.fence, pipelineSet(lockRemoved()))
	if err != nil {
		return false, fmt.Errorf("pulse: delivery %s: hand back an attempt of a lost worker: %w", h.DeliveryID, err)
	}
	return res.ModifiedCount == 1, nil
}

// SettleInOrder stores outcomes of one order as a whole, and marks the next attempt as started, if there
// is one. Nothing is stored if any of their leases was lost (without transactions: nothing behind the loss).
// Held is false if that is so, or the next attempt's lease was lost.
func (s *Store) SettleInOrder(ctx context.Context, settlements []Settlement, next *Lease, retention time.Duration) (stored, held bool, err error) {
	lost, err := s.settleV1(ctx, settlements, retention, true)
	if err != nil {
		return false, false, fmt.Errorf("pulse: store %d outcomes in order: %w", len(settlements), err)
	}
	if len(lost) > 0 || next == nil {
		return len(lost) == 0, len(lost) == 0, nil
	}
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	res, err := s.history.UpdateOne(ctx, lockedV1([]string{next.ID}, []string{next.Token}), pipelineSet(bson.D{{Key: "startedAt", Value: "$$NOW"}}))
	if err != nil {
		return false, false, fmt.Errorf("pulse: mark the next attempt of an order as started: %w", err)
	}
	return true, res.MatchedCount == 1, nil
}
