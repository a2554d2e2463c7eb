package worker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/orionjs/orion-go/pulse/internal/lifecycle"
	"github.com/orionjs/orion-go/pulse/internal/receiver"
	"github.com/orionjs/orion-go/pulse/internal/store"
	"github.com/orionjs/orion-go/pulse/pulsetest"
	"github.com/orionjs/orion-go/pulse/pulsetest/mongoserver"
)

// orderedTopic is a database with the version 1 deliveries of an ordered topic, for pools that compete for it.
type orderedTopic struct {
	db  *mongo.Database
	uri string
}

// newOrderedTopic stores n deliveries, of the events e0, e1 and so on.
func newOrderedTopic(t *testing.T, n int) *orderedTopic {
	t.Helper()
	o := &orderedTopic{db: pulsetest.Database(t), uri: pulsetest.URI(t)}
	o.add(t, n)
	return o
}

// standalone starts a server without transactions.
func standalone(t *testing.T) *mongoserver.Server {
	t.Helper()
	is := is.New(t)
	pulsetest.URI(t) // skips under -short
	server, err := mongoserver.Start(t.Context(), mongoserver.Options{Standalone: true})
	is.NoErr(err)
	t.Cleanup(func() { is.NoErr(server.Stop()) })
	return server
}

// at makes a client connect to another server than that of the tests.
func at(uri string) func(*options.ClientOptions) {
	return func(opts *options.ClientOptions) { *opts = *options.Client().ApplyURI(uri) }
}

func (o *orderedTopic) add(t *testing.T, n int) {
	t.Helper()
	is := is.New(t)
	_, err := o.db.Collection("p.subscriptions").InsertOne(t.Context(), bson.D{{Key: "_id", Value: "sub"}, {Key: "consumerGroup", Value: "billing"}, {Key: "topic", Value: "t"}})
	is.NoErr(err)
	before := time.Now().Add(-time.Minute)
	for i := range n {
		event, id := fmt.Sprint("e", i), fmt.Sprint("d", i)
		_, err := o.db.Collection("p.events").InsertOne(t.Context(), bson.D{{Key: "_id", Value: event}, {Key: "topic", Value: "t"}, {Key: "data", Value: i}})
		is.NoErr(err)
		common := bson.D{{Key: "eventId", Value: event}, {Key: "consumerGroup", Value: "billing"}, {Key: "topic", Value: "t"}, {Key: "status", Value: "pending"}, {Key: "createdAt", Value: before}}
		_, err = o.db.Collection("p.deliveries").InsertOne(t.Context(), append(bson.D{{Key: "_id", Value: id}, {Key: "eventSequence", Value: bson.Timestamp{T: 100 + uint32(i), I: 1}}}, common...))
		is.NoErr(err)
		_, err = o.db.Collection("p.history").InsertOne(t.Context(), append(bson.D{{Key: "_id", Value: fmt.Sprint("a", i)}, {Key: "deliveryId", Value: id}, {Key: "attempt", Value: int32(1)}, {Key: "nextAttemptAt", Value: before}}, common...))
		is.NoErr(err)
	}
}

// state tells of each attempt, by delivery and number: free, claimed, started, success, or the code of its error.
func (o *orderedTopic) state(t *testing.T) string {
	t.Helper()
	text, err := o.read(t.Context())
	is.New(t).NoErr(err)
	return text
}

func (o *orderedTopic) read(ctx context.Context) (string, error) {
	cursor, err := o.db.Collection("p.history").Find(ctx, bson.D{}, options.Find().SetSort(bson.D{{Key: "deliveryId", Value: 1}, {Key: "attempt", Value: 1}}))
	var docs []struct {
		Status, LockToken string
		StartedAt         time.Time
		Error             struct{ Code string }
	}
	if err == nil {
		err = cursor.All(ctx, &docs)
	}
	words := make([]string, len(docs))
	for i, d := range docs {
		switch {
		case d.Status == "error":
			words[i] = d.Error.Code
		case d.Status != "pending":
			words[i] = d.Status
		case d.LockToken == "":
			words[i] = "free"
		case d.StartedAt.IsZero():
			words[i] = "claimed"
		default:
			words[i] = "started"
		}
	}
	return strings.Join(words, " "), err
}

// becomes waits for a state.
func (o *orderedTopic) becomes(t *testing.T, want string) {
	t.Helper()
	pulsetest.Eventually(t, "the attempts are "+want, func(ctx context.Context) error {
		found, err := o.read(ctx)
		if err == nil && found != want {
			err = errors.New(found)
		}
		return err
	})
}

// leaseOver ends the ordered lease in the database, locksOver those of the attempts.
func (o *orderedTopic) leaseOver(t *testing.T) {
	t.Helper()
	o.set(t, "subscriptions", bson.D{}, "orderedLockedUntil", time.Now().Add(-time.Minute))
}

func (o *orderedTopic) locksOver(t *testing.T) {
	t.Helper()
	o.set(t, "history", bson.D{{Key: "lockToken", Value: bson.D{{Key: "$ne", Value: nil}}}, {Key: "status", Value: "pending"}}, "lockedUntil", time.Now().Add(-time.Minute))
}

func (o *orderedTopic) set(t *testing.T, coll string, filter bson.D, field string, value any) {
	t.Helper()
	_, err := o.db.Collection("p."+coll).UpdateMany(t.Context(), filter, bson.D{{Key: "$set", Value: bson.D{{Key: field, Value: value}}}})
	is.New(t).NoErr(err)
}

// contender is a pool that competes for the order. Its settler runs and its other loops do not: the test takes
// each step itself. Handlers succeed at once, but for those of events that are held.
type contender struct {
	*Pool
	lane    *lane
	reports pulsetest.Recorder[error]
	calls   pulsetest.Recorder[string]
	causes  pulsetest.Recorder[error] // why held handlers were cancelled
	hold    map[string]chan error     // what the handlers of these events wait for, and return
}

// contend returns a contender whose handlers have been seen to be fast, so that it claims ahead.
func (o *orderedTopic) contend(t *testing.T, hold ...string) *contender {
	t.Helper()
	return o.contendOver(t, func(*options.ClientOptions) {}, hold...)
}

func (o *orderedTopic) contendOver(t *testing.T, configure func(*options.ClientOptions), hold ...string) *contender {
	t.Helper()
	is := is.New(t)
	c := &contender{Pool: newPool(t, 2), hold: map[string]chan error{}}
	for _, event := range hold {
		c.hold[event] = make(chan error, 1)
	}
	client := pulsetest.Client(t, at(o.uri), configure)
	c.Store = store.New(client.Database(o.db.Name()), "p")
	is.NoErr(c.Store.Detect(t.Context()))
	c.Report = func(err error) { c.reports.Add(err) }
	c.Lease = time.Hour // nothing ends by itself
	c.lane = addLane(c.Pool, "t", 1, 3, time.Millisecond)
	c.adopt(3, store.AtLeastOnce)
	c.lane.receiver.SubscriptionID = "sub"
	c.lane.receiver.Handle = func(ctx context.Context, call receiver.Call) error {
		event := call.Events[0].ID
		c.calls.Add(event)
		if held := c.hold[event]; held != nil {
			select {
			case err := <-held:
				return err
			case <-ctx.Done():
				c.causes.Add(context.Cause(ctx))
			}
		}
		return nil // also of those that were cancelled: such a success must not count
	}
	loops := lifecycle.New(nil)
	_, _, settle := c.Loops()
	is.NoErr(loops.Go("settle", settle))
	is.NoErr(loops.Start())
	t.Cleanup(func() {
		for _, held := range c.hold {
			close(held)
		}
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if err := errors.Join(c.Drain(ctx), loops.Stop(ctx)); err != nil {
			t.Error(err)
		}
		c.Abandon()
		c.mu.Lock()
		defer c.mu.Unlock()
		c.disarm(c.lane)
	})
	return c
}

// seen is what a contender holds at the moment.
type seen struct {
	token              string
	held, buffer, dues int
}

func (c *contender) look() seen {
	c.mu.Lock()
	defer c.mu.Unlock()
	return seen{c.lane.order.token, len(c.held), len(c.lane.buffer), len(c.lane.v1().dues)}
}

func (c *contender) adopt(retries int, mode string) {
	c.lane.receiver.Adopt(store.Settings{Ordered: true, ExecutionVersion: 1, MaxRetries: retries, RetryDelay: time.Millisecond, Multiplier: 1, Delivery: mode, BatchSize: 1})
}

// step is one round of the claim loop, for a lane that something has woken.
func (c *contender) step(t *testing.T) (progress bool) {
	t.Helper()
	c.Wake("t", store.V1)
	progress, err := c.claimRound(t.Context())
	is.New(t).NoErr(err)
	return progress
}

// runAll claims until n calls were made, and waits until their outcomes are stored. Each time it wakes the lane for the
// formats.
func (c *contender) runAll(t *testing.T, n int, formats ...store.Format) {
	t.Helper()
	is := is.New(t)
	pulsetest.Eventually(t, "all have run", func(ctx context.Context) error {
		for _, format := range formats {
			c.Wake("t", format)
		}
		_, err := c.claimRound(ctx)
		if c.calls.Len() < n {
			return fmt.Errorf("%d have (%w)", c.calls.Len(), err)
		}
		return err
	})
	is.Equal(c.waitFor(t.Context(), func() int { return c.running }), 0)
	is.Equal(c.settler.waitEmpty(t.Context()), 0)
}

// steps goes on until a state is reached.
func (c *contender) steps(t *testing.T, o *orderedTopic, want string) {
	t.Helper()
	pulsetest.Eventually(t, "the attempts are "+want, func(ctx context.Context) error {
		found, err := o.read(ctx)
		if err == nil && found != want {
			c.step(t)
			err = errors.New(found)
		}
		return err
	})
}

// heads are the first n of the order, as they are.
func (c *contender) heads(t *testing.T, n int) []store.Head {
	t.Helper()
	is := is.New(t)
	heads, err := c.Store.Heads(t.Context(), "billing", "t", 100)
	is.NoErr(err)
	is.Equal(len(heads), n)
	return heads
}

func times(word string, n int) string {
	return strings.TrimSuffix(strings.Repeat(word+" ", n), " ")
}
