package store

import (
	"context"
	"fmt"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/orionjs/orion-go/pulse/internal/delivery"
)

// Malformed is a pending delivery that cannot be claimed, because what a claim needs is missing or of a
// wrong type. No client writes such; a person or a foreign tool did.
type Malformed struct {
	ID, Topic string
	// Lacks names the fields that are missing or unusable.
	Lacks []string
	// Hopeless tells that it cannot be run even when the fields are filled in: it names no event, or has an
	// ID that is no string.
	Hopeless bool
	attempts int // that count as made
	fence    bson.D
}

// Err reports what was found and what Mend makes of it.
func (m *Malformed) Err() error {
	fate := "it was made claimable"
	if m.Hopeless {
		fate = "it was ended with an error"
	}
	return fmt.Errorf("pulse: topic %s, delivery %s: its document has no usable %s, which no client of Pulse writes: %s", m.Topic, m.ID, strings.Join(m.Lacks, ", "), fate)
}

// readPending reads a pending delivery: as a candidate, or as a malformed one.
func readPending(raw bson.Raw) (Candidate, *Malformed) {
	f := parse(raw)
	c := Candidate{Format: V2, ID: f.str("_id"), AttemptID: f.str("attemptId"), EventIDs: eventIDs(f), Granted: f.has("grants")}
	m := &Malformed{ID: c.ID, Topic: f.str("topic")}
	lacks := func(field string) { m.Lacks = append(m.Lacks, field) }
	if c.ID == "" {
		lacks("_id")
		m.ID, m.Hopeless = fmt.Sprint(f.any("_id")), true
	}
	if len(c.EventIDs) == 0 {
		lacks("eventId")
		m.Hopeless = true
	}
	if c.AttemptID == "" {
		lacks("attemptId")
	}
	if attempts, ok := f.int("attempt"); ok && attempts >= 0 {
		c.Attempts, m.attempts = attempts, attempts
	} else {
		lacks("attempt")
	}
	if _, ok := f.date("nextAttemptAt"); !ok {
		lacks("nextAttemptAt")
	}
	if len(m.Lacks) == 0 {
		return c, nil
	}
	m.fence = bson.D{f.fence("_id"), {Key: "status", Value: delivery.StatusPending}, f.fence("attemptId"), f.fence("attempt"), f.fence("nextAttemptAt")}
	return Candidate{}, m
}

// pendingProjection is what readPending reads.
var pendingProjection = bson.D{
	{Key: "topic", Value: 1},
	{Key: "attemptId", Value: 1},
	{Key: "attempt", Value: 1},
	{Key: "nextAttemptAt", Value: 1},
	{Key: "eventId", Value: 1},
	{Key: "eventIds", Value: 1},
	{Key: "grants.attempt", Value: 1},
}

// Undated reads up to limit pending deliveries of the topics that say nowhere when they are due. Looking
// for what is due does not find them. The index of the pending state bounds the search to its keys.
func (s *Store) Undated(ctx context.Context, group string, topics []string, limit int) ([]Malformed, error) {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	cursor, err := s.deliveries.Find(ctx,
		bson.D{
			{Key: "consumerGroup", Value: group},
			{Key: "status", Value: delivery.StatusPending},
			{Key: "nextAttemptAt", Value: notDate},
			{Key: "topic", Value: in(topics)},
		},
		options.Find().SetLimit(int64(limit)).SetProjection(pendingProjection))
	var found []Malformed
	_, err = readAll(ctx, cursor, err, func(raw bson.Raw) struct{} {
		if _, m := readPending(raw); m != nil {
			found = append(found, *m)
		}
		return struct{}{}
	})
	if err != nil {
		return nil, fmt.Errorf("pulse: consumer group %s: look for deliveries without a due time: %w", group, err)
	}
	return found, nil
}

// Mend makes a malformed delivery claimable now, or ends it when it is hopeless, if it is still as it was
// read.
func (s *Store) Mend(ctx context.Context, m Malformed, historyRetention time.Duration) (bool, error) {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	now := s.Now()
	set, unset := bson.D{{Key: "updatedAt", Value: now}}, bson.D{}
	if m.Hopeless {
		set = append(set, malformedEnd(delivery.StatusError, "the delivery's document cannot be run: unusable "+strings.Join(m.Lacks, ", "), now, historyRetention)...)
		for _, field := range attemptFields {
			unset = append(unset, bson.E{Key: field, Value: ""})
		}
	} else {
		set = append(set,
			bson.E{Key: "attemptId", Value: newID()},
			bson.E{Key: "attemptCreatedAt", Value: now},
			bson.E{Key: "nextAttemptAt", Value: now},
			bson.E{Key: "attempt", Value: number(float64(m.attempts))})
	}
	update := bson.D{{Key: "$set", Value: set}}
	if len(unset) > 0 {
		update = append(update, bson.E{Key: "$unset", Value: unset})
	}
	res, err := s.deliveries.UpdateOne(ctx, m.fence, update)
	if err != nil {
		return false, fmt.Errorf("pulse: topic %s, delivery %s: mend a delivery that lacks %s: %w", m.Topic, m.ID, strings.Join(m.Lacks, ", "), err)
	}
	return res.ModifiedCount == 1, nil
}

// malformedEnd is the part of an update that ends a document which cannot be run.
func malformedEnd(status, message string, now time.Time, retention time.Duration) bson.D {
	set := bson.D{
		{Key: "status", Value: status},
		{Key: "endedAt", Value: now},
		{Key: "error", Value: failureDocument(&delivery.Failure{Code: delivery.CodeDecodeError, Name: "MalformedDelivery", Message: message})},
	}
	if retention > 0 {
		set = append(set, bson.E{Key: "expiresAt", Value: now.Add(retention)})
	}
	return set
}
