package pulse_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/matryer/is"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/orionjs/orion-go/pulse"
	"github.com/orionjs/orion-go/pulse/admin"
	"github.com/orionjs/orion-go/pulse/observe"
	"github.com/orionjs/orion-go/pulse/pulsetest"
)

// What waits since an operator has paused the subscription is told as that: nobody need be woken for it.
func TestObserver_9_2_TheBacklogTellsThatItIsPaused(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	db := pulsetest.Database(t)
	w := &watcher{}
	config := fast(db)
	config.Observer = w
	c := startOver(t, pulsetest.Client(t), config)
	is.NoErr(second(pulse.NewTopic[order]("order.created").Subscribe(t.Context(), c, ignore[order], unordered()...)))
	a, err := admin.New(db, admin.Config{})
	is.NoErr(err)
	await := func(what string, paused bool) {
		t.Helper()
		pulsetest.Eventually(t, what, func(ctx context.Context) error {
			told, err := of[func(context.Context) ([]observe.Backlog, error)](w.Values())[0](ctx)
			if err == nil && (len(told) != 1 || told[0].Paused != paused) {
				err = fmt.Errorf("told: %+v", told)
			}
			return err
		})
	}
	await("the topic is told of", false)
	is.NoErr(second(a.Pause(t.Context(), "billing", "order.created", admin.By{Name: "Rosa"})))
	await("the pause is told of", true)
	is.NoErr(second(a.Resume(t.Context(), "billing", "order.created", admin.By{Name: "Rosa"})))
	await("the end of the pause is told of", false)
}

// The backlog of all topics costs all replicas together one command for ten topics that one of them leads, and none
// where nothing is led.
func TestObserver_TheBacklogCostsACommandForTenTopics(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	db := pulsetest.Database(t)
	var commands atomic.Int64
	mc := pulsetest.Client(t, func(opts *options.ClientOptions) {
		opts.SetMonitor(&event.CommandMonitor{Started: func(_ context.Context, e *event.CommandStartedEvent) {
			// A count of the backlog asks for the oldest event as well.
			if e.CommandName == "aggregate" && strings.Contains(e.Command.String(), "$eventCreatedAt") {
				commands.Add(1)
			}
		}})
	})
	const topics = 12
	var watchers []*watcher
	for range 3 {
		w := &watcher{}
		watchers = append(watchers, w)
		config := fast(db)
		config.Observer = w
		c := startOver(t, mc, config)
		for n := range topics {
			topic := pulse.NewTopic[order](fmt.Sprint("topic ", n))
			is.NoErr(second(topic.Subscribe(t.Context(), c, ignore[order], unordered()...)))
		}
	}
	pulsetest.Eventually(t, "each topic is told of by one of the replicas", func(ctx context.Context) error {
		before, want := commands.Load(), 0
		told := map[string]int{}
		for _, w := range watchers {
			all, err := of[func(context.Context) ([]observe.Backlog, error)](w.Values())[0](ctx)
			if err != nil {
				return err
			}
			want += (len(all) + 9) / 10
			for _, b := range all {
				told[b.Topic]++
			}
		}
		if len(told) != topics {
			return fmt.Errorf("%d topics are told of", len(told))
		}
		for topic, n := range told {
			if n != 1 {
				return fmt.Errorf("%s is told of by %d", topic, n)
			}
		}
		if sent := commands.Load() - before; sent != int64(want) || want == 0 {
			return fmt.Errorf("%d commands, want %d", sent, want)
		}
		return nil
	})
}
