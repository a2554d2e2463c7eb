package pulse_test

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

	"github.com/orionjs/orion-go/pulse"
	"github.com/orionjs/orion-go/pulse/pulsetest"
)

// gate is a handler that says when it begins and waits, within its context or not, until it is opened.
type gate struct {
	begun  pulsetest.Recorder[*pulse.Event[order]]
	causes pulsetest.Recorder[error] // why the contexts of its calls ended
	open   chan error                // what each call returns
}

func newGate() *gate { return &gate{open: make(chan error, 1000)} }

// handle waits, whatever becomes of its context.
func (g *gate) handle(ctx context.Context, e *pulse.Event[order]) error {
	stop := context.AfterFunc(ctx, func() { g.causes.Add(context.Cause(ctx)) })
	defer stop()
	g.begun.Add(e)
	return <-g.open
}

// leased returns a configuration with short leases.
func leased(db *mongo.Database, lease time.Duration, reported *pulsetest.Recorder[error]) pulse.Config {
	config := fast(db)
	config.LockTimeout, config.DiscoveryLockTimeout = lease, lease
	if reported != nil {
		config.OnError = func(err error) { reported.Add(err) }
	}
	return config
}

func subscribed(t *testing.T, c *pulse.Client, handle func(context.Context, *pulse.Event[order]) error, more ...pulse.SubscribeOption) *pulse.Subscription {
	t.Helper()
	opts := append([]pulse.SubscribeOption{pulse.OffsetReset(pulse.Earliest), pulse.RetryDelay(time.Millisecond)}, more...)
	sub, err := pulse.NewTopic[order](leaseTopic).Subscribe(t.Context(), c, handle, unordered(opts...)...)
	is.New(t).NoErr(err)
	return sub
}

const leaseTopic = "order.created"

var leaseOrders = pulse.NewTopic[order](leaseTopic)

func TestLease_4_1_RenewedWhileTheHandlerRuns(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	db := pulsetest.Database(t)
	var reported pulsetest.Recorder[error]
	c := startClient(t, leased(db, 3*time.Second, &reported))
	startClient(t, leased(db, 3*time.Second, &reported)) // would recover it
	g := newGate()
	subscribed(t, c, g.handle)
	published(t, leaseOrders, c, 1)
	g.begun.Wait(t, 1)
	claimed := only(t, deliveriesOf(db), bson.D{})
	first := claimed.Lookup("lockedUntil").Time()
	pulsetest.Eventually(t, "the lease reaches a whole lease further than that of the claim", func(ctx context.Context) error {
		docs, err := find(ctx, deliveriesOf(db), bson.D{})
		if err == nil && docs[0].Lookup("lockedUntil").Time().Before(first.Add(3*time.Second)) {
			err = errors.New("not yet")
		}
		return err
	})
	renewed := only(t, deliveriesOf(db), bson.D{})
	is.Equal(renewed.Lookup("lockToken"), claimed.Lookup("lockToken"))
	is.Equal(renewed.Lookup("startedAt"), claimed.Lookup("startedAt"))
	is.True(renewed.Lookup("heartbeatAt").Time().After(claimed.Lookup("heartbeatAt").Time()))
	g.open <- nil
	done := eventually(t, 1, deliveriesOf(db), bson.D{{Key: "status", Value: "v2-success"}})
	is.Equal(len(attemptsIn(done[0])), 1)
	is.Equal(g.begun.Len(), 1)
	is.Equal(g.causes.Len(), 0) // its context did not end while it ran
	is.Equal(reported.Len(), 0)
}

// steal gives the claim of a delivery to another worker, as a reaper and a new claim would.
func steal(t *testing.T, db *mongo.Database) bson.Raw {
	t.Helper()
	is := is.New(t)
	res, err := deliveriesOf(db).UpdateOne(t.Context(), processing, bson.D{{Key: "$set", Value: bson.D{
		{Key: "lockToken", Value: "the other's"},
		{Key: "lockedUntil", Value: time.Now().Add(time.Hour)},
		{Key: "attempt", Value: int32(2)},
	}}})
	is.NoErr(err)
	is.Equal(res.ModifiedCount, int64(1))
	return only(t, deliveriesOf(db), bson.D{})
}

// The renewal finds that the lease is another's: the handler is told, and its outcome changes nothing.
func TestLease_4_1_TakenAwayInTheDatabase(t *testing.T) {
	t.Parallel()
	for _, result := range []error{nil, errors.New("stopped")} {
		t.Run(fmt.Sprint("returns ", result), func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			db := pulsetest.Database(t)
			var reported pulsetest.Recorder[error]
			c := startClient(t, leased(db, 3*time.Second, &reported))
			g := newGate()
			subscribed(t, c, g.handle)
			published(t, leaseOrders, c, 1)
			g.begun.Wait(t, 1)
			stolen := steal(t, db)
			is.Equal(g.causes.Wait(t, 1)[0], pulse.ErrLockLost)
			g.open <- result
			closeClient(t, c) // its outcome is stored now, or never
			is.Equal(only(t, deliveriesOf(db), bson.D{}), stolen)
			is.Equal(errorsOf(reported.Wait(t, 1), pulse.ErrLockLost), 1)
			is.Equal(reported.Len(), 1)
			text := reported.Values()[0].Error()
			is.True(strings.Contains(text, leaseTopic) && strings.Contains(text, stolen.Lookup("_id").StringValue()) && strings.Contains(text, "attempt 1"))
		})
	}
}

// The outcome comes before a renewal had found out: the fence of the write alone decides.
func TestLease_4_1_StaleOutcomeChangesNothing(t *testing.T) {
	t.Parallel()
	for name, result := range map[string]error{
		"success": nil, "retry": errors.New("again"), "terminal error": pulse.Permanent(errors.New("for good")),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			db := pulsetest.Database(t)
			var reported pulsetest.Recorder[error]
			c := startClient(t, leased(db, 30*time.Second, &reported))
			g := newGate()
			subscribed(t, c, g.handle)
			published(t, leaseOrders, c, 1)
			g.begun.Wait(t, 1)
			stolen := steal(t, db)
			g.open <- result
			is.Equal(errorsOf(reported.Wait(t, 1), pulse.ErrLockLost), 1)
			closeClient(t, c)
			is.Equal(reported.Len(), 1)
			is.Equal(only(t, deliveriesOf(db), bson.D{}), stolen)
		})
	}
}

// The network is gone: the handler's context ends by the local clock, another client runs the delivery,
// and the outcome that arrives when the network is back changes nothing.
func TestLease_4_1_NetworkCutEndsTheContextByTheLocalClock(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	db := pulsetest.Database(t)
	proxy := pulsetest.NewProxy(t)
	var reported pulsetest.Recorder[error]
	away := startClient(t, leased(db, 3*time.Second, &reported), proxy.Use)
	g := newGate()
	subscribed(t, away, g.handle)
	id := published(t, leaseOrders, away, 1)
	g.begun.Wait(t, 1)
	proxy.BlackHole()
	is.Equal(g.causes.Wait(t, 1)[0], pulse.ErrLockLost)
	is.Equal(errorsOf(reported.Wait(t, 1), pulse.ErrLockLost), 1)

	other := startClient(t, leased(db, 3*time.Second, nil))
	var received pulsetest.Recorder[*pulse.Event[order]]
	subscribed(t, other, func(_ context.Context, e *pulse.Event[order]) error {
		received.Add(e)
		return nil
	})
	again := received.Wait(t, 1)[0]
	is.Equal(again.ID, id)
	is.Equal(again.Attempt, 2)
	done := eventually(t, 1, deliveriesOf(db), bson.D{{Key: "status", Value: "v2-success"}})
	g.open <- nil
	proxy.Restore()
	closeClient(t, away)
	is.Equal(only(t, deliveriesOf(db), bson.D{}), done[0])
	is.Equal(errorsOf(reported.Values(), pulse.ErrLockLost), 1)
	is.Equal(received.Len(), 1)
}

// A network that hangs for less than the lease costs nothing.
func TestLease_4_1_ShortOutageIsSurvived(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	db := pulsetest.Database(t)
	proxy := pulsetest.NewProxy(t)
	var reported pulsetest.Recorder[error]
	c := startClient(t, leased(db, 30*time.Second, &reported), proxy.Use)
	g := newGate()
	subscribed(t, c, g.handle)
	published(t, leaseOrders, c, 1)
	g.begun.Wait(t, 1)
	proxy.Cut()
	g.open <- nil // its outcome cannot be stored now
	reported.Wait(t, 1)
	proxy.Restore()
	done := eventually(t, 1, deliveriesOf(db), bson.D{{Key: "status", Value: "v2-success"}})
	is.Equal(len(attemptsIn(done[0])), 1)
	is.Equal(g.begun.Len(), 1)
	is.Equal(errorsOf(reported.Values(), pulse.ErrLockLost), 0)
}
