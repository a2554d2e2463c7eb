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

// Event is one published event as stored.
type Event struct {
	ID, Topic string
	// Data is the payload; its bytes belong to the Event.
	Data bson.RawValue
	// Headers is nil when none were published.
	Headers   map[string]string
	Publisher string
	CreatedAt time.Time
	// NotBefore is the time that the event was published for; zero for one published at once.
	NotBefore time.Time
	// ExpiresAt is zero when retention was off.
	ExpiresAt time.Time
	// Unstamped tells that the event has no place in the order yet: nobody reads it by its topic.
	Unstamped bool
}

// ReadEvent reads an event's document, whose bytes it copies.
func ReadEvent(raw bson.Raw) Event {
	f := parse(raw)
	e := Event{
		ID: f.str("_id"), Topic: f.str("topic"), Data: f["data"], Headers: f.strMap("headers"),
		Publisher: f.str("publisher"), CreatedAt: f.time("createdAt"), NotBefore: f.time("notBefore"), ExpiresAt: f.time("expiresAt"),
	}
	if e.Topic == "" {
		e.Topic, e.Unstamped = f.str("pendingTopic"), true
	}
	return e
}

// Document encodes the event to be stored: with an empty top-level Timestamp, which the server
// replaces by its own, so that no publisher's clock decides the order (spec 1.1).
func (e Event) Document() (bson.Raw, error) {
	return e.document(bson.D{{Key: "topic", Value: e.Topic}}, bson.E{Key: "sequence", Value: bson.Timestamp{}})
}

// document encodes the event with the fields that give it its place in the order.
func (e Event) document(topic bson.D, order bson.E) (bson.Raw, error) {
	doc := append(bson.D{{Key: "_id", Value: e.ID}}, topic...)
	doc = append(doc, bson.E{Key: "data", Value: e.Data})
	if e.Publisher != "" {
		doc = append(doc, bson.E{Key: "publisher", Value: e.Publisher})
	}
	if e.Headers != nil {
		doc = append(doc, bson.E{Key: "headers", Value: e.Headers})
	}
	doc = append(doc, bson.E{Key: "createdAt", Value: e.CreatedAt})
	if !e.NotBefore.IsZero() {
		doc = append(doc, bson.E{Key: "notBefore", Value: e.NotBefore})
	}
	doc = append(doc, order)
	if !e.ExpiresAt.IsZero() {
		doc = append(doc, bson.E{Key: "expiresAt", Value: e.ExpiresAt})
	}
	return bson.Marshal(doc)
}

// InsertEvent stores one event. An ID that exists already is mongo.IsDuplicateKeyError.
func (s *Store) InsertEvent(ctx context.Context, doc bson.Raw) error {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	_, err := s.events.InsertOne(ctx, doc)
	return err
}

// InsertEvents stores events with one command, goes on after those that fail, and returns the error of
// each by its index. Any other error means that it is unknown which were stored.
func (s *Store) InsertEvents(ctx context.Context, docs []bson.Raw) (failed map[int]error, err error) {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	_, err = s.events.InsertMany(ctx, docs, options.InsertMany().SetOrdered(false))
	var bulk mongo.BulkWriteException
	if !errors.As(err, &bulk) || bulk.WriteConcernError != nil {
		return nil, err
	}
	failed = make(map[int]error, len(bulk.WriteErrors))
	for _, we := range bulk.WriteErrors {
		failed[we.Index] = we
	}
	return failed, nil
}

// Events reads events by ID, in chunks that keep each command small. Those that are gone are absent.
func (s *Store) Events(ctx context.Context, ids []string) (map[string]Event, error) {
	const chunk = 1000
	out := make(map[string]Event, len(ids))
	for len(ids) > 0 {
		n := min(chunk, len(ids))
		if err := s.eventsInto(mongo.NewSessionContext(ctx, nil), ids[:n], out); err != nil {
			return nil, fmt.Errorf("pulse: read %d events: %w", n, err)
		}
		ids = ids[n:]
	}
	return out, nil
}

// Size is how many bytes of memory the event's data and headers take.
func (e Event) Size() int {
	n := len(e.Data.Value)
	for key, value := range e.Headers {
		n += len(key) + len(value)
	}
	return n
}

// EventsUpTo is Events that ends with the event with which it has read so many bytes: all is false then, and what is
// absent may be there. The server's answers have 16 MiB at most.
func (s *Store) EventsUpTo(ctx context.Context, ids []string, most int) (found map[string]Event, all bool, err error) {
	found = make(map[string]Event, len(ids))
	if len(ids) == 0 || most <= 0 {
		return found, len(ids) == 0, nil
	}
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	cursor, err := s.events.Find(ctx, bson.D{{Key: "_id", Value: in(ids)}})
	if err != nil {
		return nil, false, fmt.Errorf("pulse: read %d events: %w", len(ids), err)
	}
	defer cursor.Close(context.WithoutCancel(ctx))
	for most > 0 && cursor.Next(ctx) {
		e := ReadEvent(cursor.Current)
		found[e.ID] = e
		most -= e.Size()
	}
	if err := cursor.Err(); err != nil {
		return nil, false, fmt.Errorf("pulse: read %d events: %w", len(ids), err)
	}
	return found, most > 0 || len(found) == len(ids), nil
}

// eventsInto reads events by ID, in the session that ctx carries.
func (s *Store) eventsInto(ctx context.Context, ids []string, out map[string]Event) error {
	ctx, cancel := s.joined(ctx)
	defer cancel()
	cursor, err := s.events.Find(ctx, bson.D{{Key: "_id", Value: in(ids)}})
	found, err := readAll(ctx, cursor, err, ReadEvent)
	for _, e := range found {
		out[e.ID] = e
	}
	return err
}

// NewestEvent returns the position of the topic's newest event, or Beginning.
func (s *Store) NewestEvent(ctx context.Context, topic string) (Position, error) {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	raw, err := s.events.FindOne(ctx,
		bson.D{{Key: "topic", Value: topic}, {Key: "sequence", Value: bson.D{{Key: "$gte", Value: Beginning.Sequence}}}},
		options.FindOne().SetSort(bySequence(-1)).SetProjection(bson.D{{Key: "sequence", Value: 1}}),
	).Raw()
	if errors.Is(err, mongo.ErrNoDocuments) {
		return Beginning, nil
	}
	if err != nil {
		return Position{}, err
	}
	return readKey(raw).Position, nil
}

// EventKey is what discovery needs of an event.
type EventKey struct {
	Position
	// PublishedAt is when it was published, or the later time that it was published for.
	PublishedAt time.Time
	// Size is the document's size in bytes; 0 when it was not asked for.
	Size int
}

func readKey(raw bson.Raw) EventKey {
	f := parse(raw)
	key := EventKey{PublishedAt: f.time("createdAt")}
	if due := f.time("notBefore"); due.After(key.PublishedAt) {
		key.PublishedAt = due
	}
	key.Sequence, _ = f.timestamp("sequence")
	key.EventID = f.str("_id")
	key.Size, _ = f.int("size")
	if key.PublishedAt.IsZero() {
		key.PublishedAt = time.Unix(int64(key.Sequence.T), 0).UTC()
	}
	return key
}

func bySequence(direction int) bson.D {
	return bson.D{{Key: "sequence", Value: direction}, {Key: "_id", Value: direction}}
}

// tieSlack is read on top of what was asked for: the events at the position itself are read again.
const tieSlack = 16

// EventsAfter reads keys of the topic's events behind a position, in order: at least limit, if there are as
// many, and a few more. It tells whether there may be further ones. With sized, each key carries its
// document's size.
//
// The query is {topic, sequence >= s} and the ties at s are dropped here: that is one plain index
// range on every server, where "sequence > s or (sequence = s and _id > id)" is not. Only when many
// events share the position's sequence, the rest of them is read by _id, and then what lies behind.
func (s *Store) EventsAfter(ctx context.Context, topic string, after Position, limit int, sized bool) (keys []EventKey, more bool, err error) {
	from := bson.D{{Key: "topic", Value: topic}, {Key: "sequence", Value: bson.D{{Key: "$gte", Value: after.Sequence}}}}
	keys, n, err := s.eventKeys(ctx, from, after, limit+tieSlack, sized)
	if err != nil || n < limit+tieSlack || len(keys) >= limit {
		return keys, n == limit+tieSlack, err
	}
	ties := bson.D{
		{Key: "topic", Value: topic},
		{Key: "sequence", Value: after.Sequence},
		{Key: "_id", Value: bson.D{{Key: "$gt", Value: after.EventID}}},
	}
	keys, n, err = s.eventKeys(ctx, ties, after, limit, sized)
	if err != nil || n == limit {
		return keys, true, err
	}
	beyond := bson.D{{Key: "topic", Value: topic}, {Key: "sequence", Value: bson.D{{Key: "$gt", Value: after.Sequence}}}}
	further, m, err := s.eventKeys(ctx, beyond, after, limit-n, sized)
	return append(keys, further...), n+m == limit, err
}

// eventKeys runs one query and returns the keys behind the position, and how many it read.
func (s *Store) eventKeys(ctx context.Context, filter bson.D, after Position, limit int, sized bool) ([]EventKey, int, error) {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	projection := bson.D{{Key: "sequence", Value: 1}, {Key: "createdAt", Value: 1}, {Key: "notBefore", Value: 1}}
	var cursor *mongo.Cursor
	var err error
	if sized {
		size := bson.E{Key: "size", Value: bson.D{{Key: "$bsonSize", Value: "$$ROOT"}}}
		cursor, err = s.events.Aggregate(ctx, mongo.Pipeline{
			{{Key: "$match", Value: filter}},
			{{Key: "$sort", Value: bySequence(1)}},
			{{Key: "$limit", Value: limit}},
			{{Key: "$project", Value: append(projection, size)}},
		}, options.Aggregate().SetBatchSize(int32(limit)))
	} else {
		cursor, err = s.events.Find(ctx, filter, options.Find().
			SetSort(bySequence(1)).SetLimit(int64(limit)).SetProjection(projection).SetBatchSize(int32(limit)))
	}
	all, err := readAll(ctx, cursor, err, readKey)
	if err != nil {
		return nil, 0, fmt.Errorf("pulse: read the events behind the cursor: %w", err)
	}
	keys := make([]EventKey, 0, len(all))
	for _, k := range all {
		if k.After(after) {
			keys = append(keys, k)
		}
	}
	return keys, len(all), nil
}

// EventsBehind reads the topic's events from one sequence to another, both included, of those that want is
// true for. It walks the index alone, in no order, and holds only what it returns in memory.
func (s *Store) EventsBehind(ctx context.Context, topic string, from, to bson.Timestamp, want func(Position) bool) ([]EventKey, error) {
	fail := func(err error) ([]EventKey, error) {
		return nil, fmt.Errorf("pulse: look behind the cursor: %w", err)
	}
	walk, cancel := s.deadline(ctx)
	defer cancel()
	cursor, err := s.events.Find(walk,
		bson.D{
			{Key: "topic", Value: topic},
			{Key: "sequence", Value: bson.D{{Key: "$gte", Value: from}, {Key: "$lte", Value: to}}},
		},
		options.Find().SetProjection(bson.D{{Key: "_id", Value: 1}, {Key: "sequence", Value: 1}}).SetBatchSize(10_000))
	if err != nil {
		return fail(err)
	}
	defer cursor.Close(context.WithoutCancel(walk))
	var ids []string
	for cursor.Next(walk) {
		if at := readKey(cursor.Current).Position; at.EventID != "" && want(at) {
			ids = append(ids, at.EventID)
		}
	}
	if err := cursor.Err(); err != nil || len(ids) == 0 {
		if err != nil {
			return fail(err)
		}
		return nil, nil
	}
	return s.EventKeys(ctx, ids)
}

// EventKeys reads the keys of events by ID, with their sizes. Those that are gone are absent.
func (s *Store) EventKeys(ctx context.Context, ids []string) ([]EventKey, error) {
	keys, _, err := s.eventKeys(ctx, bson.D{{Key: "_id", Value: in(ids)}}, Position{}, len(ids), true)
	return keys, err
}
