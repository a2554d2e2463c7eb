package pulse_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/matryer/is"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"golang.org/x/sync/errgroup"

	"github.com/orionjs/orion-go/internal/tcpproxy"
	"github.com/orionjs/orion-go/pulse"
	"github.com/orionjs/orion-go/pulse/pulsetest"
	"github.com/orionjs/orion-go/pulse/pulsetest/mongoserver"
)

// outageEach is how many events each topic of an outage gets.
const outageEach = 150

// outage is a group of two clients with a topic of each kind, under load.
type outage struct {
	db     *mongo.Database
	topics map[string]pulse.Topic[order]
	seen   map[string]*pulsetest.Recorder[int]
	load   errgroup.Group
}

// startOutage starts the group over connections that will fail, and a publisher that repeats what fails.
func startOutage(t *testing.T, db *mongo.Database, publisher *mongo.Client, connect func() *mongo.Client) *outage {
	t.Helper()
	is := is.New(t)
	o := &outage{db: db, topics: map[string]pulse.Topic[order]{}, seen: map[string]*pulsetest.Recorder[int]{}}
	config := fast(db)
	config.PollInterval = 500 * time.Millisecond
	config.LockTimeout = 20 * time.Second // longer than any outage: nobody's claim is lost
	clients := []*pulse.Client{startOver(t, connect(), config), startOver(t, connect(), config)}
	config.ConsumerGroup = "shop"
	shop := startOver(t, publisher, config)
	for _, k := range []kind{orderedKind, v1Kind, v2Kind, batchKind} {
		topic, seen := pulse.NewTopic[order](k.name), &pulsetest.Recorder[int]{}
		o.topics[k.name], o.seen[k.name] = topic, seen
		for _, c := range clients {
			k.subscribeTo(t, topic, c, seen, pulse.OffsetReset(pulse.Earliest))
		}
		o.load.Go(func() error {
			for n := range outageEach {
				for { // until it is known that it is stored
					_, err := topic.Publish(t.Context(), shop, order{Number: n}, pulse.WithID(fmt.Sprint(k.name, n)))
					if err == nil {
						break
					}
					if t.Context().Err() != nil {
						return err
					}
					pause(t.Context(), 20*time.Millisecond)
				}
			}
			return nil
		})
	}
	is.Equal(len(o.topics), 4)
	return o
}

// reach waits until each kind has seen n events.
func (o *outage) reach(t *testing.T, n int) {
	t.Helper()
	for _, seen := range o.seen {
		seen.Wait(t, min(n, outageEach))
	}
}

// check waits for the end of the load, and checks that every event was handled once: no claim was lost, so that
// each outcome was stored, sooner or later.
func (o *outage) check(t *testing.T) {
	t.Helper()
	is := is.New(t)
	is.NoErr(o.load.Wait())
	o.reach(t, outageEach)
	pulsetest.Eventually(t, "every delivery has ended", func(ctx context.Context) error {
		open, err := o.db.Collection("orionjs.pulse.deliveries").CountDocuments(ctx, bson.D{{Key: "status", Value: bson.D{{Key: "$nin", Value: bson.A{"success", "v2-success"}}}}})
		if err == nil && open > 0 {
			err = fmt.Errorf("%d are open", open)
		}
		return err
	})
	for name, topic := range o.topics {
		events := map[string]int{}
		for _, d := range mustFind(t, deliveriesOf(o.db), bson.D{{Key: "topic", Value: topic.Name()}}) {
			for _, id := range eventsIn(d) {
				events[id]++
			}
			if name != orderedKind.name { // there a claim whose answer was lost may cost an attempt, which nobody has seen
				is.Equal(d.Lookup("finalAttempt").AsInt64(), int64(1))
			}
		}
		is.Equal(len(events), outageEach)
		for _, deliveries := range events {
			is.Equal(deliveries, 1)
		}
		handled := o.seen[name].Values()
		if name == orderedKind.name {
			is.True(slices.IsSorted(handled))
		}
		eachOnce(t, handled, outageEach)
	}
	left := bson.D{{Key: "$or", Value: bson.A{bson.D{{Key: "status", Value: "pending"}}, bson.D{{Key: "needsReconciliation", Value: true}}}}}
	is.Equal(len(mustFind(t, historyOf(o.db), left)), 0)
}

// The server is killed under load, and comes back, twice: whatever was on its way, nothing is lost and nothing
// runs twice, in each kind of delivery.
func TestOutage_6_2_ServerKilledUnderLoad(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	pulsetest.URI(t) // skips under -short
	server, err := mongoserver.Start(t.Context(), mongoserver.Options{SyncOnCommit: true})
	is.NoErr(err)
	t.Cleanup(func() { is.NoErr(server.Stop()) })
	connect := func() *mongo.Client { return pulsetest.Client(t, onServer(server.URI())) }
	o := startOutage(t, connect().Database("outage"), connect(), connect)
	for _, n := range []int{20, 80} {
		o.reach(t, n)
		is.NoErr(server.Kill())
		is.NoErr(server.Restart(t.Context()))
	}
	o.check(t)
}

// The connections of the consumers are cut under load, again and again.
func TestOutage_6_2_ConnectionsCutUnderLoad(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	db := chaosDatabase(t) // a cut may leave an open transaction
	proxy, err := tcpproxy.New(chaosURI(t))
	is.NoErr(err)
	t.Cleanup(proxy.Close)
	o := startOutage(t, db, db.Client(), func() *mongo.Client { return pulsetest.Client(t, onServer(proxy.URI())) })
	for n := 10; n < outageEach; n += 10 {
		o.reach(t, n)
		proxy.Cut()
		proxy.Restore()
	}
	o.check(t)
}
