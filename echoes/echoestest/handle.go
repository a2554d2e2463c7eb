package echoestest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/orionjs/orion-go/echoes"
)

// New makes an app of services for Handle. It is not started and logs nothing. An app with middleware, defaults
// or a logger is made by echoes.New, or by the code under test.
func New(t testing.TB, services ...echoes.Service) *echoes.App {
	t.Helper()
	app, err := echoes.New(echoes.Config{Logger: slog.New(slog.NewTextHandler(io.Discard, nil))}, services...)
	if err != nil {
		t.Fatal(err)
	}
	return app
}

// Event is an event with more than its params, for Handle. What is empty has the same value as for params alone.
type Event struct {
	// Params are as for Handle.
	Params any
	echoes.EventContext
}

// At is when the events that Handle makes were published, unless an Event says otherwise.
var at = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// Handle hands events to the app's listener of the topic, one, or several to a batch listener, and returns
// what a transport would record as the outcome of the attempt. They go through the middleware and the generated
// decoder: an error may be an *echoes.DecodeError, and a handler of a batch with onInvalid=skip does not see what cannot
// be decoded. The app need not be started. A panic of the handler is one of the test.
//
// Each event is given as one of these:
//
//   - its params, typed, as for echoes.App.Publish,
//   - a bson.Raw or bson.RawValue with its params as stored,
//   - a json.RawMessage with its params as JSON; MongoDB's extended JSON for the types that JSON lacks,
//   - an Event, which adds an ID, headers, a number of attempt and the like.
//
// Without an Event the events have the IDs event-1, event-2 and so on, were published on 2026-01-02 03:04:05 UTC,
// and are a first attempt, of the group "test", over Pulse. The handler's context ends with the test. Whatever is
// wrong with the call itself fails the test.
func Handle(t testing.TB, app *echoes.App, topic string, events ...any) error {
	t.Helper()
	return HandleContext(t.Context(), t, app, topic, events...)
}

// HandleContext is Handle with another context than the test's for the handler, to end it or to add to it.
func HandleContext(ctx context.Context, t testing.TB, app *echoes.App, topic string, events ...any) error {
	t.Helper()
	listeners := app.Listeners()
	i := slices.IndexFunc(listeners, func(l echoes.Listener) bool { return l.Topic() == topic })
	if i < 0 {
		topics := make([]string, len(listeners))
		for i, l := range listeners {
			topics[i] = l.Topic()
		}
		t.Fatalf("no listener handles topic %q; there are listeners for %q", topic, topics)
	}
	if size := listeners[i].BatchSize(); len(events) == 0 || len(events) > size {
		t.Fatalf("topic %s: %d events in a call, the listener takes 1 to %d", topic, len(events), size)
	}
	messages := make([]echoes.Message, len(events))
	for i, event := range events {
		m, err := message(topic, i, event)
		if err != nil {
			t.Fatalf("topic %s, event %d: %v", topic, i+1, err)
		}
		messages[i] = m
	}
	return app.Handle(ctx, topic, messages)
}

// message makes what a transport hands over.
func message(topic string, i int, event any) (echoes.Message, error) {
	given, ok := event.(Event)
	if !ok {
		given = Event{Params: event}
	}
	params, err := encode(given.Params)
	if err != nil {
		return echoes.Message{}, err
	}
	ec := given.EventContext
	ec.Topic = topic
	setDefault(&ec.EventID, fmt.Sprintf("event-%d", i+1))
	setDefault(&ec.CreatedAt, at)
	setDefault(&ec.Attempt, 1)
	setDefault(&ec.ConsumerGroup, "test")
	setDefault(&ec.Transport, "pulse")
	return echoes.Message{Params: params, Event: ec}, nil
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// encode makes the stored form of params.
func encode(params any) (bson.RawValue, error) {
	switch p := params.(type) {
	case nil:
		return bson.RawValue{Type: bson.TypeNull}, nil
	case bson.RawValue:
		return p, nil
	case json.RawMessage:
		// Wrapped, since extended JSON is about documents and params may be of any type.
		var doc struct{ Params bson.RawValue }
		if err := bson.UnmarshalExtJSON(slices.Concat([]byte(`{"params":`), p, []byte("}")), false, &doc); err != nil {
			return bson.RawValue{}, fmt.Errorf("the params are not JSON: %w", err)
		}
		return doc.Params, nil
	}
	typ, value, err := bson.MarshalValue(params)
	if err != nil {
		return bson.RawValue{}, fmt.Errorf("params of type %T cannot be encoded: %w", params, err)
	}
	return bson.RawValue{Type: typ, Value: value}, nil
}
