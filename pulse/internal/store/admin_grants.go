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

	"github.com/orionjs/orion-go/pulse/internal/delivery"
)

// By is who does something to stored work, and why. It is kept with what was done.
type By struct{ Name, Reason string }

// document is how it is stored, with when.
func (b By) document(at time.Time) bson.D {
	doc := bson.D{{Key: "by", Value: b.Name}, {Key: "at", Value: at}}
	if b.Reason != "" {
		doc = append(doc, bson.E{Key: "reason", Value: b.Reason})
	}
	return doc
}

// Grant is a further attempt of a delivery that had ended, granted by an operator (spec 9.2).
type Grant struct {
	By
	At time.Time
	// Attempt is the number that it was granted as.
	Attempt int
}

// maxGrants is how many grants a delivery keeps, the newest.
const maxGrants = 10

// readGrants reads the grants of a delivery.
func readGrants(f fields) []Grant {
	array, _ := f["grants"].ArrayOK()
	values, err := array.Values()
	if err != nil {
		return nil
	}
	var grants []Grant
	for _, v := range values {
		doc, ok := v.DocumentOK()
		if !ok {
			continue
		}
		e := parse(doc)
		g := Grant{By: By{e.str("by"), e.str("reason")}, At: e.time("at")}
		g.Attempt, _ = e.int("attempt")
		grants = append(grants, g)
	}
	return grants
}

// Grant makes a delivery that has ended pending again, for exactly one attempt, if it is still as it was read. From then
// on it has the field grants, by which every client of this implementation knows that no failure of it is to be
// retried. It returns the number of the attempt; granted is false when the delivery has changed meanwhile.
func (s *Store) Grant(ctx context.Context, r Record, by By) (attempt int, granted bool, err error) {
	if r.Format == V2 {
		attempt, granted, err = s.grantV2(ctx, r, by)
	} else {
		attempt, granted, err = s.grantV1(ctx, r, by)
	}
	if err != nil {
		err = fmt.Errorf("pulse: topic %s, delivery %s: grant another attempt: %w", r.Topic, r.ID, err)
	}
	return attempt, granted, err
}

// endedFence matches a delivery that has ended, for as long as it has not ended anew.
func (r Record) endedFence() bson.D {
	f := r.fields
	return bson.D{f.fence("_id"), {Key: "status", Value: r.Status}, f.fence("endedAt"), f.fence("finalAttempt"), f.fence("updatedAt")}
}

// grantUpdate takes back the end of a delivery. Its retention goes: it must not vanish while it waits.
func grantUpdate(by By, attempt int, now time.Time, set bson.D, unset ...string) bson.D {
	g := append(by.document(now), bson.E{Key: "attempt", Value: number(float64(attempt))})
	remove := bson.D{}
	for _, name := range append(unset, "endedAt", "expiresAt", "finalAttempt", "error", "expiredEventCount") {
		remove = append(remove, bson.E{Key: name, Value: ""})
	}
	return bson.D{
		{Key: "$set", Value: append(set, bson.E{Key: "updatedAt", Value: now})},
		{Key: "$unset", Value: remove},
		{Key: "$push", Value: bson.D{{Key: "grants", Value: bson.D{{Key: "$each", Value: bson.A{g}}, {Key: "$slice", Value: -maxGrants}}}}},
	}
}

func (s *Store) grantV2(ctx context.Context, r Record, by By) (attempt int, granted bool, err error) {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	now, attempt := s.Now(), max(r.Attempt, 0)+1
	set := bson.D{
		{Key: "status", Value: delivery.StatusPending},
		{Key: "attempt", Value: number(float64(attempt - 1))},
		{Key: "attemptId", Value: newID()},
		{Key: "attemptCreatedAt", Value: now},
		{Key: "nextAttemptAt", Value: now},
	}
	res, err := s.deliveries.UpdateOne(ctx, r.endedFence(), grantUpdate(by, attempt, now, set, lockFields...))
	if err != nil {
		return 0, false, err
	}
	return attempt, res.ModifiedCount == 1, nil
}

// grantV1 makes the delivery pending, and stores the attempt that is granted. With transactions both happen or none.
// Without, the delivery comes first, marked: an attempt of a delivery that has ended would be used up unrun. If the
// process dies in between, a repair ends the delivery as it had ended before.
func (s *Store) grantV1(ctx context.Context, r Record, by By) (attempt int, granted bool, err error) {
	now := s.Now()
	if attempt, err = s.nextAttemptOf(ctx, r); err != nil {
		return 0, false, err
	}
	set := bson.D{{Key: "status", Value: delivery.StatusV1Pending}}
	var unset []string
	if s.transactions {
		unset = []string{"needsReconciliation"}
	} else {
		set = append(set, bson.E{Key: "needsReconciliation", Value: true})
	}
	doc := append(attemptDocument(r.ID, r.EventID, r.ConsumerGroup, r.Topic, attempt, now, now), bson.E{Key: "granted", Value: by.document(now)})
	grant := func(ctx context.Context) error {
		ctx, cancel := s.joined(ctx)
		defer cancel()
		res, err := s.deliveries.UpdateOne(ctx, r.endedFence(), grantUpdate(by, attempt, now, set, unset...))
		if err != nil {
			return err
		}
		if granted = res.ModifiedCount == 1; !granted {
			return nil
		}
		if _, err := s.history.InsertOne(ctx, doc); err != nil {
			return err
		}
		_, err = s.history.UpdateMany(ctx, bson.D{{Key: "deliveryId", Value: r.ID}}, bson.D{{Key: "$unset", Value: bson.D{{Key: "expiresAt", Value: ""}}}})
		return err
	}
	if s.transactions {
		err = s.inTransaction(ctx, grant)
		return attempt, granted && err == nil, err
	}
	if err := grant(mongo.NewSessionContext(ctx, nil)); err != nil || !granted {
		return 0, false, err
	}
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	res, err := s.deliveries.UpdateOne(ctx,
		bson.D{{Key: "_id", Value: r.ID}, {Key: "status", Value: delivery.StatusV1Pending}},
		bson.D{{Key: "$unset", Value: bson.D{{Key: "needsReconciliation", Value: ""}}}})
	if err != nil {
		return attempt, true, err
	}
	return attempt, res.MatchedCount == 1, nil // not: a repair was faster than this, and has ended it
}

// nextAttemptOf returns the number behind all attempts of a version 1 delivery.
func (s *Store) nextAttemptOf(ctx context.Context, r Record) (int, error) {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	raw, err := s.history.FindOne(ctx, bson.D{{Key: "deliveryId", Value: r.ID}},
		options.FindOne().SetSort(bson.D{{Key: "attempt", Value: -1}}).SetProjection(bson.D{{Key: "attempt", Value: 1}})).Raw()
	if err != nil && !errors.Is(err, mongo.ErrNoDocuments) {
		return 0, err
	}
	last, _ := parse(raw).int("attempt")
	return max(last, r.Attempt, 0) + 1, nil
}

// AnyEvent tells whether any of the events is still stored.
func (s *Store) AnyEvent(ctx context.Context, ids []string) (bool, error) {
	for some := range slices.Chunk(ids, 1000) {
		found, err := s.idsOf(ctx, s.events, bson.D{{Key: "_id", Value: in(some)}})
		if err != nil {
			return false, fmt.Errorf("pulse: look for %d events: %w", len(some), err)
		}
		if len(found) > 0 {
			return true, nil
		}
	}
	return false, nil
}
