package pulse_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/matryer/is"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/orionjs/orion-go/pulse"
	"github.com/orionjs/orion-go/pulse/pulsetest"
)

// never is a poll interval that no test lives to see: what happens, a change stream or a timer has caused.
const never = time.Hour

// startClient starts a client of the group over connections of its own, which the functions may change.
func startClient(t *testing.T, config pulse.Config, configure ...func(*options.ClientOptions)) *pulse.Client {
	t.Helper()
	return startOver(t, pulsetest.Client(t, configure...), config)
}

// startOver is startClient over given connections.
func startOver(t *testing.T, mc *mongo.Client, config pulse.Config) *pulse.Client {
	t.Helper()
	c, err := pulse.New(t.Context(), mc, config)
	// A start waits ten seconds for the server, which on a busy machine may not be enough.
	for range 5 {
		if err == nil || !mongo.IsTimeout(err) {
			break
		}
		c, err = pulse.New(t.Context(), mc, config)
	}
	is.New(t).NoErr(err)
	t.Cleanup(func() { closeClient(t, c) })
	return c
}

// closeClient closes the client; a second time does nothing.
func closeClient(t *testing.T, c *pulse.Client) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := c.Close(ctx); err != nil {
		t.Errorf("close: %v", err)
	}
}

// the collections of the default prefix.
func eventsOf(db *mongo.Database) *mongo.Collection { return db.Collection("orionjs.pulse.events") }

func subscriptionsOf(db *mongo.Database) *mongo.Collection {
	return db.Collection("orionjs.pulse.subscriptions")
}

func deliveriesOf(db *mongo.Database) *mongo.Collection {
	return db.Collection("orionjs.pulse.deliveries")
}

func historyOf(db *mongo.Database) *mongo.Collection { return db.Collection("orionjs.pulse.history") }

// find reads all documents that match, in the order of their IDs.
func find(ctx context.Context, coll *mongo.Collection, filter any) ([]bson.Raw, error) {
	cursor, err := coll.Find(ctx, filter, options.Find().SetSort(bson.D{{Key: "_id", Value: 1}}))
	if err != nil {
		return nil, err
	}
	var docs []bson.Raw
	err = cursor.All(ctx, &docs)
	return docs, err
}

// only returns the one document that matches, and fails the test if there is none or more.
func only(t *testing.T, coll *mongo.Collection, filter any) bson.Raw {
	t.Helper()
	docs, err := find(t.Context(), coll, filter)
	if err != nil || len(docs) != 1 {
		t.Fatalf("%s %v: %d documents, want 1 (error %v)", coll.Name(), filter, len(docs), err)
	}
	return docs[0]
}

// eventually waits until exactly n documents match, and returns them.
func eventually(t *testing.T, n int, coll *mongo.Collection, filter any) []bson.Raw {
	t.Helper()
	var docs []bson.Raw
	pulsetest.Eventually(t, fmt.Sprintf("%d of %s with %v", n, coll.Name(), filter), func(ctx context.Context) error {
		var err error
		if docs, err = find(ctx, coll, filter); err == nil && len(docs) != n {
			err = fmt.Errorf("there are %d", len(docs))
		}
		return err
	})
	return docs
}

// published publishes one order and returns its event's ID.
func published(t *testing.T, topic pulse.Topic[order], c *pulse.Client, number int, opts ...pulse.PublishOption) string {
	t.Helper()
	e, err := topic.Publish(t.Context(), c, order{Number: number}, opts...)
	is.New(t).NoErr(err)
	return e.ID
}

// publishMany publishes orders numbered from 0 and returns the events' IDs.
func publishMany(t *testing.T, topic pulse.Topic[order], c *pulse.Client, n int) []string {
	t.Helper()
	is := is.New(t)
	messages := make([]pulse.Message[order], n)
	for i := range messages {
		messages[i].Data.Number = i
	}
	results, err := topic.PublishMany(t.Context(), c, messages)
	is.NoErr(err)
	ids := make([]string, n)
	for i, r := range results {
		is.NoErr(r.Err)
		ids[i] = r.Event.ID
	}
	return ids
}

// errorsOf counts the reported errors that are, or wrap, the target.
func errorsOf(reported []error, target error) int {
	n := 0
	for _, err := range reported {
		if errors.Is(err, target) {
			n++
		}
	}
	return n
}

// streamOpenings counts the change streams that clients open.
type streamOpenings struct{ n atomic.Int64 }

func (s *streamOpenings) watch(opts *options.ClientOptions) {
	opts.SetMonitor(&event.CommandMonitor{Started: func(_ context.Context, e *event.CommandStartedEvent) {
		if e.CommandName != "aggregate" {
			return
		}
		if _, err := e.Command.LookupErr("pipeline", "0", "$changeStream"); err == nil {
			s.n.Add(1)
		}
	}})
}

func (s *streamOpenings) count() int { return int(s.n.Load()) }

// eventsIn returns the events of a delivery.
func eventsIn(d bson.Raw) []string {
	array, ok := d.Lookup("eventIds").ArrayOK()
	if !ok {
		return []string{d.Lookup("eventId").StringValue()}
	}
	values, _ := array.Values()
	ids := make([]string, len(values))
	for i, v := range values {
		ids[i] = v.StringValue()
	}
	return ids
}

// attemptsIn returns the recorded attempts of a delivery.
func attemptsIn(d bson.Raw) []bson.Raw {
	values, _ := d.Lookup("attempts").Array().Values()
	attempts := make([]bson.Raw, len(values))
	for i, v := range values {
		attempts[i] = v.Document()
	}
	return attempts
}

// codeOf returns the code of a document's error, "" when it has none.
func codeOf(d bson.Raw) string {
	code, _ := d.Lookup("error", "code").StringValueOK()
	return code
}

// processing matches claimed deliveries.
var processing = bson.D{{Key: "status", Value: "v2-processing"}}
