package pulse_test

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/matryer/is"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"golang.org/x/sync/errgroup"

	"github.com/orionjs/orion-go/pulse"
	"github.com/orionjs/orion-go/pulse/pulsetest"
)

// kind is a way to subscribe.
type kind struct {
	name  string
	batch int
	opts  []pulse.SubscribeOption
}

var (
	orderedKind = kind{name: "ordered"}
	v1Kind      = kind{name: "version 1", opts: []pulse.SubscribeOption{pulse.Unordered()}}
	v2Kind      = kind{name: "version 2", opts: []pulse.SubscribeOption{pulse.Unordered(), pulse.ExecutionVersion(2)}}
	batchKind   = kind{name: "batch", batch: 5}
)

// subscribe records the numbers of all events that are handled, in batches or not.
func (k kind) subscribe(t *testing.T, c *pulse.Client, seen *pulsetest.Recorder[int], more ...pulse.SubscribeOption) {
	t.Helper()
	k.subscribeTo(t, orderedTopic, c, seen, more...)
}

func (k kind) subscribeTo(t *testing.T, topic pulse.Topic[order], c *pulse.Client, seen *pulsetest.Recorder[int], more ...pulse.SubscribeOption) {
	t.Helper()
	is := is.New(t)
	opts := append(slices.Clone(k.opts), more...)
	if k.batch > 0 {
		is.NoErr(second(topic.SubscribeBatch(t.Context(), c, k.batch, func(_ context.Context, es []*pulse.Event[order]) error {
			for _, e := range es {
				seen.Add(e.Data.Number)
			}
			return nil
		}, opts...)))
		return
	}
	is.NoErr(second(topic.Subscribe(t.Context(), c, func(_ context.Context, e *pulse.Event[order]) error {
		seen.Add(e.Data.Number)
		return nil
	}, opts...)))
}

// storeDelivery stores a delivery of events as another client of the group left it, in version 1 with its
// first attempt, and returns its ID.
func storeDelivery(t *testing.T, db *mongo.Database, version int, events ...bson.Raw) string {
	t.Helper()
	is := is.New(t)
	last, id, now := events[len(events)-1], uuid.NewString(), time.Now().Truncate(time.Millisecond)
	d := bson.D{
		{Key: "_id", Value: id},
		{Key: "eventId", Value: last.Lookup("_id")},
		{Key: "consumerGroup", Value: "billing"},
		{Key: "topic", Value: last.Lookup("topic")},
		{Key: "eventCreatedAt", Value: last.Lookup("createdAt")},
		{Key: "eventSequence", Value: last.Lookup("sequence")},
		{Key: "createdAt", Value: now},
		{Key: "updatedAt", Value: now},
	}
	if version == 1 {
		d = append(d, bson.E{Key: "status", Value: "pending"})
		_, err := historyOf(db).InsertOne(t.Context(), bson.D{
			{Key: "_id", Value: uuid.NewString()},
			{Key: "deliveryId", Value: id},
			{Key: "eventId", Value: last.Lookup("_id")},
			{Key: "consumerGroup", Value: "billing"},
			{Key: "topic", Value: last.Lookup("topic")},
			{Key: "attempt", Value: int32(1)},
			{Key: "status", Value: "pending"},
			{Key: "createdAt", Value: now},
			{Key: "nextAttemptAt", Value: now},
		})
		is.NoErr(err)
	} else {
		d = append(d, bson.E{Key: "status", Value: "v2-pending"}, bson.E{Key: "attempt", Value: int32(0)}, bson.E{Key: "attemptId", Value: uuid.NewString()},
			bson.E{Key: "attemptCreatedAt", Value: now}, bson.E{Key: "nextAttemptAt", Value: now}, bson.E{Key: "attempts", Value: bson.A{}})
		if len(events) > 1 {
			ids := bson.A{}
			for _, e := range events {
				ids = append(ids, e.Lookup("_id"))
			}
			d = append(d, bson.E{Key: "eventIds", Value: ids})
		} else {
			d = append(d, bson.E{Key: "executionVersion", Value: int32(2)})
		}
	}
	_, err := deliveriesOf(db).InsertOne(t.Context(), d)
	is.NoErr(err)
	return id
}

// One client drains whatever format its group has left, whatever it is configured to write itself, and
// converts nothing.
func TestBridge_4_11_EveryConfigurationDrainsEveryFormat(t *testing.T) {
	t.Parallel()
	for _, k := range []kind{orderedKind, v1Kind, v2Kind, batchKind} {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			db := pulsetest.Database(t)
			publishMany(t, orderedTopic, shop(t, db), 12)
			events := mustFind(t, eventsOf(db), bson.D{})
			want := map[string]string{}
			for i := range 4 {
				want[storeDelivery(t, db, 1, events[i])] = "success"
				want[storeDelivery(t, db, 2, events[4+i])] = "v2-success"
			}
			want[storeDelivery(t, db, 2, events[8:]...)] = "v2-success"
			var seen pulsetest.Recorder[int]
			c := startClient(t, fast(db))
			k.subscribe(t, c, &seen) // latest: those events are not its own to deliver
			seen.Wait(t, 12)
			pulsetest.Eventually(t, "all have ended in the format that they had", func(ctx context.Context) error {
				docs, err := find(ctx, deliveriesOf(db), bson.D{})
				for _, d := range docs {
					if id := d.Lookup("_id").StringValue(); d.Lookup("status").StringValue() != want[id] {
						return fmt.Errorf("%s: %s, want %s", id, d.Lookup("status"), want[id])
					}
				}
				return err
			})
			is.Equal(len(mustFind(t, deliveriesOf(db), bson.D{})), len(want))
			is.Equal(len(mustFind(t, historyOf(db), bson.D{})), 4)
			closeClient(t, c)
			eachOnce(t, seen.Values(), 12)
		})
	}
}

// A delivery keeps its format when the subscription is raised to version 2 and when it goes back; the marker
// that version 2 was seen stays.
func TestBridge_4_11_FormatIsDecidedAtBirth(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	db := pulsetest.Database(t)
	var failing atomic.Bool
	failing.Store(true)
	var seen pulsetest.Recorder[int]
	var tries pulsetest.Recorder[int]
	run := func(version, config int) *pulse.Client {
		c := startClient(t, fast(db))
		is.NoErr(second(orderedTopic.Subscribe(t.Context(), c, func(_ context.Context, e *pulse.Event[order]) error {
			if failing.Load() {
				tries.Add(e.Data.Number)
				return pulse.RetryAfter(errPlanned, 200*time.Millisecond)
			}
			seen.Add(e.Data.Number)
			return nil
		}, version1(pulse.ExecutionVersion(version), pulse.ConfigVersion(config), pulse.MaxRetries(1000), pulse.RetryBackoffMultiplier(1))...)))
		return c
	}
	marker := func() bool {
		value, ok := only(t, subscriptionsOf(db), bson.D{}).Lookup("embeddedExecutionSeen").BooleanOK()
		return ok && value
	}
	c := run(1, 0)
	is.True(!marker())
	published(t, orderedTopic, c, 0)
	tries.Wait(t, 1)
	closeClient(t, c)
	c = run(2, 1)
	is.True(marker())
	published(t, orderedTopic, c, 1)
	tries.WaitFor(t, "both", func(all []int) bool { return slices.Contains(all, 1) })
	closeClient(t, c)
	c = run(1, 2)
	is.True(marker()) // it stays
	published(t, orderedTopic, c, 2)
	tries.WaitFor(t, "all three", func(all []int) bool { return slices.Contains(all, 2) })
	failing.Store(false)
	seen.Wait(t, 3)
	eventually(t, 2, deliveriesOf(db), bson.D{{Key: "status", Value: "success"}})
	one := eventually(t, 1, deliveriesOf(db), bson.D{{Key: "status", Value: "v2-success"}})[0]
	is.Equal(len(mustFind(t, historyOf(db), bson.D{{Key: "deliveryId", Value: one.Lookup("_id")}})), 0)
	closeClient(t, c)
	eachOnce(t, seen.Values(), 3)
}

// A fleet walks through rollouts and back under load, while its older members adopt what the newer ones
// raise: no event is lost, none succeeds twice.
func TestBridge_4_13_FleetChangesUnderLoad(t *testing.T) {
	t.Parallel()
	for _, walk := range [][]kind{
		{v1Kind, v2Kind, v1Kind},               // rollout of version 2, and back
		{orderedKind, v2Kind, orderedKind},     // the same from the default
		{v1Kind, batchKind, v1Kind, batchKind}, // single and batch handlers in one fleet
		{v2Kind, batchKind, orderedKind},
	} {
		name := ""
		for _, k := range walk {
			name += k.name + ","
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			db := pulsetest.Database(t)
			publisher := shop(t, db)
			var seen pulsetest.Recorder[int]
			start := func(k kind, config int) *pulse.Client {
				// The polls of so many clients at the usual pace of tests would be most of what the server does.
				settings := fast(db)
				settings.PollInterval = time.Second
				c := startClient(t, settings)
				k.subscribe(t, c, &seen, pulse.ConfigVersion(config), pulse.OffsetReset(pulse.Earliest))
				return c
			}
			fleet := []*pulse.Client{start(walk[0], 0), start(walk[0], 0)}
			ctx, stop := context.WithCancel(t.Context())
			var load errgroup.Group
			var published atomic.Int64
			load.Go(func() error {
				for ctx.Err() == nil {
					n := int(published.Load())
					if n-seen.Len() > 70 { // as fast as the fleet is, whatever else the machine does
						pause(ctx, 10*time.Millisecond)
						continue
					}
					messages := make([]pulse.Message[order], 7)
					for i := range messages {
						messages[i].Data.Number = n + i
					}
					if _, err := orderedTopic.PublishMany(t.Context(), publisher, messages); err != nil {
						return err
					}
					published.Add(7)
				}
				return nil
			})
			for step, k := range walk[1:] {
				seen.Wait(t, seen.Len()+15)
				for i := range fleet { // one replica after the other
					newer := start(k, step+1)
					seen.Wait(t, seen.Len()+15) // both together
					closeClient(t, fleet[i])
					fleet[i] = newer
				}
			}
			seen.Wait(t, seen.Len()+15)
			stop()
			is.NoErr(load.Wait())
			n := int(published.Load())
			seen.Wait(t, n)
			delivered := func(ctx context.Context) (events, open int, err error) {
				docs, err := find(ctx, deliveriesOf(db), bson.D{})
				for _, d := range docs {
					switch d.Lookup("status").StringValue() {
					case "success", "v2-success":
						events += len(eventsIn(d))
					default:
						open++
					}
				}
				return events, open, err
			}
			pulsetest.Eventually(t, "every event has a success", func(ctx context.Context) error {
				events, open, err := delivered(ctx)
				if err == nil && (events != n || open > 0) {
					err = fmt.Errorf("%d of %d, %d deliveries are open", events, n, open)
				}
				return err
			})
			for _, c := range fleet {
				closeClient(t, c)
			}
			eachOnce(t, seen.Values(), n)
			is.Equal(len(mustFind(t, historyOf(db), bson.D{{Key: "status", Value: bson.D{{Key: "$ne", Value: "success"}}}})), 0)
		})
	}
}
