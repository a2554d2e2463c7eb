package echoes

import (
	"context"
	"errors"
	"fmt"

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

// Publish publishes params on a topic, to the transports that Config.PublishTo
// selects. params is anything that the MongoDB driver can encode, nil included;
// a bson.RawValue is taken as it is.
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
	switch {
	case topic == "":
		return EventRef{}, errors.New("echoes: publish: the topic is empty")
	case out.idGiven && out.ID == "":
		return EventRef{}, fmt.Errorf("echoes: publish to %s: the ID given by WithID is empty", topic)
	}
	if out.Params, err = encodeParams(params); err != nil {
		return EventRef{}, fmt.Errorf("echoes: publish to %s: params of type %T cannot be encoded: %w", topic, params, err)
	}
	if out.ID == "" && len(carriers) > 1 {
		id, err := uuid.NewV7()
		if err != nil {
			return EventRef{}, fmt.Errorf("echoes: publish to %s: make an event ID: %w", topic, err)
		}
		out.ID = id.String()
	}
	var ref EventRef
	for i, carrier := range carriers {
		got, err := carrier.Publish(ctx, out)
		switch {
		case err != nil && i > 0:
			return ref, fmt.Errorf("echoes: publish to %s: event %s is stored in %s, but %s failed, publish again with WithID: %w",
				topic, ref.ID, carriers[0].Name(), carrier.Name(), err)
		case err != nil:
			return EventRef{}, fmt.Errorf("echoes: publish to %s over %s: %w", topic, carrier.Name(), err)
		case i == 0:
			ref = got
		}
	}
	return ref, nil
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
