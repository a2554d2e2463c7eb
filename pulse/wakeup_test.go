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
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/orionjs/orion-go/pulse"
	"github.com/orionjs/orion-go/pulse/pulsetest"
)

// patient is a configuration whose polls are too rare to find anything: what happens, a change stream, a
// timer or the client's own work has caused.
func patient(db *mongo.Database, changes ...func(*pulse.Config)) pulse.Config {
	config := fast(db)
	config.PollInterval = never
	for _, change := range changes {
		change(&config)
	}
	return config
}

func oneWorker(c *pulse.Config) { c.WorkerCount = 1 }

func TestWakeup_3_4_NewEvent(t *testing.T) {
	t.Parallel()
	g := &group{db: pulsetest.Database(t)}
	for range 3 {
		g.clients = append(g.clients, startClient(t, patient(g.db)))
	}
	received := g.handleAll(t)
	for i := range 6 {
		published(t, deliverOrders, g.clients[i%3], i) // by the leader and by others
		received.Wait(t, i+1)
	}
}

// The leader has no free worker: the other replica hears of the deliveries.
func TestWakeup_3_4_OtherReplica(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	db := pulsetest.Database(t)
	leader := startClient(t, patient(db, oneWorker))
	busy := newGate()
	subscribed(t, leader, busy.handle)
	published(t, leaseOrders, leader, 0)
	busy.begun.Wait(t, 1) // it leads, since it was alone, and its worker is taken

	other := startClient(t, patient(db, oneWorker))
	var received pulsetest.Recorder[int]
	subscribed(t, other, func(_ context.Context, e *pulse.Event[order]) error {
		received.Add(e.Data.Number)
		return nil
	})
	for i := range 5 {
		published(t, leaseOrders, leader, i+1)
		is.Equal(received.Wait(t, i+1)[i], i+1)
	}
	close(busy.open)
}

// Retries run when they are due, whichever was scheduled first, also without streams.
func TestWakeup_3_4_RetriesWhenDue(t *testing.T) {
	t.Parallel()
	for _, streams := range []bool{true, false} {
		t.Run(setup{streams, 1}.String(), func(t *testing.T) {
			t.Parallel()
			db := pulsetest.Database(t)
			c := startClient(t, patient(db, func(c *pulse.Config) { c.DisableChangeStreams = !streams }))
			pauses := []time.Duration{900 * time.Millisecond, 200 * time.Millisecond, 1300 * time.Millisecond, 550 * time.Millisecond}
			publishMany(t, deliverOrders, c, len(pauses)) // before the subscription, whose first look finds them
			var again pulsetest.Recorder[int]
			_, err := deliverOrders.Subscribe(t.Context(), c, func(_ context.Context, e *pulse.Event[order]) error {
				if e.Attempt == 1 {
					return pulse.RetryAfter(errors.New("later"), pauses[e.Data.Number])
				}
				again.Add(e.Data.Number)
				return nil
			}, unordered(pulse.OffsetReset(pulse.Earliest))...)
			is.New(t).NoErr(err)
			again.Wait(t, len(pauses))
		})
	}
}

// The replica that scheduled a retry is gone when it is due: the other one has heard of it.
func TestWakeup_3_4_RetryOfAReplicaThatClosed(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	db := pulsetest.Database(t)
	other := startClient(t, patient(db, oneWorker))
	busy, blocker := newGate(), pulse.NewTopic[order]("blocker")
	_, err := blocker.Subscribe(t.Context(), other, busy.handle, unordered()...)
	is.NoErr(err)
	published(t, blocker, other, 1)
	busy.begun.Wait(t, 1)
	var received pulsetest.Recorder[int]
	subscribed(t, other, func(_ context.Context, e *pulse.Event[order]) error {
		received.Add(e.Attempt)
		return nil
	})

	first := startClient(t, patient(db))
	failed := make(chan struct{})
	subscribed(t, first, func(context.Context, *pulse.Event[order]) error {
		close(failed)
		return pulse.RetryAfter(errors.New("later"), time.Second)
	})
	published(t, leaseOrders, other, 1)
	<-failed
	closeClient(t, first)
	close(busy.open)
	is.Equal(received.Wait(t, 1)[0], 2)
}

// The errors with which a server ends a change stream for good, one that the driver would take for a passing
// one, and a refusal.
const (
	changeStreamHistoryLost = 286
	cursorNotFound          = 43
	unauthorized            = 13
)

// streamReports returns the reports that are about the change stream.
func streamReports(reported []error) int {
	n := 0
	for _, err := range reported {
		if strings.Contains(err.Error(), "change stream ended, polling alone carries on") {
			n++
		}
	}
	return n
}

func TestWakeup_3_4_LostStreamFallsBackToPollingWithoutSpinning(t *testing.T) {
	t.Parallel()
	for name, code := range map[string]int{"history lost": changeStreamHistoryLost, "resumable": cursorNotFound} {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			db := pulsetest.Database(t)
			var reported pulsetest.Recorder[error]
			var openings streamOpenings
			config := fast(db)
			config.OnError = func(err error) { reported.Add(err) }
			failing := pulsetest.NewFailPoint(t, db.Client())
			failing.Set(pulsetest.Failure{AppName: db.Name(), Commands: []string{"getMore"}, ErrorCode: code})
			begun := time.Now()
			g := &group{db: db, clients: []*pulse.Client{startClient(t, config, openings.watch, func(o *options.ClientOptions) { o.SetAppName(db.Name()) })}}
			received := g.handleAll(t)
			for i := range 3 {
				published(t, deliverOrders, g.clients[0], i)
				received.Wait(t, i+1)
			}
			pulsetest.Eventually(t, "the stream is opened again", func(context.Context) error {
				if openings.count() < 3 {
					return errors.New("not yet")
				}
				return nil
			})
			n, took := openings.count(), time.Since(begun)
			is.True(n <= 3+int(took/time.Second)) // after pauses of 0.5 s and 1 s, and longer ones then
			is.Equal(streamReports(reported.Values()), 1)
		})
	}
}

// It fails twice and works again: what happens then is heard of.
func TestWakeup_3_4_StreamComesBackByItself(t *testing.T) {
	t.Parallel()
	for command, code := range map[string]int{"getMore": changeStreamHistoryLost, "aggregate": unauthorized} {
		t.Run(command, func(t *testing.T) {
			is := is.New(t)
			db := pulsetest.Database(t)
			var reported pulsetest.Recorder[error]
			var openings streamOpenings
			failing := pulsetest.NewFailPoint(t, db.Client())
			// One more than the stream shall meet where the poll after a subscription meets one as well.
			times := map[string]int{"getMore": 2, "aggregate": 3}[command]
			failing.Set(pulsetest.Failure{AppName: db.Name(), Commands: []string{command}, ErrorCode: code, Times: times})
			c := startClient(t, patient(db, func(c *pulse.Config) { c.OnError = func(err error) { reported.Add(err) } }),
				openings.watch, func(o *options.ClientOptions) { o.SetAppName(db.Name()) })
			g := &group{db: db, clients: []*pulse.Client{c}}
			received := g.handleAll(t)
			pulsetest.Eventually(t, "the stream is opened for the third time", func(context.Context) error {
				if openings.count() < 3 {
					return errors.New("not yet")
				}
				return nil
			})
			for i := range 3 { // one may be found by the poll after the opening, but not all
				published(t, deliverOrders, c, i)
				received.Wait(t, i+1)
			}
			is.True(openings.count() <= times+1)
			is.Equal(streamReports(reported.Values()), 1)
			is.True(reported.Len() < times)
		})
	}
}

// The connection is cut for a while.
func TestWakeup_3_4_StreamComesBackAfterANetworkFailure(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	db := pulsetest.Database(t)
	proxy := pulsetest.NewProxy(t)
	var reported pulsetest.Recorder[error]
	g := &group{db: db, clients: []*pulse.Client{startClient(t, patient(db, func(c *pulse.Config) { c.OnError = func(err error) { reported.Add(err) } }), proxy.Use)}}
	received := g.handleAll(t)
	outside := startClient(t, patient(db))
	published(t, deliverOrders, outside, 0)
	received.Wait(t, 1)
	proxy.Cut()
	reported.WaitFor(t, "the report of the stream's end", func(all []error) bool { return streamReports(all) > 0 })
	published(t, deliverOrders, outside, 1) // nobody hears of it
	proxy.Restore()
	received.Wait(t, 2) // the poll of the new stream's opening finds it
	for i := range 2 {
		published(t, deliverOrders, outside, 2+i)
		received.Wait(t, 3+i)
	}
	is.Equal(streamReports(reported.Values()), 1)
}

// The database is dropped and restored: the stream is invalidated, and a new one takes its place.
func TestWakeup_3_4_InvalidatedStream(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	db := pulsetest.Database(t)
	var reported pulsetest.Recorder[error]
	var openings streamOpenings
	config := fast(db)
	config.OnError = func(err error) { reported.Add(err) }
	begun := time.Now()
	g := &group{db: db, clients: []*pulse.Client{startClient(t, config, openings.watch)}}
	received := g.handleAll(t)
	published(t, deliverOrders, g.clients[0], 0)
	received.Wait(t, 1)
	backup := only(t, subscriptionsOf(db), bson.D{})
	is.NoErr(db.Drop(t.Context()))
	reported.WaitFor(t, "the report of the stream's end", func(all []error) bool { return streamReports(all) > 0 })
	_, err := subscriptionsOf(db).InsertOne(t.Context(), backup)
	is.NoErr(err)
	for i := range 2 {
		published(t, deliverOrders, g.clients[0], i+1)
		received.Wait(t, i+2)
	}
	pulsetest.Eventually(t, "a new stream", func(context.Context) error {
		if openings.count() < 2 {
			return fmt.Errorf("%d openings", openings.count())
		}
		return nil
	})
	is.True(openings.count() <= 3+int(time.Since(begun)/time.Second))
	is.Equal(streamReports(reported.Values()), 1)
}

// Polling alone: each step is found by the next poll.
func TestWakeup_3_4_PollingAlone(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	db := pulsetest.Database(t)
	var openings streamOpenings
	g := &group{db: db}
	for range 2 {
		config := fast(db)
		config.DisableChangeStreams = true
		g.clients = append(g.clients, startClient(t, config, openings.watch))
	}
	received := g.handleAll(t)
	for i := range 4 {
		published(t, deliverOrders, g.clients[i%2], i)
		received.Wait(t, i+1)
	}
	is.Equal(openings.count(), 0)
}

// An idle client costs its polls and nothing else.
func TestWakeup_3_4_IdleClientSendsNothing(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	db := pulsetest.Database(t)
	commands := pulsetest.NewCommandMonitor()
	g := &group{db: db, clients: []*pulse.Client{startClient(t, slow(db), commands.Watch)}}
	received := g.handleAll(t)
	published(t, deliverOrders, g.clients[0], 0)
	received.Wait(t, 1)
	eventually(t, 1, deliveriesOf(db), bson.D{{Key: "status", Value: "v2-success"}})
	outside := startClient(t, slow(db))
	published(t, pulse.NewTopic[order]("sync"), outside, 1)
	commands.Reset()
	for i := range 20 { // of topics that it does not serve
		published(t, pulse.NewTopic[order]("another topic"), outside, i)
	}
	published(t, deliverOrders, outside, 1)
	received.Wait(t, 2)
	eventually(t, 2, deliveriesOf(db), bson.D{{Key: "status", Value: "v2-success"}})
	n := commands.Count() - commands.Count("getMore")
	is.True(n <= 16) // what the one event of its own topic takes (about ten); the twenty others take none
}

// A client that only publishes follows no stream and polls nothing.
func TestWakeup_3_4_APublisherCostsNothing(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	db := pulsetest.Database(t)
	monitor := pulsetest.NewCommandMonitor()
	c := startClient(t, fast(db), monitor.Watch)
	for i := range 20 {
		published(t, deliverOrders, c, i)
	}
	is.Equal(monitor.Count("aggregate"), 0)
	is.Equal(monitor.Count("getMore"), 0)
	is.Equal(monitor.Count("insert"), 20)
}

// A poll finds what has become due also while a topic has other work: else what its leader stores as claimed already
// would go before what others have left, for as long as there is always some.
func TestPoll_3_4_FindsWhatIsDueBesideOtherWork(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	db := pulsetest.Database(t)
	config := fast(db)
	config.DisableChangeStreams, config.WorkerCount = true, 1
	c := startClient(t, config)
	blocked, release := make(chan struct{}), make(chan struct{})
	t.Cleanup(func() { close(release) })
	is.NoErr(second(deliverOrders.Subscribe(t.Context(), c, func(_ context.Context, e *pulse.Event[order]) error {
		if e.Data.Number == 1 {
			close(blocked)
			<-release
		}
		return nil
	}, unordered()...)))
	published(t, deliverOrders, c, 0)
	eventually(t, 1, deliveriesOf(db), bson.D{{Key: "status", Value: "v2-success"}})
	published(t, deliverOrders, c, 1)
	<-blocked
	published(t, deliverOrders, c, 2)
	eventually(t, 2, deliveriesOf(db), bson.D{{Key: "status", Value: "v2-processing"}}) // it waits for the worker

	_, err := deliveriesOf(db).InsertOne(t.Context(), bson.D{ // handed back by another client
		{Key: "_id", Value: "left"},
		{Key: "eventId", Value: "left"},
		{Key: "consumerGroup", Value: "billing"},
		{Key: "topic", Value: deliverOrders.Name()},
		{Key: "status", Value: "v2-pending"},
		{Key: "attempt", Value: int32(0)},
		{Key: "attemptId", Value: "left"},
		{Key: "attempts", Value: bson.A{}},
		{Key: "attemptCreatedAt", Value: time.Now()},
		{Key: "nextAttemptAt", Value: time.Now()},
	})
	is.NoErr(err)
	for n := 3; n <= 5; n++ { // each is found by another poll
		published(t, deliverOrders, c, n)
		eventually(t, n+2, deliveriesOf(db), bson.D{})
	}
	eventually(t, 1, deliveriesOf(db), bson.D{{Key: "_id", Value: "left"}, {Key: "status", Value: "v2-processing"}})
}
