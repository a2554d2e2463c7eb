package admin_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/matryer/is"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.uber.org/goleak"

	"github.com/orionjs/orion-go/pulse"
	"github.com/orionjs/orion-go/pulse/admin"
	"github.com/orionjs/orion-go/pulse/pulsetest"
)

func TestMain(m *testing.M) {
	_ = flag.Set("test.parallel", "8") // tests mostly wait
	goleak.VerifyTestMain(m)
}

// order is the payload of the tests.
type order struct{ Number int }

var orders = pulse.NewTopic[order]("order.created")

const group = "billing"

// operator does what tests change.
var operator = admin.By{Name: "ada", Reason: "test"}

var errPlanned = errors.New("planned")

// kind is one way to subscribe; each test of deliveries runs with all.
type kind struct {
	name string
	opts []pulse.SubscribeOption
	size int // of a batch; 0 for single events
}

var (
	version1 = kind{name: "version 1", opts: []pulse.SubscribeOption{pulse.Unordered()}}
	version2 = kind{name: "version 2", opts: []pulse.SubscribeOption{pulse.Unordered(), pulse.ExecutionVersion(2)}}
	batches  = kind{name: "batches", size: 2}
	ordered  = kind{name: "ordered"}
)

// each runs a test for each of the kinds, in parallel, in a database of its own.
func each(t *testing.T, kinds []kind, test func(t *testing.T, k kind, db *mongo.Database)) {
	t.Helper()
	t.Parallel()
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			test(t, k, pulsetest.Database(t))
		})
	}
}

// events is how many events make n deliveries.
func (k kind) events(n int) int { return n * max(k.size, 1) }

// call is one invocation of a handler.
type call struct {
	attempt int
	events  []string
	ctx     context.Context
}

// subscribe handles the topic with handle, from the earliest event on.
func (k kind) subscribe(t *testing.T, c *pulse.Client, handle func(call) error, more ...pulse.SubscribeOption) {
	t.Helper()
	opts := append(append([]pulse.SubscribeOption{pulse.OffsetReset(pulse.Earliest)}, k.opts...), more...)
	var err error
	if k.size > 0 {
		_, err = orders.SubscribeBatch(t.Context(), c, k.size, func(ctx context.Context, es []*pulse.Event[order]) error {
			in := call{attempt: es[0].Attempt, ctx: ctx}
			for _, e := range es {
				in.events = append(in.events, e.ID)
			}
			return handle(in)
		}, opts...)
	} else {
		_, err = orders.Subscribe(t.Context(), c, func(ctx context.Context, e *pulse.Event[order]) error {
			return handle(call{e.Attempt, []string{e.ID}, ctx})
		}, opts...)
	}
	is.New(t).NoErr(err)
}

func config(db *mongo.Database) pulse.Config {
	return pulse.Config{
		ConsumerGroup: group, Database: db.Name(), PollInterval: 100 * time.Millisecond, WorkerCount: 1,
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	}
}

// start starts a client with connections of its own, closed at the end of the test.
func start(t *testing.T, c pulse.Config) *pulse.Client {
	t.Helper()
	client, err := pulse.New(t.Context(), pulsetest.Client(t), c)
	is.New(t).NoErr(err)
	t.Cleanup(func() { stop(t, client) })
	return client
}

func stop(t *testing.T, c *pulse.Client) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	is.New(t).NoErr(c.Close(ctx))
}

// publish publishes n orders and returns their IDs.
func publish(t *testing.T, c *pulse.Client, n int) []string {
	t.Helper()
	is := is.New(t)
	messages := make([]pulse.Message[order], n)
	for i := range messages {
		messages[i].Data.Number = i
	}
	results, err := orders.PublishMany(t.Context(), c, messages)
	is.NoErr(err)
	ids := make([]string, n)
	for i, r := range results {
		is.NoErr(r.Err)
		ids[i] = r.Event.ID
	}
	return ids
}

func open(t *testing.T, db *mongo.Database) *admin.Admin {
	t.Helper()
	a, err := admin.New(db, admin.Config{})
	is.New(t).NoErr(err)
	return a
}

func collection(db *mongo.Database, name string) *mongo.Collection {
	return db.Collection("orionjs.pulse." + name)
}

// staged is a handler whose first calls fail for good, fail to be retried in an hour, succeed, and wait for their
// release, in this order; later ones succeed.
type staged struct {
	calls    atomic.Int64
	blocked  chan struct{} // closed when the fourth call waits
	released chan struct{}
}

// slow is how long a handler takes of whose deliveries none is claimed ahead.
const slow = 600 * time.Millisecond

func newStaged() *staged { return &staged{blocked: make(chan struct{}), released: make(chan struct{})} }

func (s *staged) handle(in call) error {
	switch s.calls.Add(1) {
	case 1:
		time.Sleep(slow)
		return pulse.Permanent(errPlanned)
	case 2:
		return pulse.RetryAfter(errPlanned, time.Hour)
	case 4:
		close(s.blocked)
		select {
		case <-s.released:
		case <-in.ctx.Done():
			return in.ctx.Err()
		}
	}
	return nil
}

// stage brings a database into a state with one failed delivery, one that waits for its retry, one success, one that
// is processing, and two that wait. The returned function lets the handler go on.
func (k kind) stage(t *testing.T, db *mongo.Database) (a *admin.Admin, release func()) {
	t.Helper()
	s := newStaged()
	c := start(t, config(db))
	t.Cleanup(func() { // before the client is closed
		select {
		case <-s.released:
		default:
			close(s.released)
		}
	})
	publish(t, c, k.events(6))
	k.subscribe(t, c, s.handle)
	<-s.blocked
	a = open(t, db)
	awaitBacklog(t, a, "1 failed and 1 retrying", func(b admin.Backlog) bool {
		return b.Failed.N == 1 && b.Retrying.N == 1 && b.Processing.N == 1 && b.Undiscovered.N == 0
	})
	return a, func() { close(s.released) }
}

func theSubscription(t *testing.T, a *admin.Admin) admin.Subscription {
	t.Helper()
	is := is.New(t)
	subs, err := a.Subscriptions(t.Context(), admin.SubscriptionQuery{Group: group, Topic: orders.Name()})
	is.NoErr(err)
	is.Equal(len(subs), 1)
	return subs[0]
}

func awaitBacklog(t *testing.T, a *admin.Admin, what string, reached func(admin.Backlog) bool) {
	t.Helper()
	pulsetest.Eventually(t, what, func(ctx context.Context) error {
		subs, err := a.Subscriptions(ctx, admin.SubscriptionQuery{Group: group, Topic: orders.Name()})
		if err == nil && (len(subs) != 1 || !reached(subs[0].Backlog)) {
			err = fmt.Errorf("there is %+v", subs)
		}
		return err
	})
}

// inState reads the deliveries in a state.
func inState(t *testing.T, a *admin.Admin, states ...admin.State) []admin.Delivery {
	t.Helper()
	page, err := a.Deliveries(t.Context(), admin.DeliveryQuery{Group: group, Topic: orders.Name(), States: states})
	is.New(t).NoErr(err)
	return page.Deliveries
}

func asError[T error](err error, target *T) bool { return errors.As(err, target) }

// awaitFailed waits until n deliveries of all groups have failed.
func awaitFailed(t *testing.T, a *admin.Admin, n int) {
	t.Helper()
	pulsetest.Eventually(t, fmt.Sprintf("%d failed deliveries", n), func(ctx context.Context) error {
		page, err := a.Deliveries(ctx, admin.DeliveryQuery{States: []admin.State{admin.Failed}})
		if err == nil && len(page.Deliveries) != n {
			err = fmt.Errorf("there are %d", len(page.Deliveries))
		}
		return err
	})
}

// awaitState waits until a delivery is in a state, and returns it.
func awaitState(t *testing.T, a *admin.Admin, id string, want admin.State) admin.DeliveryDetail {
	t.Helper()
	var d admin.DeliveryDetail
	pulsetest.Eventually(t, fmt.Sprintf("delivery %s is %s", id, want), func(ctx context.Context) error {
		var err error
		if d, err = a.Delivery(ctx, id); err == nil && d.State != want {
			err = fmt.Errorf("it is %s", d.State)
		}
		return err
	})
	return d
}

// set changes a document by hand.
func set(t *testing.T, coll *mongo.Collection, id any, fields bson.D) {
	t.Helper()
	res, err := coll.UpdateByID(t.Context(), id, bson.D{{Key: "$set", Value: fields}})
	is.New(t).NoErr(err)
	is.New(t).Equal(res.MatchedCount, int64(1))
}
