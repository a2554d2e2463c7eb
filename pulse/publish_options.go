package pulse

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/orionjs/orion-go/pulse/internal/clock"
	"github.com/orionjs/orion-go/pulse/internal/store"
)

// PublishOption changes how one event is published.
type PublishOption func(*publishOptions)

type publishOptions struct {
	id        string
	idGiven   bool
	key       string
	keyGiven  bool
	notBefore time.Time
	timeGiven bool
	headers   map[string]string
}

// WithID publishes under the caller's ID, any non-empty string, in place of a new UUIDv7. For as long as
// the event is retained, publishing again with the same ID, topic and data stores nothing and returns the
// stored event as Duplicate; with another topic or other data it is a *ConflictError (spec 1.3). The order
// of a document's keys makes no difference, headers are not compared.
func WithID(id string) PublishOption {
	return func(o *publishOptions) { o.id, o.idGiven = id, true }
}

// WithHeaders adds headers to the event; the map is copied.
func WithHeaders(headers map[string]string) PublishOption {
	return func(o *publishOptions) { o.headers = headers }
}

// UniqueKey publishes what may be published once, a monthly report for example, under an ID that is made of topic
// and key alone: for as long as the first event of that key is stored, publishing again stores nothing and returns
// it as Duplicate, whatever the data. The ID is the usual guard of WithID, so this holds for many publishers at
// once, in PublishMany and in transactions. The key is free again when MongoDB has deleted the event, that is
// Config.EventRetention after its publication, or after its NotBefore, and up to a minute or so; with NoTTL never,
// and earlier when CancelScheduled has deleted it. For another window make the time part of the key
// ("report/2030-01"). It cannot be combined with WithID.
func UniqueKey(key string) PublishOption {
	return func(o *publishOptions) { o.key, o.keyGiven = key, true }
}

// NotBefore publishes the event at a later time (spec 9.1). It is stored now and stays invisible to every group until
// then; some client with subscriptions, of whatever group, then gives it its place in the order, usually within
// milliseconds, and within Config.PollInterval when the client that published it is gone and nobody follows a change
// stream. Its time is judged by the server's clock. A time that is not in the future publishes at once.
//
// Event.NotBefore has the time, CreatedAt that of publishing. Config.EventRetention counts from NotBefore.
// CancelScheduled takes the event back before its time. In a transaction it is part of that, and is delivered at its
// time or after the commit, whichever is later.
func NotBefore(at time.Time) PublishOption {
	return func(o *publishOptions) { o.notBefore, o.timeGiven = at, true }
}

// complete checks the options and fills in the event's ID.
func (o *publishOptions) complete(topic string) error {
	switch {
	case o.keyGiven && o.idGiven:
		return fmt.Errorf("both UniqueKey(%q) and WithID(%q) are given, and the key makes the ID: remove one of them", o.key, o.id)
	case o.keyGiven && o.key == "":
		return errors.New("the unique key is empty: name what may be published once, or leave UniqueKey out")
	case o.keyGiven && !utf8.ValidString(o.key):
		return fmt.Errorf("the unique key %q is not valid UTF-8", o.key)
	case o.keyGiven:
		o.id, o.idGiven = uniqueID(topic, o.key), true
	case o.idGiven && o.id == "":
		return errors.New("the event's ID is empty: give one, or leave WithID out for a new one")
	case o.idGiven && !utf8.ValidString(o.id):
		return fmt.Errorf("the event's ID %q is not valid UTF-8", o.id)
	case !o.idGiven:
		id, err := uuid.NewV7()
		if err != nil {
			return fmt.Errorf("make an event ID: %w", err)
		}
		o.id = id.String()
	}
	if !o.timeGiven {
		return nil
	}
	switch year := o.notBefore.UTC().Year(); {
	case o.notBefore.IsZero():
		return errors.New("NotBefore has the zero time: give a time, or leave it out to publish at once")
	case year < 1 || year > lastYear: // years beyond what package time counts come out as ones before 1
		return fmt.Errorf("NotBefore(%v): the year must be from 1 to %d: is the time made of milliseconds as if they were seconds?", o.notBefore, lastYear)
	}
	// Stored in milliseconds, and never too early.
	if ms := o.notBefore.UTC().Truncate(time.Millisecond); ms.Before(o.notBefore) {
		o.notBefore = ms.Add(time.Millisecond)
	} else {
		o.notBefore = ms
	}
	return nil
}

// lastYear bounds NotBefore, so that the retention can be added and every client can read the date.
const lastYear = 9999

// uniqueID is the ID of the event that a topic has under a unique key: a UUID of the kind for own uses, version 8.
func uniqueID(topic, key string) string {
	text := binary.AppendUvarint(nil, uint64(len(topic))) // so that no other topic and key make the same text
	text = append(append(text, topic...), key...)
	sum := sha256.Sum256(text)
	var id uuid.UUID
	copy(id[:], sum[:])
	id[6], id[8] = id[6]&0x0f|0x80, id[8]&0x3f|0x80
	return id.String()
}

// prepared is an event ready to be stored, as a document, as it is read back, and as the caller and the
// handlers see it.
type prepared[T any] struct {
	doc     bson.Raw
	stored  store.Event
	event   *Event[T]
	idGiven bool
	byKey   bool // its ID is made of a UniqueKey, whose first event counts whatever its data
}

// prepare checks and encodes one event, within a transaction or for a later time as one that waits.
func (t Topic[T]) prepare(c *Client, o publishOptions, data T, within bool) (prepared[T], error) {
	none := prepared[T]{}
	if err := o.complete(t.name); err != nil {
		return none, err
	}
	for key, value := range o.headers {
		if !utf8.ValidString(key) || !utf8.ValidString(value) {
			return none, fmt.Errorf("header %q is not valid UTF-8", key)
		}
	}
	value, err := encode(data)
	if err != nil {
		return none, fmt.Errorf("cannot encode data of type %T as BSON: %w", data, err)
	}
	now := clock.Now().UTC().Truncate(time.Millisecond)
	event := store.Event{
		ID: o.id, Topic: t.name, Data: value, Headers: o.headers, Publisher: c.config.ConsumerGroup, CreatedAt: now,
	}
	published := now
	if o.timeGiven && o.notBefore.After(c.store.Now()) {
		event.NotBefore, published = o.notBefore, o.notBefore
	}
	if c.config.EventRetention != NoTTL {
		event.ExpiresAt = published.Add(c.config.EventRetention)
	}
	var doc bson.Raw
	if within || !event.NotBefore.IsZero() {
		doc, err = event.PendingDocument(c.store.NextPending())
	} else {
		doc, err = event.Document()
	}
	if err != nil {
		return none, fmt.Errorf("cannot encode the event: %w", err)
	}
	if len(doc) > maxEventBytes {
		return none, fmt.Errorf("the event has %d bytes, MongoDB stores at most %d in a document: store large content elsewhere and publish a reference", len(doc), maxEventBytes)
	}
	// Read back from the stored bytes, so that the caller sees what handlers will see (spec 1.5), and now:
	// data that its own type cannot read would fail every handler.
	stored := store.ReadEvent(doc)
	seen, err := newEvent[T](stored)
	if err != nil {
		return none, fmt.Errorf("data of type %T is encoded as BSON that the type cannot decode: %w", data, err)
	}
	return prepared[T]{doc: doc, stored: stored, event: seen, idGiven: o.idGiven, byKey: o.keyGiven}, nil
}
