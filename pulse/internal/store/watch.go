package store

import (
	"context"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readconcern"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"

	"github.com/orionjs/orion-go/pulse/internal/delivery"
)

// NoticeKind is what a change stream tells of.
type NoticeKind int

const (
	// EventPublished: the topic has a new event.
	EventPublished NoticeKind = iota
	// EventPending: an event of a transaction was committed, and waits to be stamped.
	EventPending
	// EventWaiting: an event was published for a later time, Due.
	EventWaiting
	// DeliveryStored: the topic has a new pending version 2 delivery of the group, due at Due.
	DeliveryStored
	// DeliveryDue: some version 2 delivery, of whatever group and topic, is pending again and due at
	// Due. An update's notice carries only the fields that changed.
	DeliveryDue
	// AttemptStored: the topic has another version 1 attempt of the group, a first one or a later one, due
	// at Due.
	AttemptStored
	// AttemptDue: some version 1 attempt, of whatever group and topic, is due at another time than before, which
	// only tools bring about.
	AttemptDue
)

// Notice is one change that somebody may have to act on.
type Notice struct {
	Kind   NoticeKind
	Topic  string
	Format Format
	// Due is by the clock of whoever stored it as he knew the server's; another client may be a little behind,
	// and would not find yet what it is told of.
	Due time.Time
	// Event is what was published; its size is not known.
	Event EventKey
}

// watchWait is how long the server holds an empty answer back. The stream ends with its context, so a
// long wait costs nothing but saves commands on an idle system.
const watchWait = 15 * time.Second

// Watch opens a change stream over the events and the group's deliveries. It must be read, and closed,
// by one goroutine.
//
// It is a plain cursor over a change stream, not the driver's mongo.ChangeStream: that one resumes by
// itself after errors that it takes for passing ones, at once and as often as they come, and a server that
// keeps failing would be asked without a pause. Here every end is an end, and the caller decides when to
// open the next.
func (s *Store) Watch(ctx context.Context, group string) (*Stream, error) {
	events, deliveries, history := s.events.Name(), s.deliveries.Name(), s.history.Name()
	pipeline := mongo.Pipeline{
		{{Key: "$changeStream", Value: bson.D{}}},
		{{Key: "$match", Value: bson.D{{Key: "$or", Value: bson.A{
			bson.D{{Key: "ns.coll", Value: events}, {Key: "operationType", Value: in([]string{"insert", "replace"})}},
			bson.D{
				{Key: "ns.coll", Value: deliveries},
				{Key: "operationType", Value: "insert"},
				{Key: "fullDocument.consumerGroup", Value: group},
				{Key: "fullDocument.status", Value: delivery.StatusPending},
			},
			bson.D{
				{Key: "ns.coll", Value: history},
				{Key: "operationType", Value: "insert"},
				{Key: "fullDocument.consumerGroup", Value: group},
			},
			bson.D{
				{Key: "ns.coll", Value: deliveries},
				{Key: "operationType", Value: "update"},
				{Key: "updateDescription.updatedFields.status", Value: delivery.StatusPending},
			},
			bson.D{
				{Key: "ns.coll", Value: in([]string{deliveries, history})},
				{Key: "operationType", Value: "update"},
				{Key: "updateDescription.updatedFields.nextAttemptAt", Value: bson.D{{Key: "$type", Value: "date"}}},
			},
		}}}}},
		{{Key: "$project", Value: bson.D{
			{Key: "operationType", Value: 1},
			{Key: "ns", Value: 1},
			{Key: "fullDocument._id", Value: 1},
			{Key: "fullDocument.sequence", Value: 1},
			{Key: "fullDocument.createdAt", Value: 1},
			{Key: "fullDocument.notBefore", Value: 1},
			{Key: "fullDocument.topic", Value: 1},
			{Key: "fullDocument.nextAttemptAt", Value: 1},
			{Key: "updateDescription.updatedFields.nextAttemptAt", Value: 1},
		}}},
	}
	ctx, cancel := s.deadline(ctx) // of the opening alone
	defer cancel()
	// Change streams know no other read concern, whatever the caller's client is set to.
	db := s.db.Client().Database(s.db.Name(), options.Database().
		SetReadPreference(readpref.Primary()).SetReadConcern(readconcern.Majority()))
	cursor, err := db.Aggregate(ctx, pipeline, options.Aggregate().SetMaxAwaitTime(watchWait))
	if err != nil {
		return nil, err
	}
	return &Stream{cursor: cursor, events: events, history: history}, nil
}

// Stream is an open change stream.
type Stream struct {
	cursor          *mongo.Cursor
	events, history string
}

// Next waits for the next notice. It returns false when the stream has ended, then Err says why; nil
// means that the server ended it, as it does when the database is dropped.
func (st *Stream) Next(ctx context.Context) (Notice, bool) {
	for !st.tryNext(ctx) {
		if st.cursor.Err() != nil || st.cursor.ID() == 0 || ctx.Err() != nil {
			return Notice{}, false
		}
	}
	f := parse(st.cursor.Current)
	ns, _ := f["ns"].DocumentOK()
	full, _ := f["fullDocument"].DocumentOK()
	document := parse(full)
	n := Notice{Topic: document.str("topic")}
	switch coll := parse(ns).str("coll"); {
	case coll == st.events:
		n.Kind, n.Event = EventPublished, readKey(full)
		if due, ok := document.date("topic"); ok {
			n.Kind, n.Due = EventWaiting, due
		} else if !document.has("sequence") {
			n.Kind = EventPending
		}
	case coll == st.history && f.str("operationType") == "insert":
		n.Kind, n.Format, n.Due = AttemptStored, V1, document.time("nextAttemptAt")
	case f.str("operationType") == "insert":
		n.Kind, n.Format, n.Due = DeliveryStored, V2, document.time("nextAttemptAt")
	default:
		n.Kind, n.Format = DeliveryDue, V2
		if coll == st.history {
			n.Kind, n.Format = AttemptDue, V1
		}
		description, _ := f["updateDescription"].DocumentOK()
		updated, _ := parse(description)["updatedFields"].DocumentOK()
		n.Due = parse(updated).time("nextAttemptAt")
	}
	return n, true
}

// tryNext waits for one answer of the server, which may be empty.
func (st *Stream) tryNext(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, watchWait+DefaultTimeout)
	defer cancel()
	return st.cursor.TryNext(ctx)
}

// Err returns why the stream ended.
func (st *Stream) Err() error { return st.cursor.Err() }

// closeTimeout bounds the end of a stream: the server ends one that nobody reads by itself.
const closeTimeout = 2 * time.Second

// Close ends the stream on the server.
func (st *Stream) Close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, closeTimeout)
	defer cancel()
	return st.cursor.Close(ctx)
}
