package pulse_test

import (
	"context"
	"testing"
	"time"

	"github.com/matryer/is"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/orionjs/orion-go/pulse"
	"github.com/orionjs/orion-go/pulse/pulsetest"
)

// Where nothing may be claimed ahead an event of an order takes little more than one command: the outcome of the
// one and the claim of the next together, the rest for many at once.
func TestOrdered_4_9_CommandsOfSingleSteps(t *testing.T) {
	t.Parallel()
	for name, options := range map[string]struct {
		opts []pulse.SubscribeOption
		take time.Duration
	}{
		"no retries":    {opts: []pulse.SubscribeOption{pulse.MaxRetries(0)}},
		"at most once":  {opts: []pulse.SubscribeOption{pulse.DeliveryMode(pulse.AtMostOnce)}},
		"slow handlers": {take: 25 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			const n = 600
			db := pulsetest.Database(t)
			publishMany(t, deliverOrders, startClient(t, fast(db)), n)
			commands := pulsetest.NewCommandMonitor()
			c := startClient(t, slow(db), commands.Watch)
			commands.Reset()
			var seen pulsetest.Recorder[int]
			is.NoErr(second(deliverOrders.Subscribe(t.Context(), c, func(_ context.Context, e *pulse.Event[order]) error {
				if options.take > 0 {
					<-time.After(options.take)
				}
				seen.Add(e.Data.Number)
				return nil
			}, append(options.opts, pulse.OffsetReset(pulse.Earliest))...)))
			for i, number := range seen.Wait(t, n) {
				is.Equal(number, i)
			}
			closeClient(t, c)
			is.Equal(len(mustFind(t, deliveriesOf(db), bson.D{{Key: "status", Value: "success"}, {Key: "finalAttempt", Value: 1}})), n)
			is.Equal(len(mustFind(t, historyOf(db), bson.D{{Key: "status", Value: "success"}, {Key: "needsReconciliation", Value: nil}})), n)
			is.Equal(len(mustFind(t, deliveriesOf(db), bson.D{{Key: "needsReconciliation", Value: true}})), 0)
			t.Log(commands)
			is.True(float64(commands.Count()) <= 1.5*n) // 1.2, what a start and an end take, and what a slow server adds with time
		})
	}
}
