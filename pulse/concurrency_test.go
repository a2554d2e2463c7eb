package pulse_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/matryer/is"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/orionjs/orion-go/pulse"
	"github.com/orionjs/orion-go/pulse/pulsetest"
)

// meter measures inside handlers how many run at once, in all and of each topic.
type meter struct {
	mu                 sync.Mutex
	running, most      int
	ofTopic, mostTopic map[string]int
}

func newMeter() *meter { return &meter{ofTopic: map[string]int{}, mostTopic: map[string]int{}} }

// enter counts a handler in; the returned function counts it out.
func (m *meter) enter(topic string) (leave func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.running++
	m.ofTopic[topic]++
	m.most = max(m.most, m.running)
	m.mostTopic[topic] = max(m.mostTopic[topic], m.ofTopic[topic])
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.running--
		m.ofTopic[topic]--
	}
}

func (m *meter) reached(n int) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.most >= n
}

// The bounds are measured inside the handlers, and reached.
func TestConcurrency_2_10_WorkersAndTopicLimitsBoundWhatRuns(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	db := pulsetest.Database(t)
	config := fast(db)
	config.WorkerCount = 5
	c := startClient(t, config)
	m, full := newMeter(), make(chan struct{})
	fill := sync.OnceFunc(func() { close(full) })
	var handled pulsetest.Recorder[string]
	limits := map[string]int{"one": 1, "two": 2, "all": 0, "batch": 2}
	const events = 60
	for name, limit := range limits {
		topic := pulse.NewTopic[order](name)
		publishMany(t, topic, c, events)
		opts := []pulse.SubscribeOption{pulse.OffsetReset(pulse.Earliest)}
		if limit > 0 {
			opts = append(opts, pulse.MaxConcurrency(limit))
		}
		work := func(n int) {
			defer m.enter(name)()
			if m.reached(5) {
				fill()
			}
			<-full                           // the first wait for each other
			time.Sleep(3 * time.Millisecond) // all take their time, so that others have to wait
			for range n {
				handled.Add(name)
			}
		}
		var err error
		if name == "batch" {
			_, err = topic.SubscribeBatch(t.Context(), c, 5, func(_ context.Context, es []*pulse.Event[order]) error {
				work(len(es))
				return nil
			}, opts...)
		} else {
			_, err = topic.Subscribe(t.Context(), c, func(context.Context, *pulse.Event[order]) error {
				work(1)
				return nil
			}, unordered(opts...)...)
		}
		is.NoErr(err)
	}
	handled.Wait(t, events*len(limits))
	closeClient(t, c)
	is.Equal(m.most, 5)
	is.Equal(m.mostTopic["one"], 1)
	is.True(m.mostTopic["two"] <= 2)
	is.True(m.mostTopic["batch"] <= 2)
}

// Four workers, one topic with a huge backlog of slow events, and twelve others of every kind: none starves.
// Each event of the twelve is published when the one before was handled, so every one of them has to get a
// worker beside the backlog.
func TestConcurrency_2_10_TwelveTopicsBesideAHugeBacklog(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	db := pulsetest.Database(t)
	c := startClient(t, fast(db))
	m := newMeter()
	huge := pulse.NewTopic[order]("huge")
	var ofHuge pulsetest.Recorder[int]
	const backlog = 2500
	publishMany(t, huge, c, backlog)
	_, err := huge.Subscribe(t.Context(), c, func(_ context.Context, e *pulse.Event[order]) error {
		defer m.enter("huge")()
		time.Sleep(8 * time.Millisecond)
		ofHuge.Add(e.Data.Number)
		return nil
	}, unordered(pulse.OffsetReset(pulse.Earliest))...)
	is.NoErr(err)
	ofHuge.Wait(t, 50) // in full swing

	const each = 4
	handled := make([]pulsetest.Recorder[int], 12)
	for i := range handled {
		topic := pulse.NewTopic[order](fmt.Sprint("small ", i))
		handle := func(_ context.Context, e *pulse.Event[order]) error {
			defer m.enter(topic.Name())()
			handled[i].Add(e.Data.Number)
			return nil
		}
		switch i % 4 {
		case 0:
			_, err = topic.Subscribe(t.Context(), c, handle, unordered()...)
		case 1:
			_, err = topic.Subscribe(t.Context(), c, handle, unordered(pulse.DeliveryMode(pulse.AtMostOnce))...)
		case 2:
			_, err = topic.Subscribe(t.Context(), c, handle, unordered(pulse.MaxRetries(0), pulse.MaxConcurrency(1))...)
		case 3:
			_, err = topic.SubscribeBatch(t.Context(), c, 10, func(ctx context.Context, es []*pulse.Event[order]) error {
				for _, e := range es {
					_ = handle(ctx, e)
				}
				return nil
			})
		}
		is.NoErr(err)
	}
	var publishers sync.WaitGroup
	for i := range handled {
		topic := pulse.NewTopic[order](fmt.Sprint("small ", i))
		published(t, topic, c, 0)
		publishers.Go(func() {
			for n := 1; n < each; n++ {
				for handled[i].Len() < n && t.Context().Err() == nil {
					time.Sleep(time.Millisecond)
				}
				if _, err := topic.Publish(t.Context(), c, order{Number: n}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for i := range handled {
		handled[i].Wait(t, each)
	}
	publishers.Wait()
	is.True(ofHuge.Len() < backlog) // all the while there was a backlog
	is.True(!m.reached(5))
}

// Handlers become slow after candidates were read for quick ones.
func TestConcurrency_2_10_TopicThatSlowsDownGoesOn(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	db := pulsetest.Database(t)
	c := startClient(t, slow(db))
	publishMany(t, deliverOrders, c, 40)
	var handled pulsetest.Recorder[int]
	_, err := deliverOrders.Subscribe(t.Context(), c, func(_ context.Context, e *pulse.Event[order]) error {
		if handled.Len() >= 16 {
			time.Sleep(400 * time.Millisecond)
		}
		handled.Add(e.Data.Number)
		return nil
	}, unordered(pulse.OffsetReset(pulse.Earliest), pulse.MaxConcurrency(1))...)
	is.NoErr(err)
	handled.Wait(t, 27)
}

// aheadClient is a client with one worker that claims ahead: its handler was quick, and then waits.
func aheadClient(t *testing.T, db *mongo.Database, lease time.Duration) (*pulse.Client, *pulse.Subscription, *gate) {
	t.Helper()
	config := leased(db, lease, nil)
	config.WorkerCount = 1
	c := startClient(t, config)
	g := newGate()
	for range 20 {
		g.open <- nil
	}
	publishMany(t, leaseOrders, c, 60)
	sub := subscribed(t, c, g.handle)
	g.begun.Wait(t, 21)
	return c, sub, g
}

// claimedAhead waits until the client has claimed ahead of its one worker, and returns what it holds.
func claimedAhead(t *testing.T, db *mongo.Database) []bson.Raw {
	t.Helper()
	var held []bson.Raw
	pulsetest.Eventually(t, "it claims ahead", func(ctx context.Context) error {
		n, err := deliveriesOf(db).CountDocuments(ctx, bson.D{{Key: "status", Value: "v2-success"}})
		if err != nil || n < 20 {
			return errors.Join(err, fmt.Errorf("%d are done", n))
		}
		if held, err = find(ctx, deliveriesOf(db), processing); err == nil && len(held) < 2 {
			err = fmt.Errorf("%d are claimed", len(held))
		}
		return err
	})
	return held
}

func TestConcurrency_4_7_BufferedClaimsAreBoundedAndRenewed(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	db := pulsetest.Database(t)
	_, _, g := aheadClient(t, db, 3*time.Second)
	held := claimedAhead(t, db)
	is.True(len(held) <= 1+16)
	last := held[0].Lookup("lockedUntil").Time()
	for _, d := range held {
		is.Equal(d.Lookup("attempt").AsInt64(), int64(1)) // first attempts only
		if until := d.Lookup("lockedUntil").Time(); until.After(last) {
			last = until
		}
	}
	pulsetest.Eventually(t, "all leases last longer than at the claim", func(ctx context.Context) error {
		now, err := find(ctx, deliveriesOf(db), processing)
		if err != nil || len(now) < len(held) {
			return errors.Join(err, fmt.Errorf("%d are held", len(now)))
		}
		for _, d := range now {
			if !d.Lookup("lockedUntil").Time().After(last.Add(time.Second)) {
				return errors.New("not yet")
			}
		}
		return nil
	})
	close(g.open)
	for _, d := range eventually(t, 60, deliveriesOf(db), bson.D{{Key: "status", Value: "v2-success"}}) {
		is.Equal(d.Lookup("finalAttempt").AsInt64(), int64(1))
	}
}

// What waits unstarted is handed back with its attempt not consumed, by Unsubscribe and by Close.
func TestConcurrency_4_7_BufferedClaimsAreHandedBackUnstarted(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"Unsubscribe", "Close"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			db := pulsetest.Database(t)
			c, sub, g := aheadClient(t, db, 30*time.Second)
			held := claimedAhead(t, db)
			ended := make(chan error, 1)
			go func() {
				if name == "Close" {
					ended <- c.Close(t.Context())
				} else {
					ended <- sub.Unsubscribe(t.Context())
				}
			}()
			// Only the running one is still claimed; it is waited for.
			running := eventually(t, 1, deliveriesOf(db), processing)[0]
			is.Equal(len(ended), 0)
			for _, claimed := range held {
				if claimed.Lookup("_id").Equal(running.Lookup("_id")) {
					continue
				}
				back := only(t, deliveriesOf(db), bson.D{{Key: "_id", Value: claimed.Lookup("_id")}})
				is.Equal(back.Lookup("status").StringValue(), "v2-pending")
				is.Equal(layoutOf(back), plus(plus(baseFields, activeFields...),
					`status "v2-pending"`, int32Field("attempt", 0), int32Field("executionVersion", 2), "attempts []")) // as it was born
			}
			close(g.open)
			is.NoErr(<-ended)
			is.Equal(g.begun.Len(), 21) // none of them started here

			other := startClient(t, fast(db))
			var received pulsetest.Recorder[*pulse.Event[order]]
			subscribed(t, other, func(_ context.Context, e *pulse.Event[order]) error {
				received.Add(e)
				return nil
			})
			for _, e := range received.Wait(t, 60-21) {
				is.Equal(e.Attempt, 1)
			}
			eventually(t, 60, deliveriesOf(db), bson.D{{Key: "status", Value: "v2-success"}})
			is.Equal(received.Len(), 60-21)
		})
	}
}
