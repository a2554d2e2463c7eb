package echoes

import (
	"context"
	"errors"
	"path"
	"reflect"
	"runtime"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// Service is a struct with annotated methods. Its EchoesListeners is written by
// echoesgen; a service that was never generated does not compile where it is
// given to New.
type Service interface {
	EchoesListeners() []Listener
}

// Kind is the kind of a listener.
type Kind string

// The kinds of listeners.
const (
	// KindEvent receives one event a call.
	KindEvent Kind = "event"
	// KindBatch receives several events a call, as one unit that succeeds or is
	// retried as a whole.
	KindBatch Kind = "batch"
)

// Message is one event as a transport hands it to a listener.
type Message struct {
	// Params is what was published, undecoded. The zero value means that the
	// stored event has none, which is a decode error. Its bytes belong to the
	// handler from now on: they are not changed, see ZeroCopy.
	Params bson.RawValue
	// Err is why the transport could not find the params. It is a decode error
	// too.
	Err error
	// Event says what the transport knows about the event.
	Event EventContext
}

// Listener is one annotated method: a topic, a handler, and how to decode what
// the handler takes. Make one with On, OnItem or OnBatch.
type Listener struct {
	topic    string
	kind     Kind
	size     int
	position string
	method   string
	settings Settings
	handle   func(ctx context.Context, ms []Message, how decoding) error
}

// decoding is how the items of a call are decoded.
type decoding struct {
	zeroCopy bool
	// invalid takes what cannot be decoded and leaves it out; nil fails the call.
	invalid func(*DecodeError)
}

// On makes a listener whose handler takes the parameters alone; FromContext
// gives it the rest.
func On[P any](topic string, handle func(context.Context, P) error, decode func(*Decoder, *P), opts ...Option) Listener {
	l := newListener(topic, KindEvent, 1, handle, opts)
	if handle == nil || decode == nil {
		return l
	}
	l.handle = func(ctx context.Context, ms []Message, how decoding) error {
		p, err := decodeMessage(&Decoder{zeroCopy: how.zeroCopy}, &ms[0], decode)
		if err != nil {
			return err
		}
		return handle(ctx, p)
	}
	return l
}

// OnItem makes a listener whose handler takes the parameters and the event's
// context.
func OnItem[P any](topic string, handle func(context.Context, Item[P]) error, decode func(*Decoder, *P), opts ...Option) Listener {
	l := newListener(topic, KindEvent, 1, handle, opts)
	if handle == nil || decode == nil {
		return l
	}
	l.handle = func(ctx context.Context, ms []Message, how decoding) error {
		p, err := decodeMessage(&Decoder{zeroCopy: how.zeroCopy}, &ms[0], decode)
		if err != nil {
			return err
		}
		return handle(ctx, Item[P]{Params: p, EventContext: ms[0].Event})
	}
	return l
}

// OnBatch makes a listener whose handler takes up to size events, in the order
// of their publication. A call that returns an error is repeated as a whole.
// With OnInvalid("skip") a batch of which no item can be decoded succeeds
// without a call.
func OnBatch[P any](topic string, size int, handle func(context.Context, []Item[P]) error, decode func(*Decoder, *P), opts ...Option) Listener {
	l := newListener(topic, KindBatch, size, handle, opts)
	if handle == nil || decode == nil {
		return l
	}
	l.handle = func(ctx context.Context, ms []Message, how decoding) error {
		items := make([]Item[P], 0, len(ms))
		d := &Decoder{zeroCopy: how.zeroCopy}
		for i := range ms {
			p, err := decodeMessage(d, &ms[i], decode)
			if err == nil {
				items = append(items, Item[P]{Params: p, EventContext: ms[i].Event})
				continue
			}
			if how.invalid == nil {
				return err
			}
			how.invalid(err)
		}
		if len(items) == 0 && len(ms) > 0 {
			return nil
		}
		return handle(ctx, items)
	}
	return l
}

func newListener(topic string, kind Kind, size int, handle any, opts []Option) Listener {
	return Listener{topic: topic, kind: kind, size: size, method: methodName(handle), settings: settingsOf(opts)}
}

// At returns a copy of l that carries the source position of the annotation,
// as in "invoices.go:37". Errors name it.
func (l Listener) At(position string) Listener {
	l.position = position
	return l
}

// Named returns a copy of l that carries the method's name for errors, as in
// "(*Invoices).Created". Without it the name is found out where the handler is
// a method value; generated code needs it where it wraps the method.
func (l Listener) Named(method string) Listener {
	l.method = method
	return l
}

// Topic returns the topic that the listener handles.
func (l Listener) Topic() string { return l.topic }

// Kind returns whether the listener takes single events or batches.
func (l Listener) Kind() Kind { return l.kind }

// BatchSize returns the largest number of events of a call, 1 for single
// events.
func (l Listener) BatchSize() int { return l.size }

// Position returns the source position given by At.
func (l Listener) Position() string { return l.position }

// Method returns the name of the handling method, as far as it is known.
func (l Listener) Method() string { return l.method }

// Settings returns what the listener's own options say.
func (l Listener) Settings() Settings { return l.settings }

var errNoParams = errors.New("missing: the event's data is no document with the field params (published with pulse.Topic.Publish instead of App.Publish?)")

// decodeMessage decodes one message with d, and names topic and event on
// failure.
func decodeMessage[P any](d *Decoder, m *Message, decode func(*Decoder, *P)) (P, *DecodeError) {
	var p, zero P
	path, reason := "", m.Err
	switch {
	case reason != nil:
	case m.Params.Type == 0:
		reason = errNoParams
	default:
		d.reset(m.Params)
		if d.err == nil {
			decode(d, &p)
		}
		if d.err == nil {
			return p, nil
		}
		path, reason = d.err.Path, d.err.Err
	}
	return zero, &DecodeError{Topic: m.Event.Topic, EventID: m.Event.EventID, Path: path, Err: reason}
}

// methodName finds the name of the method that a method value stands for, as
// in invoices.(*Invoices).Created, and of a function.
func methodName(handle any) string {
	v := reflect.ValueOf(handle)
	if v.IsNil() {
		return ""
	}
	f := runtime.FuncForPC(v.Pointer())
	if f == nil {
		return ""
	}
	return strings.TrimSuffix(path.Base(f.Name()), "-fm")
}
