package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// AcquireDiscovery takes the discovery lease of a subscription if it is free by the server's clock,
// and returns the subscription as it then is: its cursor is where the new leader begins.
func (s *Store) AcquireDiscovery(ctx context.Context, lease Lease, owner string, d time.Duration) (Subscription, bool, error) {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	raw, err := s.subscriptions.FindOneAndUpdate(ctx,
		bson.D{
			{Key: "_id", Value: lease.ID},
			// Absent, null and most wrong types compare lower than a date; whatever is no date is no lease.
			{Key: "$expr", Value: bson.D{{Key: "$or", Value: bson.A{
				bson.D{{Key: "$ne", Value: bson.A{bson.D{{Key: "$type", Value: "$discoveryLockedUntil"}}, "date"}}},
				bson.D{{Key: "$lte", Value: bson.A{"$discoveryLockedUntil", "$$NOW"}}},
			}}}},
		},
		pipelineSet(bson.D{
			{Key: "discoveryLockOwner", Value: literal(owner)},
			{Key: "discoveryLockToken", Value: literal(lease.Token)},
			{Key: "discoveryLockedUntil", Value: serverNowPlus(d)},
			{Key: "startSequence", Value: started("$startSequence", "$cursorSequence", Beginning.Sequence)},
			{Key: "startSequenceEventId", Value: started("$startSequenceEventId", "$cursorSequenceEventId", "")},
			{Key: "updatedAt", Value: "$$NOW"},
		}),
		options.FindOneAndUpdate().SetReturnDocument(options.After),
	).Raw()
	if errors.Is(err, mongo.ErrNoDocuments) {
		return Subscription{}, false, nil
	}
	if err != nil {
		return Subscription{}, false, fmt.Errorf("pulse: take the discovery lease: %w", err)
	}
	return readSubscription(raw), true, nil
}

// started keeps the start of a subscription that one of us led last. Others delete successes right behind
// the cursor, so that nothing before it may be looked at: the subscription then starts at its cursor. The
// last owner tells; it is compared by order, since it may be of any type.
func started(start, cursor string, beginning any) bson.D {
	ours := bson.D{{Key: "$and", Value: bson.A{
		bson.D{{Key: "$gte", Value: bson.A{"$discoveryLockOwner", GoOwner}}},
		bson.D{{Key: "$lt", Value: bson.A{"$discoveryLockOwner", "go;"}}}, // the next string that does not begin so
	}}}
	there := bson.D{{Key: "$ifNull", Value: bson.A{cursor, literal(beginning)}}}
	return bson.D{{Key: "$cond", Value: bson.A{
		ours, bson.D{{Key: "$ifNull", Value: bson.A{start, there}}}, there,
	}}}
}

// RenewDiscovery prolongs all the leases with one command and returns the IDs that are still held.
func (s *Store) RenewDiscovery(ctx context.Context, leases []Lease, d time.Duration) (held map[string]bool, err error) {
	held, err = s.renew(ctx, s.subscriptions, leases, bson.D{}, "discoveryLockToken", bson.D{
		{Key: "discoveryLockedUntil", Value: serverNowPlus(d)},
		{Key: "updatedAt", Value: "$$NOW"},
	})
	if err != nil {
		return nil, fmt.Errorf("pulse: renew %d discovery leases: %w", len(leases), err)
	}
	return held, nil
}

// renew applies set to all documents whose token is still ours: one command, and a second one to learn
// the survivors when some are not. Id and token are matched crosswise; tokens are unique to a term, and
// nobody holds one document under two tokens (the worker sees to that).
func (s *Store) renew(ctx context.Context, coll *mongo.Collection, leases []Lease, more bson.D, tokenField string, set bson.D) (map[string]bool, error) {
	ids, tokens := split(leases)
	filter := append(bson.D{{Key: "_id", Value: in(ids)}, {Key: tokenField, Value: in(tokens)}}, more...)
	update, cancel := s.deadline(ctx)
	defer cancel()
	res, err := coll.UpdateMany(update, filter, pipelineSet(set))
	if err != nil {
		return nil, err
	}
	held := make(map[string]bool, len(ids))
	if int(res.MatchedCount) == len(ids) {
		for _, id := range ids {
			held[id] = true
		}
		return held, nil
	}
	survivors, err := s.idsOf(ctx, coll, filter)
	for _, id := range survivors {
		held[id] = true
	}
	return held, err
}

// idsOf returns the IDs of the documents that match.
func (s *Store) idsOf(ctx context.Context, coll *mongo.Collection, filter bson.D) ([]string, error) {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	cursor, err := coll.Find(ctx, filter, options.Find().SetProjection(bson.D{{Key: "_id", Value: 1}}))
	return readAll(ctx, cursor, err, func(raw bson.Raw) string { return parse(raw).str("_id") })
}

// split returns the IDs and the distinct tokens of leases.
func split(leases []Lease) (ids, tokens []string) {
	seen := make(map[string]bool)
	for _, l := range leases {
		ids = append(ids, l.ID)
		if !seen[l.Token] {
			seen[l.Token] = true
			tokens = append(tokens, l.Token)
		}
	}
	return ids, tokens
}

// ReleaseDiscovery ends the leases at once. The owner stays in place: the next leader reads from it
// whether a client of this implementation led last (spec 3.1).
func (s *Store) ReleaseDiscovery(ctx context.Context, leases []Lease) error {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	ids, tokens := split(leases)
	_, err := s.subscriptions.UpdateMany(ctx,
		bson.D{{Key: "_id", Value: in(ids)}, {Key: "discoveryLockToken", Value: in(tokens)}},
		pipelineSet(bson.D{
			{Key: "discoveryLockedUntil", Value: "$$NOW"},
			{Key: "discoveryLockToken", Value: "$$REMOVE"},
			{Key: "updatedAt", Value: "$$NOW"},
		}))
	if err != nil {
		return fmt.Errorf("pulse: release %d discovery leases: %w", len(leases), err)
	}
	return nil
}
