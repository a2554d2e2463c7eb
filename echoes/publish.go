package echoes

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
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
	if err := out.complete(params, len(carriers) > 1); err != nil {
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
func (o *Outgoing) complete(params any, needsID bool) error {
	var err error
	switch {
	case strings.TrimSpace(o.Topic) == "":
		return errors.New("the topic is empty")
	case o.idGiven && o.ID == "":
		return errors.New("the ID given by WithID is empty")
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
			err = fmt.Errorf("its encoding panicked: %v", r)
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
