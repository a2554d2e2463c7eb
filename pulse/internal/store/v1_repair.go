package store

import (
	"context"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/orionjs/orion-go/pulse/internal/delivery"
)

// Decide tells what follows a failed attempt of a topic, for repairs that find one.
type Decide func(topic string, attempt int, code string) (delivery.Verdict, time.Duration)

// Repair finishes version 1 steps that a crash left half done, of at most limit documents that carry the
// marker, and returns how many it looked at. It only adds what follows from the documents: whatever else
// happens to them meanwhile, a second repair or the client that is still at it, comes to the same.
func (s *Store) Repair(ctx context.Context, group string, topics []string, limit int, retention time.Duration, decide Decide) (int, error) {
	// Documents that do not name their delivery cannot be repaired, and would hide all others for ever.
	filter := func(id string) bson.D {
		return bson.D{
			{Key: "consumerGroup", Value: group},
			{Key: "topic", Value: in(topics)},
			{Key: "needsReconciliation", Value: true},
			{Key: id, Value: bson.D{{Key: "$type", Value: "string"}}},
		}
	}
	find, cancel := s.deadline(ctx)
	defer cancel()
	cursor, err := s.history.Find(find, filter("deliveryId"), options.Find().SetLimit(int64(limit)).SetProjection(bson.D{{Key: "deliveryId", Value: 1}}))
	ids, err := readAll(find, cursor, err, func(raw bson.Raw) string { return parse(raw).str("deliveryId") })
	if err == nil && len(ids) < limit {
		cursor, err = s.deliveries.Find(find, filter("_id"), options.Find().SetLimit(int64(limit-len(ids))).SetProjection(bson.D{{Key: "_id", Value: 1}}))
		var more []string
		more, err = readAll(find, cursor, err, func(raw bson.Raw) string { return parse(raw).str("_id") })
		ids = append(ids, more...)
	}
	if err == nil {
		err = s.RepairDeliveries(ctx, ids, retention, decide)
	}
	if err != nil {
		return 0, fmt.Errorf("pulse: consumer group %s: repair half-done steps: %w", group, err)
	}
	return len(ids), nil
}

// attemptV1 is a history document as a repair sees it.
type attemptV1 struct {
	ended
	status string
	code   string
}

// RepairDeliveries brings the deliveries in line with their attempts:
//
//	a successful attempt             the delivery is a success
//	no attempt at all                the first one is missing
//	the last attempt failed          the next one is missing, or the delivery is an error
//	the delivery has ended           its attempts get its retention
//	attempts without a delivery      they get a retention of their own
func (s *Store) RepairDeliveries(ctx context.Context, ids []string, retention time.Duration, decide Decide) error {
	if len(ids) == 0 {
		return nil
	}
	read, cancel := s.deadline(ctx)
	defer cancel()
	cursor, err := s.deliveries.Find(read, bson.D{{Key: "_id", Value: in(ids)}})
	deliveries, err := readAll(read, cursor, err, parse)
	if err != nil {
		return err
	}
	cursor, err = s.history.Find(read, bson.D{{Key: "deliveryId", Value: in(ids)}},
		options.Find().SetSort(bson.D{{Key: "deliveryId", Value: 1}, {Key: "attempt", Value: 1}}))
	attempts := map[string][]attemptV1{}
	_, err = readAll(read, cursor, err, func(raw bson.Raw) struct{} {
		a := readAttemptV1(raw)
		attempts[a.deliveryID] = append(attempts[a.deliveryID], a)
		return struct{}{}
	})
	if err != nil {
		return err
	}
	var follow []ended
	var unmark []string
	for _, d := range deliveries {
		id, status := d.str("_id"), d.str("status")
		mine := attempts[id]
		delete(attempts, id)
		switch {
		case status == delivery.StatusV1Pending:
			e, more := s.followUp(d, mine, decide)
			if more {
				follow = append(follow, e)
			} else {
				unmark = append(unmark, id)
			}
		case status == delivery.StatusV1Success, status == delivery.StatusV1Error:
			e := ended{deliveryID: id, verdict: delivery.Failed, endedAt: d.time("endedAt")}
			if e.endedAt.IsZero() {
				e.endedAt = d.time("updatedAt")
			}
			e.attempt = 2 // whatever it was: all attempts get the retention
			follow = append(follow, e)
		default:
			unmark = append(unmark, id)
		}
	}
	if err := s.followV1(ctx, follow, retention, true); err != nil {
		return err
	}
	for id := range attempts {
		unmark = append(unmark, id)
		if retention > 0 {
			if err := s.expireOrphans(ctx, id, retention); err != nil {
				return err
			}
		}
	}
	if len(unmark) == 0 {
		return nil
	}
	if err := s.unmark(ctx, s.history, bson.D{{Key: "deliveryId", Value: in(unmark)}}); err != nil {
		return err
	}
	return s.unmark(ctx, s.deliveries, bson.D{{Key: "_id", Value: in(unmark)}})
}

// followUp returns what must follow the attempts of a pending delivery; more is false when nothing must.
func (s *Store) followUp(d fields, attempts []attemptV1, decide Decide) (e ended, more bool) {
	granted := d.has("grants")
	if granted {
		attempts = attempts[max(0, len(attempts)-1):] // those before belong to an end that an operator has taken back
	}
	for _, a := range attempts {
		if a.status == delivery.StatusV1Success {
			a.verdict = delivery.Succeeded
			return a.ended, true
		}
	}
	if len(attempts) == 0 {
		first := ended{
			deliveryID: d.str("_id"), eventID: d.str("eventId"), group: d.str("consumerGroup"), topic: d.str("topic"),
			verdict: delivery.Retried, endedAt: d.time("createdAt"),
		}
		return first, true
	}
	last := attempts[len(attempts)-1]
	if last.status != delivery.StatusV1Error {
		return ended{}, false
	}
	if granted { // one attempt and no other
		last.verdict = delivery.Failed
		return last.ended, true
	}
	last.verdict, last.delay = decide(last.topic, last.attempt, last.code)
	return last.ended, true
}

func readAttemptV1(raw bson.Raw) attemptV1 {
	f := parse(raw)
	a := attemptV1{status: f.str("status")}
	a.historyID, a.deliveryID, a.eventID = f.str("_id"), f.str("deliveryId"), f.str("eventId")
	a.group, a.topic, a.endedAt = f.str("consumerGroup"), f.str("topic"), f.time("endedAt")
	a.attempt, _ = f.int("attempt")
	if failure, ok := f["error"].DocumentOK(); ok {
		a.failure, a.code = failure, parse(failure).str("code")
	}
	if a.endedAt.IsZero() {
		a.endedAt = f.time("createdAt")
	}
	return a
}

// expireOrphans gives attempts whose delivery is gone a retention of their own.
func (s *Store) expireOrphans(ctx context.Context, deliveryID string, retention time.Duration) error {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	_, err := s.history.UpdateMany(ctx,
		bson.D{{Key: "deliveryId", Value: deliveryID}, {Key: "expiresAt", Value: nil}},
		bson.D{{Key: "$set", Value: bson.D{{Key: "expiresAt", Value: s.Now().Add(retention)}}}})
	return err
}
