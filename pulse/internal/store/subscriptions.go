package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// GoOwner begins the owner of a lease that a client of this implementation holds.
const GoOwner = "go:"

// Position is a place in a topic's order of events: (sequence, event ID).
type Position struct {
	Sequence bson.Timestamp
	EventID  string
}

// Beginning is the place before every event. It is not the zero Timestamp: a server replaces that
// one by its own time when it is stored.
var Beginning = Position{Sequence: bson.Timestamp{T: 0, I: 1}}

// After tells whether p lies behind q.
func (p Position) After(q Position) bool {
	if c := p.Sequence.Compare(q.Sequence); c != 0 {
		return c > 0
	}
	return p.EventID > q.EventID
}

// Subscription is the durable subscription of a consumer group to a topic.
type Subscription struct {
	ID, ConsumerGroup, Topic string
	Settings                 StoredSettings
	// Created tells that EnsureSubscription has just created it.
	Created bool
	// Cursor is the last event that has a delivery.
	Cursor Position
	// Start is where the subscription began, or where a client of this implementation took it over; Settled
	// the sequence up to which no event can appear any more. Both are zero when they are not known.
	Start   Position
	Settled bson.Timestamp
	// LeaderUntil is when the discovery lease ends, by the server's clock; zero when free.
	LeaderUntil time.Time
	// LeftBy is the owner of the discovery lease, unless it was released.
	LeftBy string
	// LedByNode tells that the last leader was not a client of this implementation (spec 3.1).
	LedByNode bool
	// Paused is nil unless an operator has paused the subscription: nothing of it is claimed then.
	Paused *Pause
}

func readSubscription(raw bson.Raw) Subscription {
	f := parse(raw)
	sub := Subscription{
		ID: f.str("_id"), ConsumerGroup: f.str("consumerGroup"), Topic: f.str("topic"),
		Settings: readSettings(f), Cursor: Beginning, LeaderUntil: f.time("discoveryLockedUntil"), Paused: readPause(f, "paused"),
		LedByNode: f.has("discoveryLockOwner") && !strings.HasPrefix(f.str("discoveryLockOwner"), GoOwner),
	}
	if f.has("discoveryLockToken") {
		sub.LeftBy = f.str("discoveryLockOwner")
	}
	if seq, ok := f.timestamp("startSequence"); ok {
		sub.Start = Position{Sequence: seq, EventID: f.str("startSequenceEventId")}
	}
	sub.Settled, _ = f.timestamp("settledSequence")
	if seq, ok := f.timestamp("cursorSequence"); ok && seq.Compare(Beginning.Sequence) >= 0 {
		sub.Cursor = Position{Sequence: seq, EventID: f.str("cursorSequenceEventId")}
	}
	return sub
}

// errKeepsChanging says that a bounded loop of compare-and-set ran out.
var errKeepsChanging = errors.New("it was changed by others at each of 20 tries; try again")

// EnsureSubscription returns the group's subscription to the topic as stored after it was created with
// the wanted settings, raised to them (their version is higher), or left alone (their version is not
// higher: the caller compares). Any number of replicas may call it at once: one creates, one raises (spec
// 2.6, 2.8).
func (s *Store) EnsureSubscription(ctx context.Context, group, topic string, want Settings) (Subscription, error) {
	fail := func(err error) (Subscription, error) {
		return Subscription{}, fmt.Errorf("pulse: consumer group %s, topic %s: store the subscription: %w", group, topic, err)
	}
	for range 20 {
		raw, err := s.findSubscription(ctx, group, topic)
		created := errors.Is(err, mongo.ErrNoDocuments)
		if created {
			raw, err = s.createSubscription(ctx, group, topic, want)
			if mongo.IsDuplicateKeyError(err) {
				continue // another replica was faster
			}
		}
		if err != nil {
			return fail(err)
		}
		sub := readSubscription(raw)
		if sub.ID == "" {
			// Every lease is a write to the document by its ID, and Node's are strings.
			return fail(fmt.Errorf("its _id is %v, and no client can lead a subscription whose _id is no string: stop all replicas of the group, store the document again under a string, or delete it to begin by the offset reset", raw.Lookup("_id")))
		}
		sub.Created = created
		if want.ConfigVersion <= sub.Settings.ConfigVersion() {
			return sub, nil
		}
		raw, err = s.raiseSettings(ctx, raw, want)
		if errors.Is(err, mongo.ErrNoDocuments) {
			continue // raised by another replica meanwhile
		}
		if err != nil {
			return fail(err)
		}
		return readSubscription(raw), nil
	}
	return fail(errKeepsChanging)
}

func (s *Store) findSubscription(ctx context.Context, group, topic string) (bson.Raw, error) {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	return s.subscriptions.FindOne(ctx, bson.D{{Key: "consumerGroup", Value: group}, {Key: "topic", Value: topic}}).Raw()
}

func (s *Store) createSubscription(ctx context.Context, group, topic string, want Settings) (bson.Raw, error) {
	start := Beginning
	if want.OffsetReset == OffsetLatest {
		newest, err := s.NewestEvent(ctx, topic)
		if err != nil {
			return nil, err
		}
		start = newest
	}
	now := s.Now()
	doc := bson.D{
		{Key: "_id", Value: newID()},
		{Key: "consumerGroup", Value: group},
		{Key: "topic", Value: topic},
	}
	doc = append(doc, want.document()...)
	if want.ExecutionVersion == 2 {
		doc = append(doc, bson.E{Key: "embeddedExecutionSeen", Value: true})
	}
	doc = append(doc,
		bson.E{Key: "createdAt", Value: now},
		bson.E{Key: "updatedAt", Value: now},
		bson.E{Key: "cursorSequence", Value: start.Sequence},
		bson.E{Key: "cursorSequenceEventId", Value: start.EventID},
		// Where the subscription began: a later look behind the cursor must not reach further back.
		bson.E{Key: "startSequence", Value: start.Sequence},
		bson.E{Key: "startSequenceEventId", Value: start.EventID},
	)
	if want.OffsetReset == OffsetLatest {
		// The bridge keeps a second cursor over events that have no sequence; without it, it would
		// deliver all of those that are retained.
		doc = append(doc, bson.E{Key: "cursorCreatedAt", Value: now}, bson.E{Key: "cursorEventId", Value: ""})
	}
	raw, err := bson.Marshal(doc)
	if err != nil {
		return nil, err
	}
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	_, err = s.subscriptions.InsertOne(ctx, raw)
	return raw, err
}

// raiseSettings replaces all stored settings, if the stored version is still the one in old.
func (s *Store) raiseSettings(ctx context.Context, old bson.Raw, want Settings) (bson.Raw, error) {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	set := append(want.document(), bson.E{Key: "updatedAt", Value: s.Now()})
	if want.ExecutionVersion == 2 {
		set = append(set, bson.E{Key: "embeddedExecutionSeen", Value: true})
	}
	f := parse(old)
	return s.subscriptions.FindOneAndUpdate(ctx,
		bson.D{f.fence("_id"), f.fence("configVersion")},
		bson.D{{Key: "$set", Value: set}},
		options.FindOneAndUpdate().SetReturnDocument(options.After),
	).Raw()
}

// Subscriptions reads the group's subscriptions to the topics.
func (s *Store) Subscriptions(ctx context.Context, group string, topics []string) ([]Subscription, error) {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	cursor, err := s.subscriptions.Find(ctx, bson.D{{Key: "consumerGroup", Value: group}, {Key: "topic", Value: in(topics)}})
	subs, err := readAll(ctx, cursor, err, readSubscription)
	if err != nil {
		return nil, fmt.Errorf("pulse: consumer group %s: read the subscriptions: %w", group, err)
	}
	return subs, nil
}

// readAll drains a cursor, given with the error of the command that made it.
func readAll[T any](ctx context.Context, cursor *mongo.Cursor, err error, read func(bson.Raw) T) ([]T, error) {
	if err != nil {
		return nil, err
	}
	defer cursor.Close(context.WithoutCancel(ctx))
	var out []T
	for cursor.Next(ctx) {
		out = append(out, read(cursor.Current))
	}
	return out, cursor.Err()
}

// newID returns a UUIDv7.
func newID() string { return uuid.Must(uuid.NewV7()).String() }
