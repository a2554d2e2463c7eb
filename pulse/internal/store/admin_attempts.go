package store

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/orionjs/orion-go/pulse/internal/delivery"
)

// Record reads one delivery; ok is false when there is none.
func (s *Store) Record(ctx context.Context, id string) (r Record, ok bool, err error) {
	find, cancel := s.deadline(ctx)
	defer cancel()
	raw, err := s.deliveries.FindOne(find, bson.D{{Key: "_id", Value: id}}).Raw()
	if errors.Is(err, mongo.ErrNoDocuments) {
		return Record{}, false, nil
	}
	found := []Record{readRecord(raw)}
	if err == nil {
		err = s.addAttempts(ctx, found)
	}
	if err != nil {
		return Record{}, false, fmt.Errorf("pulse: delivery %s: read it: %w", id, err)
	}
	return found[0], true, nil
}

// MaxAttempts is how many attempts of one delivery an operator sees, the newest.
const MaxAttempts = 1000

// AttemptsOf returns the attempts of a delivery that Record has read, in their order: those that have ended, of
// version 2 the last ten, and the one that is pending or running.
func (s *Store) AttemptsOf(ctx context.Context, r Record) ([]Attempt, error) {
	if r.Format == V2 {
		return r.embeddedAttempts(), nil
	}
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	cursor, err := s.history.Find(ctx, bson.D{{Key: "deliveryId", Value: r.ID}},
		options.Find().SetSort(bson.D{{Key: "attempt", Value: -1}}).SetLimit(MaxAttempts))
	attempts, err := readAll(ctx, cursor, err, readAttempt)
	if err != nil {
		return nil, fmt.Errorf("pulse: delivery %s: read its attempts: %w", r.ID, err)
	}
	slices.Reverse(attempts)
	return attempts, nil
}

// embeddedAttempts reads the attempts that a version 2 delivery carries.
func (r Record) embeddedAttempts() []Attempt {
	var all []Attempt
	add := func(a Attempt) {
		a.DeliveryID, a.EventID, a.EventIDs, a.ConsumerGroup, a.Topic, a.Format = r.ID, r.EventID, r.EventIDs, r.ConsumerGroup, r.Topic, V2
		all = append(all, a)
	}
	array, _ := r.fields["attempts"].ArrayOK()
	if values, err := array.Values(); err == nil {
		for _, v := range values {
			if doc, ok := v.DocumentOK(); ok {
				add(readAttempt(doc))
			}
		}
	}
	if r.Status == delivery.StatusPending || r.Status == delivery.StatusProcessing {
		f := r.fields
		current := Attempt{
			ID: f.str("attemptId"), Attempt: r.Attempt, Status: delivery.StatusV1Pending, CreatedAt: f.time("attemptCreatedAt"),
			NextAttemptAt: r.NextAttemptAt, StartedAt: r.StartedAt, LockedAt: f.time("lockedAt"), LockedUntil: r.LockedUntil,
			LockOwner: r.LockOwner, Locked: r.Locked,
		}
		if r.Status == delivery.StatusPending {
			current.Attempt++
		}
		add(current)
	}
	return all
}

// addAttempts completes pending version 1 deliveries by their pending attempts, and by what the ones before failed
// with.
func (s *Store) addAttempts(ctx context.Context, records []Record) error {
	at := map[string]*Record{}
	var ids []string
	for i := range records {
		if r := &records[i]; r.Status == delivery.StatusV1Pending && r.ID != "" {
			at[r.ID] = r
			ids = append(ids, r.ID)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	var repeated []string
	var before []int
	cursor, err := s.history.Find(ctx, bson.D{{Key: "deliveryId", Value: in(ids)}, {Key: "status", Value: delivery.StatusV1Pending}})
	_, err = readAll(ctx, cursor, err, func(raw bson.Raw) struct{} {
		f := parse(raw)
		r := at[f.str("deliveryId")]
		if r == nil {
			return struct{}{}
		}
		attempt, _ := f.int("attempt")
		r.NextAttemptAt, r.StartedAt, r.LockedUntil = f.time("nextAttemptAt"), f.time("startedAt"), f.time("lockedUntil")
		r.Locked, r.LockOwner, r.lockToken = f.has("lockToken"), f.str("lockOwner"), f.str("lockToken")
		r.Attempt = attempt - 1
		if r.Locked {
			r.Attempt = attempt
		}
		if attempt > 1 {
			repeated, before = append(repeated, r.ID), append(before, attempt-1)
		}
		return struct{}{}
	})
	if err != nil || len(repeated) == 0 {
		return err
	}
	slices.Sort(before)
	cursor, err = s.history.Find(ctx, bson.D{{Key: "deliveryId", Value: in(repeated)}, {Key: "attempt", Value: in(slices.Compact(before))}})
	latest := map[string]int{}
	_, err = readAll(ctx, cursor, err, func(raw bson.Raw) struct{} {
		f := parse(raw)
		r, attempt := at[f.str("deliveryId")], 0
		attempt, _ = f.int("attempt")
		if failure := readFailure(f); r != nil && failure != nil && attempt > latest[r.ID] {
			latest[r.ID], r.Failure = attempt, failure
		}
		return struct{}{}
	})
	return err
}
