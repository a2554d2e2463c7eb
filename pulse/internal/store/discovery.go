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

// Lease names one holder of one lease: the document and the token that its writes must match. The format
// says what document a claim's is: V1 an attempt, V2 a delivery.
type Lease struct {
	ID, Token string
	Format    Format
}

var (
	// ErrLeaseLost says that a fenced write matched nothing: another client holds the lease.
	ErrLeaseLost = errors.New("the lease is held by another client")
	// ErrDelivered says that some of the events have a delivery already; nothing was written.
	ErrDelivered = errors.New("some of the events have a delivery already")
)

// NewDelivery is a delivery to be stored.
type NewDelivery struct {
	ConsumerGroup, Topic string
	// Events are in order; a batch has any number, a single delivery one.
	Events []EventKey
	Batch  bool
	// Format is V2 for batches.
	Format Format
}

// documents returns the delivery's document and, for version 1, the one of its first attempt. With mark
// the delivery carries the marker until that is stored.
func (n NewDelivery) documents(now time.Time, mark bool) (doc, attempt bson.D) {
	last := n.Events[len(n.Events)-1]
	id := newID()
	if n.Format == V1 {
		doc = bson.D{
			{Key: "_id", Value: id},
			{Key: "eventId", Value: last.EventID},
			{Key: "consumerGroup", Value: n.ConsumerGroup},
			{Key: "topic", Value: n.Topic},
			{Key: "eventCreatedAt", Value: last.CreatedAt},
			{Key: "eventSequence", Value: last.Sequence},
			{Key: "status", Value: delivery.StatusV1Pending},
			{Key: "createdAt", Value: now},
			{Key: "updatedAt", Value: now},
		}
		if mark {
			doc = append(doc, bson.E{Key: "needsReconciliation", Value: true})
		}
		return doc, attemptDocument(id, last.EventID, n.ConsumerGroup, n.Topic, 1, now, now)
	}
	doc = bson.D{
		{Key: "_id", Value: id},
		{Key: "eventId", Value: last.EventID},
	}
	if n.Batch {
		ids := make([]string, len(n.Events))
		for i, e := range n.Events {
			ids[i] = e.EventID
		}
		doc = append(doc, bson.E{Key: "eventIds", Value: ids})
	}
	doc = append(doc,
		bson.E{Key: "consumerGroup", Value: n.ConsumerGroup},
		bson.E{Key: "topic", Value: n.Topic},
		bson.E{Key: "eventCreatedAt", Value: last.CreatedAt},
		bson.E{Key: "eventSequence", Value: last.Sequence},
		bson.E{Key: "status", Value: delivery.StatusPending},
	)
	if !n.Batch {
		// Never on batches: the Node bridge would take it for a single one and run the last event only.
		doc = append(doc, bson.E{Key: "executionVersion", Value: int32(2)})
	}
	doc = append(doc,
		bson.E{Key: "attempt", Value: int32(0)},
		bson.E{Key: "attemptId", Value: newID()},
		bson.E{Key: "attemptCreatedAt", Value: now},
		bson.E{Key: "nextAttemptAt", Value: now},
		bson.E{Key: "attempts", Value: bson.A{}},
		bson.E{Key: "createdAt", Value: now},
		bson.E{Key: "updatedAt", Value: now},
	)
	return doc, nil
}

// Materialize stores the deliveries and moves the cursor of the leased subscription to a position
// behind its present one. With transactions both happen or neither: a leader that lost its lease,
// even one that was frozen in between, writes nothing (ErrLeaseLost), and events that have a delivery
// already are ErrDelivered. Without transactions the deliveries come first, so that a crash repeats
// and never skips; the unique key {consumerGroup, eventId} keeps one of each (spec 3.2).
//
// With the cursor goes the sequence up to which no event can appear any more.
func (s *Store) Materialize(ctx context.Context, lease Lease, deliveries []NewDelivery, to Position, settled bson.Timestamp) error {
	now := s.Now()
	docs := make([]bson.D, len(deliveries))
	var attempts []bson.D
	for i, d := range deliveries {
		var attempt bson.D
		if docs[i], attempt = d.documents(now, !s.transactions); attempt != nil {
			attempts = append(attempts, attempt)
		}
	}
	var err error
	if s.transactions {
		err = s.materializeTogether(ctx, lease, docs, attempts, to, settled)
	} else {
		err = s.materializeInSteps(ctx, lease, docs, attempts, to, settled)
	}
	if err != nil {
		return fmt.Errorf("pulse: store %d deliveries: %w", len(docs), err)
	}
	return nil
}

func (s *Store) materializeTogether(ctx context.Context, lease Lease, docs, attempts []bson.D, to Position, settled bson.Timestamp) error {
	return s.inTransaction(ctx, func(ctx context.Context) error {
		// The cursor first: a conflict with another leader then costs one small write.
		if err := s.advance(ctx, lease, to, settled); err != nil {
			return err
		}
		if len(docs) == 0 {
			return nil
		}
		_, err := s.deliveries.InsertMany(ctx, docs)
		if mongo.IsDuplicateKeyError(err) {
			err = fmt.Errorf("%w: %w", ErrDelivered, err)
		}
		if err != nil || len(attempts) == 0 {
			return err
		}
		_, err = s.history.InsertMany(ctx, attempts)
		return err
	})
}

// materializeInSteps stores deliveries, then the first attempts of those that are new, then the cursor.
// Deliveries whose attempt is missing carry the marker, and are repaired when a crash leaves them so.
func (s *Store) materializeInSteps(ctx context.Context, lease Lease, docs, attempts []bson.D, to Position, settled bson.Timestamp) error {
	if len(docs) > 0 {
		insert, cancel := s.deadline(ctx)
		defer cancel()
		_, err := s.deliveries.InsertMany(insert, docs, options.InsertMany().SetOrdered(false))
		refused, only := duplicates(err)
		if err != nil && !only {
			return err
		}
		if attempts = without(attempts, refused); len(attempts) > 0 {
			if err := s.firstAttempts(ctx, attempts); err != nil {
				return err
			}
		}
	}
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	return s.advance(ctx, lease, to, settled)
}

// without leaves out the elements at the indexes.
func without(docs []bson.D, indexes map[int]bool) []bson.D {
	out := docs[:0:0]
	for i, doc := range docs {
		if !indexes[i] {
			out = append(out, doc)
		}
	}
	return out
}

// firstAttempts stores first attempts and unmarks their deliveries.
func (s *Store) firstAttempts(ctx context.Context, attempts []bson.D) error {
	insert, cancel := s.deadline(ctx)
	defer cancel()
	if _, err := s.history.InsertMany(insert, attempts, options.InsertMany().SetOrdered(false)); err != nil && !onlyDuplicates(err) {
		return err
	}
	ids := make(bson.A, len(attempts))
	for i, attempt := range attempts {
		ids[i] = attempt[1].Value // deliveryId
	}
	return s.unmark(ctx, s.deliveries, bson.D{{Key: "_id", Value: bson.D{{Key: "$in", Value: ids}}}})
}

// advance moves the cursor by a compare-and-set on the lease's token that always modifies the
// document: in a transaction an update that changes nothing writes nothing, and two leaders could
// both commit.
func (s *Store) advance(ctx context.Context, lease Lease, to Position, settled bson.Timestamp) error {
	set := bson.D{
		{Key: "cursorSequence", Value: literal(to.Sequence)},
		{Key: "cursorSequenceEventId", Value: literal(to.EventID)},
		{Key: "updatedAt", Value: literal(s.Now())},
		// Late events move no cursor. Whatever stands there that is no number is where counting begins again.
		{Key: "cursorMoves", Value: bson.D{{Key: "$cond", Value: bson.A{
			bson.D{{Key: "$in", Value: bson.A{bson.D{{Key: "$type", Value: "$cursorMoves"}}, bson.A{"int", "long"}}}}, bson.D{{Key: "$add", Value: bson.A{"$cursorMoves", int64(1)}}}, int64(1),
		}}}},
	}
	if !settled.IsZero() {
		set = append(set, bson.E{Key: "settledSequence", Value: literal(settled)})
	}
	res, err := s.subscriptions.UpdateOne(ctx,
		bson.D{{Key: "_id", Value: lease.ID}, {Key: "discoveryLockToken", Value: lease.Token}},
		pipelineSet(set))
	if err != nil {
		return err
	}
	if res.ModifiedCount == 0 {
		return ErrLeaseLost
	}
	return nil
}

// duplicates returns the indexes that an insert refused as duplicates, and whether that was all.
func duplicates(err error) (indexes map[int]bool, only bool) {
	var bulk mongo.BulkWriteException
	if !errors.As(err, &bulk) || bulk.WriteConcernError != nil {
		return nil, false
	}
	indexes = make(map[int]bool, len(bulk.WriteErrors))
	for _, we := range bulk.WriteErrors {
		if we.Code != 11000 {
			return nil, false
		}
		indexes[we.Index] = true
	}
	return indexes, true
}

func onlyDuplicates(err error) bool {
	_, only := duplicates(err)
	return only
}

// Delivered returns the IDs of the topic's events that have a delivery of the group in any state: of
// those at or behind a sequence, by their deliveries' greatest sequence, and of the candidates, by the
// unique key.
func (s *Store) Delivered(ctx context.Context, group, topic string, from bson.Timestamp, candidates []string) (map[string]bool, error) {
	delivered := make(map[string]bool)
	read := func(filter bson.D) error {
		ctx, cancel := s.deadline(ctx)
		defer cancel()
		cursor, err := s.deliveries.Find(ctx, filter, options.Find().SetProjection(
			bson.D{{Key: "_id", Value: 0}, {Key: "eventId", Value: 1}, {Key: "eventIds", Value: 1}}))
		found, err := readAll(ctx, cursor, err, func(raw bson.Raw) []string { return eventIDs(parse(raw)) })
		for _, ids := range found {
			for _, id := range ids {
				delivered[id] = true
			}
		}
		return err
	}
	err := read(bson.D{
		{Key: "consumerGroup", Value: group},
		{Key: "topic", Value: topic},
		{Key: "status", Value: in(delivery.Statuses)},
		{Key: "eventSequence", Value: bson.D{{Key: "$gte", Value: from}}},
	})
	if err == nil && len(candidates) > 0 {
		err = read(bson.D{{Key: "consumerGroup", Value: group}, {Key: "eventId", Value: in(candidates)}})
	}
	if err != nil {
		return nil, fmt.Errorf("pulse: consumer group %s, topic %s: read the deliveries at the cursor: %w", group, topic, err)
	}
	return delivered, nil
}

// eventIDs returns the events of a delivery: eventIds of a batch, else eventId alone.
func eventIDs(f fields) []string {
	if ids := f.strs("eventIds"); len(ids) > 0 {
		return ids
	}
	if id := f.str("eventId"); id != "" {
		return []string{id}
	}
	return nil
}
