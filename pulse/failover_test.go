package pulse_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/matryer/is"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/orionjs/orion-go/pulse"
	"github.com/orionjs/orion-go/pulse/pulsetest"
	"github.com/orionjs/orion-go/pulse/pulsetest/mongoserver"
)

// afflicted is a group on a server of its own, which the test makes fail, with a single, a batch and an ordered
// receiver.
type afflicted struct {
	t       *testing.T
	root    *mongo.Client
	clients []*pulse.Client
	topics  []pulse.Topic[order]
	seen    []*pulsetest.Recorder[int]
	n       int
}

func newAfflicted(t *testing.T, clients int) *afflicted {
	t.Helper()
	is := is.New(t)
	server, err := mongoserver.Start(t.Context(), mongoserver.Options{})
	is.NoErr(err)
	t.Cleanup(func() { is.NoErr(server.Stop()) })
	a := &afflicted{t: t, root: pulsetest.Client(t, onServer(server.URI()))}
	db := a.root.Database("afflicted")
	for range clients {
		mc := pulsetest.Client(t, onServer(server.URI()), func(o *options.ClientOptions) {
			// A new primary is looked for at the next heartbeat.
			o.SetAppName("afflicted").SetHeartbeatInterval(500 * time.Millisecond)
		})
		a.clients = append(a.clients, startOver(t, mc, fast(db)))
	}
	for i, name := range []string{"single", "batch", "ordered"} {
		topic, seen := pulse.NewTopic[order](name), &pulsetest.Recorder[int]{}
		a.topics, a.seen = append(a.topics, topic), append(a.seen, seen)
		one := func(_ context.Context, e *pulse.Event[order]) error {
			seen.Add(e.Data.Number)
			return nil
		}
		many := func(_ context.Context, es []*pulse.Event[order]) error {
			for _, e := range es {
				seen.Add(e.Data.Number)
			}
			return nil
		}
		for _, c := range a.clients {
			switch i {
			case 0:
				is.NoErr(second(topic.Subscribe(t.Context(), c, one, unordered(pulse.OffsetReset(pulse.Earliest))...)))
			case 1:
				is.NoErr(second(topic.SubscribeBatch(t.Context(), c, 10, many, pulse.OffsetReset(pulse.Earliest))))
			case 2:
				is.NoErr(second(topic.Subscribe(t.Context(), c, one, pulse.OffsetReset(pulse.Earliest))))
			}
		}
	}
	return a
}

// publish publishes the next events to each topic, again under the same IDs when that fails.
func (a *afflicted) publish(n int) {
	a.t.Helper()
	for range n {
		for _, topic := range a.topics {
			pulsetest.Eventually(a.t, "the event is published", func(ctx context.Context) error {
				_, err := topic.Publish(ctx, a.clients[0], order{Number: a.n}, pulse.WithID(fmt.Sprint(topic.Name(), a.n)))
				return err
			})
		}
		a.n++
	}
}

// eachOnce waits until all that was published has been handled: once, and in order where there is one.
func (a *afflicted) eachOnce() {
	a.t.Helper()
	for _, seen := range a.seen {
		eachOnce(a.t, seen.Wait(a.t, a.n), a.n)
	}
	for i, number := range a.seen[2].Values() {
		if number != i {
			a.t.Fatalf("in place %d of the order is %d", i, number)
		}
	}
}

func (a *afflicted) fail(mode any, data bson.D) {
	a.t.Helper()
	is.New(a.t).NoErr(a.root.Database("admin").RunCommand(a.t.Context(), bson.D{
		{Key: "configureFailPoint", Value: "failCommand"},
		{Key: "mode", Value: mode},
		{Key: "data", Value: append(data, bson.E{Key: "appName", Value: "afflicted"})},
	}).Err())
}

// What servers answer around elections and conflicts, to whatever command it happens to be: nothing is lost and
// nothing runs twice.
func TestFailover_6_2_AnswersOfFailingServers(t *testing.T) {
	t.Parallel()
	a := newAfflicted(t, 2)
	writes := bson.A{"insert", "update", "find", "aggregate", "findAndModify", "commitTransaction"}
	for _, failure := range []bson.D{
		{{Key: "failCommands", Value: writes}, {Key: "errorCode", Value: 91}},                                                                                // shutting down
		{{Key: "failCommands", Value: writes}, {Key: "errorCode", Value: 10107}},                                                                             // not primary
		{{Key: "failCommands", Value: writes}, {Key: "errorCode", Value: 189}},                                                                               // stepped down
		{{Key: "failCommands", Value: bson.A{"insert", "update", "commitTransaction"}}, {Key: "errorCode", Value: 112}, labels("TransientTransactionError")}, // conflict
		{{Key: "failCommands", Value: bson.A{"commitTransaction"}}, {Key: "errorCode", Value: 64}, labels("UnknownTransactionCommitResult")},                 // unclear
		{{Key: "failCommands", Value: writes}, {Key: "closeConnection", Value: true}},
	} {
		a.fail(bson.D{{Key: "times", Value: 6}}, failure)
		a.publish(5)
		a.eachOnce()
	}
}

func labels(names ...string) bson.E { return bson.E{Key: "errorLabels", Value: names} }

// The primary steps down again and again under load.
func TestFailover_6_2_Stepdown(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := newAfflicted(t, 2)
	for range 3 {
		a.publish(10)
		err := a.root.Database("admin").RunCommand(t.Context(), bson.D{{Key: "replSetStepDown", Value: 1}, {Key: "force", Value: true}}).Err()
		is.True(err == nil || mongo.IsNetworkError(err) || errors.As(err, new(mongo.CommandError)))
		a.publish(10)
	}
	a.eachOnce()
}

// Connections on which nothing arrives any more: the commands on them end by their deadline, and the loops
// that waited go on.
func TestFailover_6_2_SilentConnectionsFreezeNothingForGood(t *testing.T) {
	t.Parallel()
	a := newAfflicted(t, 1)
	a.publish(3)
	a.eachOnce()
	// A silent commit holds up whoever needs what its transaction wrote, until the server ends it: sooner than by
	// its default of a minute.
	is.New(t).NoErr(a.root.Database("admin").RunCommand(t.Context(), bson.D{{Key: "setParameter", Value: 1}, {Key: "transactionLifetimeLimitSeconds", Value: 15}}).Err())
	for range 3 {
		a.fail(bson.D{{Key: "times", Value: 2}}, bson.D{
			{Key: "failCommands", Value: bson.A{"update", "find", "aggregate", "commitTransaction"}},
			{Key: "blockConnection", Value: true},
			{Key: "blockTimeMS", Value: 20_000},
		})
		a.publish(3)
		a.eachOnce()
	}
}
