package store

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/orionjs/orion-go/pulse/internal/delivery"
)

// Record is a delivery as an operator sees it, of either format.
type Record struct {
	RecordKey
	ID, Topic string
	EventIDs  []string
	Batch     bool
	Format    Format
	// Status is the stored one of the delivery. In version 1 an attempt that is claimed shows by Locked alone.
	Status string
	// Attempt counts the claims so far, the running one included.
	Attempt                                          int
	EventCreatedAt, CreatedAt, UpdatedAt, EndedAt    time.Time
	ExpiresAt, NextAttemptAt, StartedAt, LockedUntil time.Time
	Locked                                           bool
	LockOwner                                        string
	// Failure is why the delivery ended as an error, or what its last attempt failed with.
	Failure *delivery.Failure
	// Expired counts events that were gone before the handler ran.
	Expired int
	// Grants are the further attempts that an operator has granted, the last ten.
	Grants []Grant
	// HalfDone tells that a step of version 1 is not complete.
	HalfDone  bool
	lockToken string // of the attempt that is pending in version 1
	fields    fields
}

// RecordKey is a delivery's place among all: by its event's place in the order, newest first, then the group.
type RecordKey struct {
	Position
	ConsumerGroup string
}

// before tells whether k is listed before other.
func (k RecordKey) before(other RecordKey) bool {
	if k.Position != other.Position {
		return k.After(other.Position)
	}
	return k.ConsumerGroup < other.ConsumerGroup
}

// Scope is a part of the deliveries that indexes find: topics of one group.
type Scope struct {
	Group  string
	Topics []string
}

// RecordQuery selects deliveries of scopes by their stored status, and by when their events were published.
type RecordQuery struct {
	Scopes   []Scope
	Statuses []string
	// LockedV1 adds version 1 deliveries whose attempt is claimed.
	LockedV1 bool
	// From and To bound the sequences: From included, To not; zero bounds nothing.
	From, To bson.Timestamp
	// After continues behind a delivery.
	After *RecordKey
	Limit int
}

// maxScans is how many (topic, status) ranges one command merges. A server merges up to 200 in their order, and
// would read and sort all of more.
const maxScans = 100

// Records reads the first deliveries that a query selects, newest first.
func (s *Store) Records(ctx context.Context, q RecordQuery) ([]Record, error) {
	var all []Record
	for _, scope := range q.Scopes {
		var chunks [][]string
		if len(q.Statuses) > 0 {
			chunks = slices.Collect(slices.Chunk(scope.Topics, max(1, maxScans/len(q.Statuses))))
		}
		for _, topics := range chunks {
			filter := bson.D{
				{Key: "consumerGroup", Value: scope.Group},
				{Key: "topic", Value: oneOf(topics)},
				{Key: "status", Value: oneOf(q.Statuses)},
			}
			found, err := s.recordsIn(ctx, filter, q, scope.Group)
			if err != nil {
				return nil, recordsError(scope.Group, err)
			}
			all = append(all, found...)
		}
		if !q.LockedV1 {
			continue
		}
		ids, err := s.lockedV1Deliveries(ctx, scope)
		if err == nil && len(ids) > 0 {
			var found []Record
			filter := bson.D{{Key: "_id", Value: in(ids)}, {Key: "status", Value: delivery.StatusV1Pending}}
			found, err = s.recordsIn(ctx, filter, q, scope.Group)
			all = append(all, found...)
		}
		if err != nil {
			return nil, recordsError(scope.Group, err)
		}
	}
	slices.SortFunc(all, func(a, b Record) int {
		if a.before(b.RecordKey) {
			return -1
		}
		return 1
	})
	all = all[:min(len(all), q.Limit)]
	if err := s.addAttempts(ctx, all); err != nil {
		return nil, recordsError("", err)
	}
	return all, nil
}

func recordsError(group string, err error) error {
	if group != "" {
		return fmt.Errorf("pulse: consumer group %s: read the deliveries: %w", group, err)
	}
	return fmt.Errorf("pulse: read the deliveries: %w", err)
}

// oneOf is in, and plain equality for one value, which every server answers from the index.
func oneOf(values []string) any {
	if len(values) == 1 {
		return values[0]
	}
	return in(values)
}

// maxTimestamp is behind every sequence. It keeps the range to Timestamps.
var maxTimestamp = bson.Timestamp{T: 1<<32 - 1, I: 1<<32 - 1}

// recordsIn reads the deliveries of one group: those that share the sequence of the one to go on behind, and then
// those with an earlier one. Both are plain ranges of the index.
func (s *Store) recordsIn(ctx context.Context, filter bson.D, q RecordQuery, group string) ([]Record, error) {
	from, to := q.From, maxTimestamp
	upper := "$lte"
	if !q.To.IsZero() {
		upper, to = "$lt", q.To
	}
	var all []Record
	if after := q.After; after != nil && (q.To.IsZero() || after.Sequence.Compare(q.To) < 0) {
		ties := bson.D{{Key: "$lt", Value: after.EventID}}
		if group > after.ConsumerGroup {
			ties = bson.D{{Key: "$lte", Value: after.EventID}}
		}
		tied := append(slices.Clone(filter), bson.E{Key: "eventSequence", Value: after.Sequence}, bson.E{Key: "eventId", Value: ties})
		found, err := s.findRecords(ctx, tied, q.Limit)
		if err != nil || len(found) == q.Limit {
			return found, err
		}
		all, upper, to = found, "$lt", after.Sequence
	}
	bounds := bson.D{{Key: upper, Value: to}}
	if !from.IsZero() {
		bounds = append(bson.D{{Key: "$gte", Value: from}}, bounds...)
	}
	further, err := s.findRecords(ctx, append(slices.Clone(filter), bson.E{Key: "eventSequence", Value: bounds}), q.Limit-len(all))
	return append(all, further...), err
}

// findRecords reads deliveries with the last of their attempts.
func (s *Store) findRecords(ctx context.Context, filter bson.D, limit int) ([]Record, error) {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	cursor, err := s.deliveries.Aggregate(ctx, mongo.Pipeline{
		{{Key: "$match", Value: filter}},
		{{Key: "$sort", Value: bson.D{{Key: "eventSequence", Value: -1}, {Key: "eventId", Value: -1}}}},
		{{Key: "$limit", Value: limit}},
		{{Key: "$set", Value: bson.D{{Key: "attempts", Value: bson.D{{Key: "$cond", Value: bson.A{
			bson.D{{Key: "$isArray", Value: "$attempts"}}, bson.D{{Key: "$slice", Value: bson.A{"$attempts", -1}}}, bson.A{},
		}}}}}}},
	})
	return readAll(ctx, cursor, err, readRecord)
}

// RecordsOfEvent reads the deliveries of an event in the groups: as the only one, or as one of a batch. Those of
// batches that others than the first leaders cut may lie too far behind to be found.
func (s *Store) RecordsOfEvent(ctx context.Context, eventID string, scopes []Scope) ([]Record, error) {
	var all []Record
	event, err := s.EventKeys(ctx, []string{eventID})
	if err != nil {
		return nil, err
	}
	for _, scope := range scopes {
		found, err := s.findRecords(ctx, bson.D{{Key: "consumerGroup", Value: scope.Group}, {Key: "eventId", Value: eventID}}, 1)
		if err == nil && len(found) == 0 && len(event) > 0 {
			found, err = s.batchesWith(ctx, scope, event[0])
		}
		if err != nil {
			return nil, recordsError(scope.Group, err)
		}
		all = append(all, found...)
	}
	return all, s.addAttempts(ctx, all)
}

// batchesBehind is how many deliveries behind an event are searched for the batch that holds it. Batches hold
// events in their order, so that it is one of the first.
const batchesBehind = 1000

func (s *Store) batchesWith(ctx context.Context, scope Scope, event EventKey) ([]Record, error) {
	for topics := range slices.Chunk(scope.Topics, maxScans/4) {
		find, cancel := s.deadline(ctx)
		cursor, err := s.deliveries.Aggregate(find, mongo.Pipeline{
			{{Key: "$match", Value: bson.D{
				{Key: "consumerGroup", Value: scope.Group},
				{Key: "topic", Value: oneOf(topics)},
				{Key: "status", Value: in([]string{delivery.StatusPending, delivery.StatusProcessing, delivery.StatusSuccess, delivery.StatusError})},
				{Key: "eventSequence", Value: bson.D{{Key: "$gte", Value: event.Sequence}}},
			}}},
			{{Key: "$sort", Value: bson.D{{Key: "eventSequence", Value: 1}, {Key: "eventId", Value: 1}}}},
			{{Key: "$limit", Value: batchesBehind}},
			{{Key: "$match", Value: bson.D{{Key: "eventIds", Value: event.EventID}}}},
		})
		found, err := readAll(find, cursor, err, readRecord)
		cancel()
		if err != nil || len(found) > 0 {
			return found, err
		}
	}
	return nil, nil
}

// lockedV1Deliveries returns the version 1 deliveries whose attempt is claimed: as many as workers run at most.
func (s *Store) lockedV1Deliveries(ctx context.Context, scope Scope) ([]string, error) {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	cursor, err := s.history.Aggregate(ctx, mongo.Pipeline{
		{{Key: "$match", Value: bson.D{
			{Key: "consumerGroup", Value: scope.Group},
			{Key: "status", Value: delivery.StatusV1Pending},
			{Key: "lockedUntil", Value: bson.D{{Key: "$type", Value: "date"}}},
			{Key: "topic", Value: in(scope.Topics)},
		}}},
		{{Key: "$limit", Value: maxLocked}},
		{{Key: "$project", Value: bson.D{{Key: "deliveryId", Value: 1}}}},
	})
	return readAll(ctx, cursor, err, func(raw bson.Raw) string { return parse(raw).str("deliveryId") })
}

// maxLocked bounds how many claimed attempts of version 1 are looked at.
const maxLocked = 10_000

func readRecord(raw bson.Raw) Record {
	f := parse(raw)
	r := Record{
		ID: f.str("_id"), Topic: f.str("topic"), EventIDs: eventIDs(f), Batch: f.has("eventIds"), Status: f.str("status"),
		EventCreatedAt: f.time("eventCreatedAt"), CreatedAt: f.time("createdAt"), UpdatedAt: f.time("updatedAt"),
		EndedAt: f.time("endedAt"), ExpiresAt: f.time("expiresAt"), NextAttemptAt: f.time("nextAttemptAt"),
		StartedAt: f.time("startedAt"), LockedUntil: f.time("lockedUntil"), LockOwner: f.str("lockOwner"),
		Locked: f.has("lockToken"), Failure: readFailure(f), Grants: readGrants(f), fields: f,
	}
	if r.ID == "" {
		r.ID = fmt.Sprint(f.any("_id")) // for people: no client writes such
	}
	r.ConsumerGroup, r.EventID = f.str("consumerGroup"), f.str("eventId")
	r.Sequence, _ = f.timestamp("eventSequence")
	r.Attempt, _ = f.int("attempt")
	r.Expired, _ = f.int("expiredEventCount")
	r.HalfDone, _ = f.bool("needsReconciliation")
	r.Format = V1
	if strings.HasPrefix(r.Status, "v2-") {
		r.Format = V2
	}
	if final, ok := f.int("finalAttempt"); ok && r.Format == V1 {
		r.Attempt = final
	}
	if r.Failure == nil && (r.Status == delivery.StatusPending || r.Status == delivery.StatusProcessing) {
		attempts, _ := f["attempts"].ArrayOK()
		if values, err := attempts.Values(); err == nil && len(values) > 0 {
			last, _ := values[len(values)-1].DocumentOK()
			r.Failure = readFailure(parse(last))
		}
	}
	return r
}

func readFailure(f fields) *delivery.Failure {
	doc, ok := f["error"].DocumentOK()
	if !ok {
		return nil
	}
	e := parse(doc)
	return &delivery.Failure{Code: e.str("code"), Name: e.str("name"), Message: e.str("message"), Stack: e.str("stack")}
}
