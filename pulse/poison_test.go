package pulse_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/matryer/is"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/orionjs/orion-go/pulse"
	"github.com/orionjs/orion-go/pulse/pulsetest"
)

// An event that always fails delays nobody in an unordered topic, not even with one worker.
func TestPoison_4_7_DelaysNobodyInAnUnorderedTopic(t *testing.T) {
	everySetup(t, func(t *testing.T, g *group) {
		is := is.New(t)
		var good pulsetest.Recorder[int]
		var tries atomic.Int64
		for _, c := range g.clients {
			is.NoErr(second(deliverOrders.Subscribe(t.Context(), c, func(_ context.Context, e *pulse.Event[order]) error {
				if e.Data.Number == 0 {
					tries.Add(1)
					return errors.New("poison")
				}
				good.Add(e.Data.Number)
				return nil
			}, unordered(pulse.MaxRetries(1000), pulse.RetryDelay(time.Millisecond), pulse.RetryBackoffMultiplier(1), pulse.MaxConcurrency(1))...)))
		}
		for i := range 30 {
			published(t, deliverOrders, g.clients[0], i)
		}
		good.Wait(t, 29)
		is.True(tries.Load() < 1001)
		active, err := find(t.Context(), deliveriesOf(g.db), bson.D{{Key: "status", Value: bson.D{{Key: "$in", Value: bson.A{"v2-pending", "v2-processing"}}}}})
		is.NoErr(err)
		is.True(len(active) >= 1) // it has tries left, and they did not wait for it
	})
}

// However often it fails and however much it says about it, the document stays small.
func TestPoison_4_10_TenThousandAttemptsWithMegabytesOfErrors(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	g := newGroup(t, setup{streams: true, clients: 1})
	text := strings.Repeat("\u20ac", 1<<20/3)
	var last atomic.Int64
	is.NoErr(second(deliverOrders.Subscribe(t.Context(), g.clients[0], func(_ context.Context, e *pulse.Event[order]) error {
		last.Store(int64(e.Attempt))
		if e.Attempt == 1 {
			// As if the 9,985 that follow had been: nobody waits for them here.
			_, err := deliveriesOf(g.db).UpdateMany(context.Background(), bson.D{}, bson.D{{Key: "$set", Value: bson.D{{Key: "attempt", Value: 9985}}}})
			is.NoErr(err)
		}
		return errors.New(text)
	}, unordered(pulse.MaxRetries(9999), pulse.RetryDelay(0), pulse.RetryBackoffMultiplier(1))...)))
	published(t, deliverOrders, g.clients[0], 1)
	d := eventually(t, 1, deliveriesOf(g.db), bson.D{{Key: "status", Value: "v2-error"}})[0]
	is.Equal(last.Load(), int64(10_000))
	is.Equal(d.Lookup("finalAttempt").AsInt64(), int64(10_000))
	is.Equal(len(attemptsIn(d)), 10)
	is.True(len(d) < 100_000) // 11 times 2,048 characters of three bytes each, and some
}
