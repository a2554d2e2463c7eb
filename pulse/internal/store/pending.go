package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/orionjs/orion-go/pulse/internal/clock"
)

// An event that is published in a caller's transaction becomes visible by the commit, which may be long
// after the server numbered the insert: a sequence of then would lie far behind the cursors of now. So it is
// stored without topic and sequence, invisible to every reader, and gets both after the commit from whoever
// notices it first (spec 3.5a). That is a replacement, because a server fills an empty Timestamp in inserts
// and replacements only; its guard lets one of many win.

// Bounds of stamping: how many events one round looks at, and what one command takes.
const (
	stampEvents = 10_000
	stampChunk  = 100
	stampBytes  = 16 << 20
)

// An event that the server refuses to stamp is put off for as long as it has been overdue already, within these.
const (
	putOffLeast = time.Second
	putOffMost  = time.Hour
)

// PendingDocument encodes the event to be stored in a transaction, or, with NotBefore, for a later time, from which
// the stamp makes the document that Document would have made. Its pendingOrder keeps the order of one publisher's
// events, and roughly that of several.
func (e Event) PendingDocument(order int64) (bson.Raw, error) {
	topic := bson.D{{Key: "pendingTopic", Value: e.Topic}}
	if !e.NotBefore.IsZero() {
		topic = append(topic, bson.E{Key: "topic", Value: e.NotBefore})
	}
	return e.document(topic, bson.E{Key: "pendingOrder", Value: order})
}

// NextPending returns a pendingOrder: the time in nanoseconds, higher at each call.
func (s *Store) NextPending() int64 {
	for {
		last := s.lastPending.Load()
		next := max(clock.Now().UnixNano(), last+1)
		if s.lastPending.CompareAndSwap(last, next) {
			return next
		}
	}
}

// InsertPending stores events in the transaction whose session is in ctx. After an error the transaction
// cannot be committed.
func (s *Store) InsertPending(ctx context.Context, docs []bson.Raw) error {
	ctx, cancel := s.joined(ctx)
	defer cancel()
	_, err := s.events.InsertMany(ctx, docs)
	return err
}

// EventsWithin reads events by ID as the transaction sees them whose session is in ctx.
func (s *Store) EventsWithin(ctx context.Context, ids []string) (map[string]Event, error) {
	stored := make(map[string]Event, len(ids))
	err := s.eventsInto(ctx, ids, stored)
	return stored, err
}

// pending selects events that wait to be stamped; {topic, sequence, _id} is an index.
func pending() bson.D {
	text := bson.D{{Key: "$type", Value: "string"}}
	return bson.D{{Key: "topic", Value: nil}, {Key: "sequence", Value: nil}, {Key: "_id", Value: text}, {Key: "pendingTopic", Value: text}}
}

// unstamped selects those of the events that were pending and still are. It leaves topic out, for with it
// a planner may prefer the index of all pending ones to that of _id.
func unstamped(id any) bson.D {
	return bson.D{{Key: "_id", Value: id}, {Key: "sequence", Value: nil}}
}

// Stamped is what a round of stamping found.
type Stamped struct {
	// IDs and Topics are of events that are stamped now, by this client or by another one in this moment.
	IDs, Topics []string
	// Refused tells of events that the server refuses to stamp. They are put off.
	Refused []error
	// More tells that there may be others, and that another round would come to them.
	More bool
	// Early tells that some events that seemed due were not stamped: by another client in this moment, or they are not
	// due yet by the server's clock.
	Early bool
	// Next is when to look again for events that are published for a later time, or put off; zero when no poll would be
	// too late.
	Next time.Time
}

// Stamp gives committed events of transactions their topic and sequence. All clients go through them in one
// order, so that none overtakes another of its publisher. Uncommitted ones are not seen, and wait for nobody.
func (s *Store) Stamp(ctx context.Context) (Stamped, error) {
	keys, err := s.pendingKeys(ctx)
	var stamped Stamped
	var done stampCount
	if err == nil {
		done, err = s.stampAll(ctx, keys, nil, &stamped)
	}
	if err != nil {
		err = fmt.Errorf("pulse: give events of transactions their place in the order: %w", err)
	}
	// Those that are refused and cannot be put off either are met again: they alone are no reason to go on.
	stamped.More = len(keys) == s.stampPage && len(stamped.Refused)-done.putOff < len(keys)
	return stamped, err
}

// stampCount is what one client has done: events that it has stamped, and refused ones that it has put off.
type stampCount struct{ changed, putOff int }

// stampAll stamps events in their order, in portions. Of each it reads the document, by unstamped and a further stage
// if there is one.
func (s *Store) stampAll(ctx context.Context, keys []pendingKey, now bson.D, stamped *Stamped) (done stampCount, err error) {
	for len(keys) > 0 && err == nil {
		n, size := 0, 0
		for n < min(stampChunk, len(keys)) && (n == 0 || size+keys[n].size <= stampBytes) {
			size += keys[n].size
			n++
		}
		var some stampCount
		some, err = s.stamp(ctx, keys[:n], now, stamped)
		done.changed += some.changed
		done.putOff += some.putOff
		keys = keys[n:]
	}
	return done, err
}

type pendingKey struct {
	id    string
	due   time.Time // zero for an event of a transaction
	order int64
	size  int
}

func (k pendingKey) compare(other pendingKey) int {
	return cmp.Or(k.due.Compare(other.due), cmp.Compare(k.order, other.order), cmp.Compare(k.id, other.id))
}

func readPendingKey(raw bson.Raw) pendingKey {
	f := parse(raw)
	key := pendingKey{id: f.str("_id")}
	key.size, _ = f.int("size")
	if order, ok := f["pendingOrder"].Int64OK(); ok {
		key.order = order
	} else {
		key.order = f.time("createdAt").UnixNano()
	}
	return key
}

// pendingKeys returns the waiting events in the order of their stamps.
func (s *Store) pendingKeys(ctx context.Context) ([]pendingKey, error) {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	cursor, err := s.events.Aggregate(ctx, mongo.Pipeline{
		{{Key: "$match", Value: pending()}},
		{{Key: "$project", Value: bson.D{
			{Key: "pendingOrder", Value: 1}, {Key: "createdAt", Value: 1}, {Key: "size", Value: bson.D{{Key: "$bsonSize", Value: "$$ROOT"}}},
		}}},
		{{Key: "$sort", Value: bson.D{{Key: "pendingOrder", Value: 1}, {Key: "_id", Value: 1}}}},
		{{Key: "$limit", Value: s.stampPage}},
	})
	keys, err := readAll(ctx, cursor, err, readPendingKey)
	slices.SortFunc(keys, pendingKey.compare)
	return keys, err
}

// stamp stamps one portion.
func (s *Store) stamp(ctx context.Context, keys []pendingKey, now bson.D, stamped *Stamped) (done stampCount, err error) {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	ids, place := make([]string, len(keys)), make(map[string]int, len(keys))
	for i, key := range keys {
		ids[i], place[key.id] = key.id, i
	}
	pipeline := mongo.Pipeline{{{Key: "$match", Value: unstamped(in(ids))}}}
	if now != nil {
		pipeline = append(pipeline, now)
	}
	cursor, err := s.events.Aggregate(ctx, pipeline)
	docs, err := readAll(ctx, cursor, err, func(raw bson.Raw) bson.Raw { return slices.Clone(raw) })
	if err != nil || len(docs) == 0 {
		return done, err
	}
	slices.SortFunc(docs, func(a, b bson.Raw) int {
		return cmp.Compare(place[a.Lookup("_id").StringValue()], place[b.Lookup("_id").StringValue()])
	})
	models := make([]mongo.WriteModel, 0, len(docs))
	for _, raw := range docs {
		doc, err := stampedDocument(raw)
		if err != nil {
			return done, err
		}
		models = append(models, mongo.NewReplaceOneModel().
			SetFilter(unstamped(raw.Lookup("_id"))).
			SetReplacement(doc))
		stamped.IDs = append(stamped.IDs, raw.Lookup("_id").StringValue())
		if topic, ok := raw.Lookup("pendingTopic").StringValueOK(); ok && !slices.Contains(stamped.Topics, topic) {
			stamped.Topics = append(stamped.Topics, topic)
		}
	}
	var refused []bson.Raw
	for len(models) > 0 {
		res, err := s.events.BulkWrite(ctx, models, options.BulkWrite().SetOrdered(true))
		if res != nil {
			done.changed += int(res.ModifiedCount)
		}
		var problem mongo.BulkWriteException
		if errors.As(err, &problem) && len(problem.WriteErrors) > 0 && problem.WriteConcernError == nil {
			// A document that no client writes, and no replacement can be made of: the others go on behind it.
			at := problem.WriteErrors[0].Index
			refused = append(refused, docs[at])
			stamped.Refused = append(stamped.Refused, fmt.Errorf("pulse: the event %v is passed over and tried again later, for the server refuses to give it its place in the order: %w", docs[at].Lookup("_id"), err))
			models, docs = models[at+1:], docs[at+1:]
			continue
		}
		if err != nil {
			return done, err
		}
		break
	}
	done.putOff, err = s.putOff(ctx, refused, stamped)
	return done, err
}

// putOff moves events that were refused to a later time, as if they had been published for it, so that however many
// there are they hide no others. One that was overdue for long is put off for long: nothing has to be counted.
func (s *Store) putOff(ctx context.Context, docs []bson.Raw, stamped *Stamped) (int, error) {
	if len(docs) == 0 {
		return 0, nil
	}
	now := s.Now()
	models := make([]mongo.WriteModel, len(docs))
	for i, raw := range docs {
		f := parse(raw)
		overdue := now.Sub(latest(f.time("createdAt"), f.time("notBefore")))
		next := now.Add(min(max(overdue, putOffLeast), putOffMost))
		stamped.Next = sooner(stamped.Next, next)
		models[i] = mongo.NewUpdateOneModel().SetFilter(unstamped(raw.Lookup("_id"))).SetUpdate(bson.D{
			{Key: "$set", Value: bson.D{{Key: "topic", Value: next}}},
		})
	}
	res, err := s.events.BulkWrite(ctx, models, options.BulkWrite().SetOrdered(false))
	var problem mongo.BulkWriteException
	if errors.As(err, &problem) && problem.WriteConcernError == nil {
		err = nil // refused like the stamp, as by a validator: they stay where they are
	}
	if res == nil {
		return 0, err
	}
	return int(res.MatchedCount), err
}

// sooner is the first of two times; zero is none.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// stampedDocument is the document of a waiting event as a plain publish would have made it.
func stampedDocument(raw bson.Raw) (bson.D, error) {
	elements, err := raw.Elements()
	if err != nil {
		return nil, err
	}
	sequence := bson.E{Key: "sequence", Value: bson.Timestamp{}}
	numbered := false
	doc := make(bson.D, 0, len(elements)+1)
	for _, e := range elements {
		switch e.Key() {
		case "pendingTopic":
			doc = append(doc, bson.E{Key: "topic", Value: e.Value()})
		case "pendingOrder":
			doc, numbered = append(doc, sequence), true
		case "topic", "sequence": // null, or the date of one that was published for a later time
		default:
			doc = append(doc, bson.E{Key: e.Key(), Value: e.Value()})
		}
	}
	if !numbered {
		doc = append(doc, sequence)
	}
	return doc, nil
}

// errForeignSession says that a transaction of another mongo.Client cannot be joined.
var errForeignSession = errors.New("the context's transaction belongs to another mongo.Client: make the Pulse client with pulse.New on the mongo.Client that began it, or publish with a context without its session")

// Joins tells whether ctx carries a running transaction that an insert would join.
func (s *Store) Joins(ctx context.Context) (bool, error) {
	session := mongo.SessionFromContext(ctx)
	if session == nil || !session.TransactionRunning() {
		return false, nil
	}
	if session.Client() != s.db.Client() {
		return false, errForeignSession
	}
	return true, nil
}
