package pulse_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
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

// everyServer runs the test on the server of the tests and, but under -short, on a standalone one, which has
// no transactions.
func everyServer(t *testing.T, test func(t *testing.T, db *mongo.Database)) {
	t.Helper()
	t.Parallel()
	t.Run("replica set", func(t *testing.T) {
		t.Parallel()
		test(t, pulsetest.Database(t))
	})
	t.Run("standalone", func(t *testing.T) {
		t.Parallel()
		test(t, standaloneDatabase(t))
	})
}

func standaloneDatabase(t *testing.T) *mongo.Database {
	t.Helper()
	is := is.New(t)
	pulsetest.URI(t) // skips under -short
	server, err := mongoserver.Start(t.Context(), mongoserver.Options{Standalone: true})
	is.NoErr(err)
	t.Cleanup(func() { is.NoErr(server.Stop()) })
	client := pulsetest.Client(t, func(opts *options.ClientOptions) {
		*opts = *options.Client().ApplyURI(server.URI())
	})
	return client.Database("standalone")
}

// version1 are the options of an unordered subscription whose attempts are in the history.
func version1(more ...pulse.SubscribeOption) []pulse.SubscribeOption {
	return append([]pulse.SubscribeOption{pulse.Unordered(), pulse.OffsetReset(pulse.Earliest), pulse.RetryDelay(time.Millisecond)}, more...)
}

var historyFields = []string{"_id id", "consumerGroup \"billing\"", "createdAt date", "deliveryId id", "eventId id", "nextAttemptAt date", "topic \"order.created\""}

// Each step of a version 1 delivery's life, as stored, ordered and not, with transactions and without, with a
// retention and without.
func TestStorage_4_8_DocumentsAtEachStep(t *testing.T) {
	everyServer(t, func(t *testing.T, db *mongo.Database) {
		for _, ordered := range []bool{false, true} {
			for _, retention := range []time.Duration{0, pulse.NoTTL} {
				t.Run(fmt.Sprint("ordered=", ordered, ",kept=", retention != 0), func(t *testing.T) {
					documentsAtEachStepV1(t, db.Client().Database(fmt.Sprintf("%s_%v_%v", db.Name(), ordered, retention != 0)), ordered, retention)
				})
			}
		}
	})
}

func documentsAtEachStepV1(t *testing.T, db *mongo.Database, ordered bool, retention time.Duration) {
	is := is.New(t)
	defer func() { is.NoErr(db.Drop(context.WithoutCancel(t.Context()))) }()
	config := fast(db)
	config.HistoryRetention = retention
	c := startOver(t, db.Client(), config)
	expiry := []string{"expiresAt date"}
	if retention != 0 {
		expiry = nil
	}
	results, running := make(chan error), make(chan int)
	handle := func(_ context.Context, e *pulse.Event[order]) error {
		running <- e.Attempt
		return <-results
	}
	opts := version1(pulse.MaxRetries(1))
	if ordered {
		opts = opts[1:]
	}
	sub, err := deliverOrders.Subscribe(t.Context(), c, handle, opts...)
	is.NoErr(err)
	published(t, deliverOrders, c, 0)

	// Running.
	is.Equal(<-running, 1)
	pending := plus(baseFields, `status "pending"`)
	is.Equal(layoutOf(only(t, deliveriesOf(db), bson.D{})), pending)
	claimed := plus(historyFields, append(slices.Clone(claimFields), int32Field("attempt", 1), `status "pending"`)...)
	is.Equal(layoutOf(only(t, historyOf(db), bson.D{})), claimed)

	// Failed, and the next attempt.
	results <- errors.New("not yet")
	is.Equal(<-running, 2)
	is.Equal(layoutOf(only(t, deliveriesOf(db), bson.D{})), pending)
	first := only(t, historyOf(db), bson.D{{Key: "attempt", Value: 1}})
	failed := plus(historyFields, append(slices.Clone(claimFields), int32Field("attempt", 1), `status "error"`, "durationMs milliseconds", "endedAt date", notYet)...)
	is.Equal(layoutOf(first), failed) // and no expiresAt: it goes with its delivery
	next := only(t, historyOf(db), bson.D{{Key: "attempt", Value: 2}})
	is.Equal(layoutOf(next), plus(historyFields, append(slices.Clone(claimFields), int32Field("attempt", 2), `status "pending"`)...))
	is.Equal(dateIn(next, "nextAttemptAt"), dateIn(first, "endedAt").Add(time.Millisecond))
	is.True(!dateIn(first, "endedAt").Before(dateIn(first, "startedAt")))

	// A success.
	results <- nil
	done := eventually(t, 1, deliveriesOf(db), bson.D{{Key: "status", Value: "success"}, {Key: "needsReconciliation", Value: nil}})[0]
	is.Equal(layoutOf(done), plus(baseFields, append(expiry, `status "success"`, "endedAt date", int32Field("finalAttempt", 2))...))
	first = only(t, historyOf(db), bson.D{{Key: "attempt", Value: 1}})
	second := only(t, historyOf(db), bson.D{{Key: "attempt", Value: 2}})
	is.Equal(layoutOf(first), plus(failed, expiry...))
	is.Equal(layoutOf(second), plus(historyFields, append(append(slices.Clone(claimFields), expiry...), int32Field("attempt", 2), `status "success"`, "durationMs milliseconds", "endedAt date")...))
	is.Equal(dateIn(done, "endedAt"), dateIn(second, "endedAt"))
	is.Equal(dateIn(done, "updatedAt"), dateIn(second, "endedAt"))
	if retention == 0 {
		for _, d := range []bson.Raw{first, second, done} {
			is.Equal(dateIn(d, "expiresAt"), dateIn(done, "endedAt").Add(7*24*time.Hour))
		}
	}

	// An error in the end.
	published(t, deliverOrders, c, 1)
	for attempt := 1; attempt <= 2; attempt++ {
		is.Equal(<-running, attempt)
		results <- errors.New("not yet")
	}
	bad := eventually(t, 1, deliveriesOf(db), bson.D{{Key: "status", Value: "error"}, {Key: "needsReconciliation", Value: nil}})[0]
	is.Equal(layoutOf(bad), plus(baseFields, append(expiry, `status "error"`, "endedAt date", int32Field("finalAttempt", 2), notYet)...))
	for _, a := range mustFind(t, historyOf(db), bson.D{{Key: "deliveryId", Value: bad.Lookup("_id")}}) {
		is.Equal(a.Lookup("status").StringValue(), "error")
		_, err := a.LookupErr("expiresAt")
		is.Equal(err == nil, retention == 0)
	}
	is.Equal(len(mustFind(t, historyOf(db), bson.D{{Key: "needsReconciliation", Value: true}})), 0)
	is.NoErr(sub.Unsubscribe(t.Context()))
	_, err = only(t, subscriptionsOf(db), bson.D{}).LookupErr("orderedLockToken")
	is.True(err != nil) // released
	closeClient(t, c)
}

// The same event has one delivery and each attempt one document, whoever inserts first.
func TestStorage_4_8_AttemptsAreUnique(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	g := newGroup(t, setup{clients: 1})
	s := &sequencer{fail: func(_ context.Context, r orderedRun) error {
		if r.Attempt < 3 {
			return errPlanned
		}
		return nil
	}}
	s.subscribe(t, g.clients, pulse.Unordered())
	publishMany(t, orderedTopic, g.clients[0], 10)
	settledV1(t, g.db, 10)
	a := mustFind(t, historyOf(g.db), bson.D{})[0]
	_, err := historyOf(g.db).InsertOne(t.Context(), bson.D{{Key: "_id", Value: "x"}, {Key: "deliveryId", Value: a.Lookup("deliveryId")}, {Key: "attempt", Value: a.Lookup("attempt")}})
	is.True(mongo.IsDuplicateKeyError(err))
}

// With a backlog version 1 costs less than a command an event, with its two documents for each.
func TestStorage_4_8_CommandsForEachEvent(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	const n = 2000
	db := pulsetest.Database(t)
	publishMany(t, orderedTopic, shop(t, db), n)
	commands := pulsetest.NewCommandMonitor()
	c := startClient(t, slow(db), commands.Watch)
	commands.Reset()
	s := &sequencer{}
	s.subscribe(t, []*pulse.Client{c}, pulse.Unordered())
	s.runs.Wait(t, n)
	settledV1(t, db, n)
	t.Logf("%.3f commands an event: %s", float64(commands.Count())/n, commands)
	is.True(commands.Count() < n)
}
