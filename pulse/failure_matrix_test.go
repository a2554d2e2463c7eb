//go:build unix

package pulse_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/matryer/is"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/orionjs/orion-go/pulse"
	"github.com/orionjs/orion-go/pulse/pulsetest"
)

// deathKind is a kind of delivery whose processes die.
type deathKind struct {
	name       string
	consumer   consumer
	events     int // which are in so many deliveries
	deliveries int
	server     *chaosServer
}

var deathKinds = []deathKind{
	{"ordered", consumer{Ordered: true}, 4, 4, chaos},
	{"version 1", consumer{V1: true}, 1, 1, chaos},
	{"version 2", consumer{}, 1, 1, chaos},
	{"batch", consumer{BatchSize: 3}, 3, 1, chaos},
}

func (k deathKind) v1() bool { return k.consumer.Ordered || k.consumer.V1 }

// The commands between which a process can die.
var (
	moveCursor   = command{"findAndModify", ".subscriptions", []string{"cursorMoves"}}
	storeEach    = command{"insert", ".deliveries", nil}
	storeAttempt = command{"insert", ".history", nil}
	commit       = command{"commitTransaction", "", nil}
	endDelivery  = command{"update", ".deliveries", []string{"finalAttempt"}}
)

func (k deathKind) claim() command {
	if k.v1() {
		return command{"update", ".history", []string{"lockOwner"}}
	}
	return command{"update", ".deliveries", []string{"lockOwner", "$add"}}
}

// outcome is the command that records an outcome, and what follows it in its transaction, if there is one.
func (k deathKind) outcome(following ...command) []command {
	if k.v1() {
		return append([]command{{"update", ".history", []string{"durationMs"}}}, following...)
	}
	return []command{{"update", ".deliveries", []string{"durationMs"}}}
}

// death is a point at which a process dies, and what becomes of the first delivery.
type death struct {
	name string
	// at are the commands at the last of which it dies: before the server has received it or, with answered, before
	// the client has received the answer. None: it dies in its handler, or when all has ended.
	at       func(k deathKind) []command
	answered bool
	change   func(c *consumer)
	v1Only   bool
	v2Only   bool

	behind    bool     // the deliveries are stored, and the cursor has not moved
	delivered bool     // the deliveries are stored when it dies, and the cursor has moved
	attempts  []string // in the end; a code, or "" for the success
	runs      int      // of the handler that were seen: what it did has happened so often
}

var (
	once  = []string{""}
	again = []string{"worker_lost", ""}
)

// deaths are the rows of the failure matrix, with each point in each of them.
var deaths = []death{
	// Before the deliveries are materialized: the cursor has not moved.
	{name: "before the materializing transaction", at: always(moveCursor), attempts: once, runs: 1},
	{name: "inside it, before the deliveries", at: always(storeEach), attempts: once, runs: 1},
	{name: "inside it, before the attempts", at: always(storeAttempt), v1Only: true, attempts: once, runs: 1},
	{name: "inside it, before the commit", at: always(storeEach, commit), attempts: once, runs: 1},
	// After that, and before the claim.
	{name: "it is committed, and nobody knows", at: always(storeEach, commit), answered: true, v1Only: true, delivered: true, attempts: once, runs: 1},
	{name: "before the claim", at: claimed, v1Only: true, delivered: true, attempts: once, runs: 1},
	{name: "before the claim of the retry", at: claimed, change: failsFirst, v2Only: true, delivered: true, attempts: []string{"handler_error", ""}, runs: 1},
	// During the handler, which may not have begun. In version 2 what the leader has room for is claimed when it is
	// materialized.
	{name: "it is claimed, and nobody knows", at: claimed, answered: true, v1Only: true, delivered: true, attempts: again, runs: 1},
	{name: "it is committed as claimed, and nobody knows", at: always(storeEach, commit), answered: true, v2Only: true, delivered: true, attempts: again, runs: 1},
	{name: "the retry is claimed, and nobody knows", at: claimed, answered: true, change: failsFirst, v2Only: true, delivered: true, attempts: []string{"handler_error", "worker_lost", ""}, runs: 1},
	{name: "in the handler", change: func(c *consumer) { c.HangAfter = 1 }, delivered: true, attempts: again, runs: 1},
	// After the side effect, before the acknowledgement.
	{name: "by the handler itself, when its work is done", change: func(c *consumer) { c.DieAfter = 1 }, delivered: true, attempts: again, runs: 2},
	{name: "before the outcome", at: func(k deathKind) []command { return k.outcome() }, delivered: true, attempts: again, runs: 2},
	// During the acknowledgement: all of it is committed, or nothing.
	{name: "inside the outcome's transaction", at: func(k deathKind) []command { return k.outcome(endDelivery) }, v1Only: true, delivered: true, attempts: again, runs: 2},
	{name: "before its commit", at: func(k deathKind) []command { return k.outcome(commit) }, v1Only: true, delivered: true, attempts: again, runs: 2},
	{name: "the outcome is stored, and nobody knows", at: func(k deathKind) []command { return k.outcome(commit) }, answered: true, delivered: true, attempts: once, runs: 1},
	{name: "inside the transaction of a retry", at: func(k deathKind) []command { return k.outcome(storeAttempt) }, change: failsFirst, delivered: true, attempts: again, runs: 1},
	{name: "the retry is stored, and nobody knows", at: func(k deathKind) []command { return k.outcome(commit) }, answered: true, change: failsFirst, delivered: true, attempts: []string{"handler_error", ""}, runs: 1},
	// After the end: nothing runs again.
	{name: "when all has ended", delivered: true, attempts: once, runs: 1},
}

func always(at ...command) func(deathKind) []command { return func(deathKind) []command { return at } }

func claimed(k deathKind) []command { return []command{k.claim()} }

func failsFirst(c *consumer) { c.FailFirst = true }

// A process is killed at each point of the failure matrix, in each kind of delivery; another one takes over. No
// event is lost, none succeeds twice, the handler runs again only where the matrix allows it, and of all attempts
// only the one that ran is lost.
func TestFailure_6_2_ProcessesKilledAtEachPoint(t *testing.T) {
	t.Parallel()
	for _, k := range deathKinds {
		for _, d := range deaths {
			if d.v1Only && !k.v1() || d.v2Only && k.v1() {
				continue
			}
			t.Run(k.name+", "+d.name, func(t *testing.T) {
				t.Parallel()
				d.test(t, k)
			})
		}
	}
}

// The kinds and points where the server has no transactions: each step is stored by itself, and the next owner of
// the order, or the repairs of whoever serves the topic, do what is missing.
var (
	aloneKinds = []deathKind{
		{"ordered", consumer{Ordered: true}, 4, 4, chaosAlone},
		{"version 1", consumer{V1: true}, 1, 1, chaosAlone},
	}
	unmark      = command{"update", ".deliveries", []string{"needsReconciliation"}}
	aloneDeaths = []death{
		{name: "before the deliveries", at: always(storeEach), attempts: once, runs: 1},
		{name: "between deliveries and attempts", at: always(storeAttempt), behind: true, attempts: once, runs: 1},
		{name: "before the deliveries lose their marker", at: always(storeAttempt, unmark), behind: true, attempts: once, runs: 1},
		{name: "between deliveries and cursor", at: always(storeAttempt, moveCursor), behind: true, attempts: once, runs: 1},
		{name: "before the outcome", at: func(k deathKind) []command { return k.outcome() }, delivered: true, attempts: again, runs: 2},
		{name: "between outcome and delivery", at: func(k deathKind) []command { return k.outcome(endDelivery) }, delivered: true, attempts: once, runs: 1},
		{name: "before the end of the attempts", at: func(k deathKind) []command {
			return k.outcome(endDelivery, command{"update", ".history", []string{"expiresAt"}})
		}, delivered: true, attempts: once, runs: 1},
		{name: "before the last marker goes", at: func(k deathKind) []command { return k.outcome(endDelivery, unmark) }, delivered: true, attempts: once, runs: 1},
		{name: "between outcome and next attempt", at: func(k deathKind) []command { return k.outcome(storeAttempt) }, change: failsFirst, delivered: true, attempts: []string{"handler_error", ""}, runs: 1},
	}
)

// The same on a server without transactions, between every two steps.
func TestFailure_6_2_ProcessesKilledBetweenSteps(t *testing.T) {
	t.Parallel()
	for _, k := range aloneKinds {
		for _, d := range aloneDeaths {
			t.Run(k.name+", "+d.name, func(t *testing.T) {
				t.Parallel()
				d.test(t, k)
			})
		}
	}
}

func (d death) test(t *testing.T, k deathKind) {
	is := is.New(t)
	db := k.server.database(t)
	publisher := shop(t, db)
	ids := publishMany(t, childOrders, publisher, k.events)
	c := k.consumer
	c.URI, c.Database, c.Workers, c.MaxRetries, c.Lease = k.server.uri(t), db.Name(), 1, 3, 2*time.Second
	if d.change != nil {
		d.change(&c)
	}
	d.kill(t, db, k, c)

	first := mustFind(t, deliveriesOf(db), bson.D{{Key: "$or", Value: bson.A{bson.D{{Key: "eventId", Value: ids[0]}}, bson.D{{Key: "eventIds", Value: ids[0]}}}}})
	_, unmoved := only(t, subscriptionsOf(db), bson.D{}).LookupErr("cursorMoves")
	is.Equal(unmoved == nil, d.delivered) // both or neither
	is.Equal(len(first) == 1, d.delivered || d.behind)

	survive(t, db, k)
	later := published(t, childOrders, publisher, k.events)
	pulsetest.Eventually(t, "the next event is handled too", func(ctx context.Context) error {
		runs, err := runsOf(ctx, db)
		if err == nil && runs[later] == 0 {
			err = fmt.Errorf("%d events are", len(runs))
		}
		return err
	})
	deliveries := allEnded(t, db, append(ids, later))
	is.Equal(len(mustFind(t, deliveriesOf(db), bson.D{})), k.deliveries+1)
	attempts := attemptsV1(t, db)
	for i, id := range append(ids, later) {
		delivery := deliveries[id]
		of := attempts[delivery.Lookup("_id").StringValue()]
		if !k.v1() {
			of = attemptsIn(delivery)
		}
		codes := []string{}
		for _, a := range of {
			codes = append(codes, codeOf(a))
		}
		if i == 0 || k.deliveries == 1 && i < len(ids) {
			is.Equal(codes, d.attempts)
		} else {
			is.Equal(codes, once) // innocent
		}
	}
	runs, err := runsOf(t.Context(), db)
	is.NoErr(err)
	for i, id := range append(ids, later) {
		if i == 0 || k.deliveries == 1 && i < len(ids) {
			is.Equal(runs[id], d.runs)
		} else {
			is.Equal(runs[id], 1)
		}
	}
	if k.consumer.Ordered {
		runsInOrder(t, db, k.events+1)
	}
	marked := bson.D{{Key: "needsReconciliation", Value: true}} // of half-done steps
	eventually(t, 0, deliveriesOf(db), marked)
	eventually(t, 0, historyOf(db), marked)
	if d.name == "when all has ended" {
		is.Equal(mustFind(t, deliveriesOf(db), bson.D{{Key: "_id", Value: first[0].Lookup("_id")}}), first)
	}
}

// kill starts the process and kills it at the point.
func (d death) kill(t *testing.T, db *mongo.Database, k deathKind, c consumer) {
	t.Helper()
	if d.at == nil {
		p := startProcess(t, c)
		switch {
		case c.HangAfter > 0:
			p.waitLine("run ")
		case c.DieAfter > 0:
			_ = p.wait()
		default:
			eventually(t, k.deliveries, deliveriesOf(db), bson.D{{Key: "endedAt", Value: bson.D{{Key: "$ne", Value: nil}}}})
		}
		p.kill()
		return
	}
	wire := newTripwire(t, k.server.uri(t), d.answered, d.at(k)...)
	c.URI = wire.uri
	c.Poll = never // one step causes the next, and no poll comes between them
	p := startProcess(t, c)
	wire.tripped.Wait(t, 1)
	p.kill()
	wire.hangUp()
}

// survive starts the client that takes over; it records its runs as processes do.
func survive(t *testing.T, db *mongo.Database, k deathKind) {
	t.Helper()
	config := leased(db, survivor, nil)
	c := startOver(t, db.Client(), config)
	handle := func(ctx context.Context, es []*pulse.Event[order]) error {
		docs := make([]bson.D, len(es))
		for i, e := range es {
			docs[i] = bson.D{{Key: "event", Value: e.ID}, {Key: "attempt", Value: e.Attempt}, {Key: "pid", Value: os.Getpid()}, {Key: "number", Value: e.Data.Number}, {Key: "at", Value: bson.Timestamp{}}}
		}
		_, err := db.Collection("runs").InsertMany(ctx, docs)
		return err
	}
	opts := []pulse.SubscribeOption{pulse.OffsetReset(pulse.Earliest), pulse.RetryDelay(time.Millisecond), pulse.MaxRetries(3)}
	if !k.consumer.Ordered {
		opts = append(opts, pulse.Unordered())
	}
	if !k.v1() {
		opts = append(opts, pulse.ExecutionVersion(2))
	}
	is := is.New(t)
	if k.consumer.BatchSize > 0 {
		is.NoErr(second(childOrders.SubscribeBatch(t.Context(), c, k.consumer.BatchSize, handle, opts...)))
		return
	}
	is.NoErr(second(childOrders.Subscribe(t.Context(), c, func(ctx context.Context, e *pulse.Event[order]) error {
		return handle(ctx, []*pulse.Event[order]{e})
	}, opts...)))
}

// allEnded waits until every event has a delivery that ended well, and checks that it has no other. It returns
// the deliveries by their events.
func allEnded(t *testing.T, db *mongo.Database, ids []string) map[string]bson.Raw {
	t.Helper()
	of := map[string]bson.Raw{}
	pulsetest.Eventually(t, "all events are delivered", func(ctx context.Context) error {
		docs, err := find(ctx, deliveriesOf(db), bson.D{})
		clear(of)
		n := 0
		for _, d := range docs {
			if s := d.Lookup("status").StringValue(); s != "success" && s != "v2-success" {
				return fmt.Errorf("a delivery is %s", s)
			}
			for _, id := range eventsIn(d) {
				of[id] = d
				n++
			}
		}
		if err == nil && (len(of) != len(ids) || n != len(ids)) {
			err = fmt.Errorf("%d of %d events, in %d places", len(of), len(ids), n)
		}
		return err
	})
	return of
}
