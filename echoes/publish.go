package echoes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/orionjs/orion-go/internal/hostile"
)

// PublishOption changes one call of Publish.
type PublishOption func(*Outgoing)

// WithID gives the event its ID, any text that is not empty. Publishing an ID
// again, for as long as its event is retained, stores nothing: with the same
// topic and params the result is marked as Duplicate, with others the error is a
// *pulse.ConflictError (spec 1.3). Default: a new UUIDv7.
func WithID(id string) PublishOption {
	return func(o *Outgoing) { o.ID, o.idGiven = id, true }
}

// WithKey names what the event is about, an order's number for example. Kafka
// keeps events with the same key in order: they share a partition. Pulse, whose
// order spans the topic, has no use for it. Default: none.
func WithKey(key string) PublishOption { return func(o *Outgoing) { o.Key = key } }

// UniqueKey publishes what may be published once under an ID that is made of topic
// and key alone: for as long as the first event of that key is stored, publishing
// again stores nothing and returns it as Duplicate, whatever the params, see
// pulse.UniqueKey. Only Pulse has it: an *InvalidEventError where Config.PublishTo
// selects Kafka too. It cannot be combined with WithID.
func UniqueKey(key string) PublishOption {
	return func(o *Outgoing) { o.UniqueKey, o.keyGiven = key, true }
}

// NotBefore publishes the event at a later time, see pulse.NotBefore; App.CancelScheduled
// takes it back until then. Only Pulse has it: an *InvalidEventError where
// Config.PublishTo selects Kafka too.
func NotBefore(at time.Time) PublishOption {
	return func(o *Outgoing) { o.NotBefore, o.timeGiven = at, true }
}

// WithHeaders adds headers, which handlers find in the event's context.
func WithHeaders(headers map[string]string) PublishOption {
	return func(o *Outgoing) {
		for k, v := range headers {
			if o.Headers == nil {
				o.Headers = make(map[string]string, len(headers))
			}
			o.Headers[k] = v
		}
	}
}

// Publisher publishes events. An *App is one; code that only publishes takes the
// interface, and its tests something of their own that remembers what it got.
type Publisher interface {
	// Publish publishes one event, see App.Publish.
	Publish(ctx context.Context, topic string, params any, opts ...PublishOption) (EventRef, error)
	// PublishMany publishes many, see App.PublishMany.
	PublishMany(ctx context.Context, topic string, drafts []Draft[any]) ([]Published, error)
}

var _ Publisher = (*App)(nil)

// Publish publishes params on a topic, to the transports that Config.PublishTo
// selects. params is anything that the MongoDB driver can encode, nil included;
// a bson.RawValue is taken as it is. For a type with //echoes:topic, echoesgen
// writes a function that calls it with the right topic, and without reflection.
//
// An *InvalidEventError says that the event can never be stored and nothing was;
// a *pulse.ConflictError and ErrClosed say the latter too. Any other error comes
// from a transport and leaves open whether the event was stored: publishing
// again WithID is safe.
//
// With ToBoth the event is stored in Pulse first and then sent to Kafka, under
// one ID. When the second fails the error says so and the reference carries the
// ID: publish again with WithID. A session in ctx concerns Pulse only, see
// pulse.Topic.Publish.
//
// Handlers may call it until Close has waited for them.
func (a *App) Publish(ctx context.Context, topic string, params any, opts ...PublishOption) (EventRef, error) {
	carriers, err := a.targets()
	if err != nil {
		return EventRef{}, err
	}
	out := Outgoing{Topic: topic}
	for _, opt := range opts {
		if opt != nil {
			opt(&out)
		}
	}
	if err := out.complete(params, carriers); err != nil {
		return EventRef{}, fmt.Errorf("echoes: publish to %s: %w", name(topic), invalid(topic, 0, err))
	}
	var ref EventRef
	for i, carrier := range carriers {
		got, err := carrier.Publish(ctx, out)
		switch {
		case err != nil && i > 0:
			return ref, fmt.Errorf("echoes: publish to %s: %w", topic, halfway(ref.ID, carriers[0], carrier, err))
		case err != nil:
			return EventRef{}, fmt.Errorf("echoes: publish to %s over %s: %w", topic, carrier.Name(), err)
		case i == 0:
			ref = got
		}
	}
	return ref, nil
}

// invalid makes an *InvalidEventError of an error that is none yet.
func invalid(topic string, index int, err error) error {
	return &InvalidEventError{Topic: topic, Index: index, Err: err}
}

// name is a topic as errors have it.
func name(topic string) string {
	if strings.TrimSpace(topic) == "" {
		return strconv.Quote(topic)
	}
	return topic
}

// halfway tells of an event that reached the first of two transports.
func halfway(id string, stored, failed Carrier, err error) error {
	return fmt.Errorf("event %s is stored in %s, but %s failed, publish again with WithID: %w", id, stored.Name(), failed.Name(), err)
}

// complete checks an event before it goes anywhere, and encodes its params. An ID
// is made up here only when several carriers have to agree on it.
func (o *Outgoing) complete(params any, carriers []Carrier) error {
	needsID := len(carriers) > 1
	kafka := slices.ContainsFunc(carriers, func(c Carrier) bool { return c.Name() == transportKafka })
	var err error
	switch {
	case strings.TrimSpace(o.Topic) == "":
		return errors.New("the topic is empty")
	case o.idGiven && o.ID == "":
		return errors.New("the ID given by WithID is empty")
	case o.keyGiven && o.UniqueKey == "":
		return errors.New("the key given by UniqueKey is empty")
	case o.timeGiven && o.NotBefore.IsZero():
		return errors.New("NotBefore has the zero time: give a time, or leave it out to publish at once")
	case kafka && o.UniqueKey != "":
		return errors.New("UniqueKey needs Pulse, and Config.PublishTo selects Kafka: publish to Pulse alone, or give the event an ID of your own and let handlers pass over what they have seen")
	case kafka && !o.NotBefore.IsZero():
		return errors.New("NotBefore needs Pulse, and Config.PublishTo selects Kafka, which has no publishing at a later time: publish to Pulse alone, or publish when it is time")
	}
	if o.Params, err = encodeParams(params); err != nil {
		return fmt.Errorf("params of type %T cannot be encoded: %w", params, err)
	}
	if o.ID == "" && needsID {
		id, err := uuid.NewV7()
		if err != nil {
			return fmt.Errorf("make an event ID: %w", err)
		}
		o.ID = id.String()
	}
	return nil
}

// targets returns the carriers to publish to.
func (a *App) targets() ([]Carrier, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.ready {
		if a.state == stateClosed {
			return nil, ErrClosed
		}
		return nil, ErrNotStarted
	}
	to := a.cfg.publishTo()
	carriers := make([]Carrier, 0, 2)
	for _, name := range []string{transportPulse, transportKafka} {
		if to == name || to == transportBoth {
			carriers = append(carriers, a.carrier(name))
		}
	}
	return carriers, nil
}

// encodeParams makes a BSON value of params. A panic of the params' own methods
// is an error.
func encodeParams(params any) (v bson.RawValue, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("its encoding panicked: %s", hostile.Print(r))
		}
	}()
	switch p := params.(type) {
	case nil:
		return bson.RawValue{Type: bson.TypeNull}, nil
	case bson.RawValue:
		d := NewDecoder(p)
		d.RawValue(&v)
		return v, d.Err()
	}
	t, b, err := bson.MarshalValue(params)
	return bson.RawValue{Type: t, Value: b}, err
}
