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
	// Lock, for version 2 on a server with transactions, has the delivery stored as claimed already.
	Lock *Lock

	id, attemptID string
}

// Lock is what a claim writes.
type Lock struct {
	Owner, Token string
	Lease        time.Duration
}

// Candidate is what a delivery with a Lock is to its worker, once it is stored.
func (n *NewDelivery) Candidate() Candidate {
	n.name()
	ids := make([]string, len(n.Events))
	for i, e := range n.Events {
		ids[i] = e.EventID
	}
	return Candidate{Format: n.Format, ID: n.id, AttemptID: n.attemptID, EventIDs: ids}
}

// name gives the delivery its IDs.
func (n *NewDelivery) name() {
	if n.id == "" {
		n.id, n.attemptID = newID(), newID()
	}
}

// documents returns the delivery's document and, for version 1, the one of its first attempt. With mark
// the delivery carries the marker until that is stored.
func (n *NewDelivery) documents(now time.Time, mark bool) (doc, attempt bson.D) {
	last := n.Events[len(n.Events)-1]
	n.name()
	id := n.id
	if n.Format == V1 {
		doc = bson.D{
			{Key: "_id", Value: id},
			{Key: "eventId", Value: last.EventID},
			{Key: "consumerGroup", Value: n.ConsumerGroup},
			{Key: "topic", Value: n.Topic},
			{Key: "eventCreatedAt", Value: last.PublishedAt},
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
		bson.E{Key: "eventCreatedAt", Value: last.PublishedAt},
		bson.E{Key: "eventSequence", Value: last.Sequence},
		bson.E{Key: "status", Value: delivery.StatusPending},
	)
	if !n.Batch {
		// Never on batches: the Node bridge would take it for a single one and run the last event only.
		doc = append(doc, bson.E{Key: "executionVersion", Value: int32(2)})
	}
	doc = append(doc,
		bson.E{Key: "attempt", Value: int32(0)},
		bson.E{Key: "attemptId", Value: n.attemptID},
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
	locks := map[int]*Lock{}
	for i := range deliveries {
		var attempt bson.D
		if lock := deliveries[i].Lock; lock != nil {
			locks[i] = lock
		}
		if docs[i], attempt = deliveries[i].documents(now, !s.transactions); attempt != nil {
			attempts = append(attempts, attempt)
		}
	}
	var err error
	if s.transactions {
		err = s.materializeTogether(ctx, lease, docs, attempts, locks, to, settled)
	} else {
		err = s.materializeInSteps(ctx, lease, docs, attempts, to, settled)
	}
	if err != nil {
		return fmt.Errorf("pulse: store %d deliveries: %w", len(docs), err)
	}
	return nil
}

func (s *Store) materializeTogether(ctx context.Context, lease Lease, docs, attempts []bson.D, locks map[int]*Lock, to Position, settled bson.Timestamp) error {
	return s.inTransaction(ctx, func(ctx context.Context) error {
		// The cursor first: a conflict with another leader then costs one small write.
		now, err := s.advance(ctx, lease, to, settled)
		if err != nil || len(docs) == 0 {
			return err
		}
		// An insert cannot ask for the server's time, by which leases are judged. The cursor's write has told it.
		stored := slices.Clone(docs)
		for i, lock := range locks {
			stored[i] = lock.on(docs[i], now)
		}
		_, err = s.deliveries.InsertMany(ctx, stored)
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
	_, err := s.advance(ctx, lease, to, settled)
	return err
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

// on returns the document of a new delivery as a claim at that time leaves it.
func (k *Lock) on(doc bson.D, now time.Time) bson.D {
	claimed := append(make(bson.D, 0, len(doc)+len(lockFields)), doc...)
	for i := range claimed {
		switch claimed[i].Key {
		case "status":
			claimed[i].Value = delivery.StatusProcessing
		case "attempt":
			claimed[i].Value = int32(1)
		}
	}
	return append(claimed,
		bson.E{Key: "startedAt", Value: now},
		bson.E{Key: "lockOwner", Value: k.Owner},
		bson.E{Key: "lockToken", Value: k.Token},
		bson.E{Key: "lockedAt", Value: now},
		bson.E{Key: "lockedUntil", Value: now.Add(k.Lease)},
		bson.E{Key: "heartbeatAt", Value: now},
	)
}

// advance moves the cursor by a compare-and-set on the lease's token that always modifies the
// document: in a transaction an update that changes nothing writes nothing, and two leaders could
// both commit. It returns the server's time.
func (s *Store) advance(ctx context.Context, lease Lease, to Position, settled bson.Timestamp) (time.Time, error) {
	set := bson.D{
		{Key: "cursorSequence", Value: literal(to.Sequence)},
		{Key: "cursorSequenceEventId", Value: literal(to.EventID)},
		{Key: "updatedAt", Value: "$$NOW"},
		// Late events move no cursor. Whatever stands there that is no number is where counting begins again.
		{Key: "cursorMoves", Value: bson.D{{Key: "$cond", Value: bson.A{
			bson.D{{Key: "$in", Value: bson.A{bson.D{{Key: "$type", Value: "$cursorMoves"}}, bson.A{"int", "long"}}}}, bson.D{{Key: "$add", Value: bson.A{"$cursorMoves", int64(1)}}}, int64(1),
		}}}},
	}
	if !settled.IsZero() {
		set = append(set, bson.E{Key: "settledSequence", Value: literal(settled)})
	}
	raw, err := s.subscriptions.FindOneAndUpdate(ctx,
		bson.D{{Key: "_id", Value: lease.ID}, {Key: "discoveryLockToken", Value: lease.Token}},
		pipelineSet(set),
		options.FindOneAndUpdate().SetReturnDocument(options.After).SetProjection(bson.D{{Key: "updatedAt", Value: 1}})).Raw()
	if errors.Is(err, mongo.ErrNoDocuments) {
		return time.Time{}, ErrLeaseLost
	}
	if err != nil {
		return time.Time{}, err
	}
	return parse(raw).time("updatedAt"), nil
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
