package pulse_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/orionjs/orion-go/pulse"
	"github.com/orionjs/orion-go/pulse/pulsetest"
)

// Documents that no client writes, at the head of an order: they end as errors, are told of once, and the order
// goes on.
func TestHostile_6_3_AtTheHeadOfAnOrder(t *testing.T) {
	t.Parallel()
	replace := func(ctx context.Context, coll *mongo.Collection, filter bson.D, field string, value any) error {
		var doc bson.D
		if err := coll.FindOneAndDelete(ctx, filter).Decode(&doc); err != nil {
			return err
		}
		for i := range doc {
			if doc[i].Key == field {
				doc[i].Value = value
			}
		}
		_, err := coll.InsertOne(ctx, doc)
		return err
	}
	for _, c := range []struct {
		field   string
		value   any
		history bool
	}{
		{"attempt", "text", true},
		{"attempt", nil, true},
		{"status", "paused", true},
		{"_id", bson.NewObjectID(), true},
		{"_id", bson.NewObjectID(), false},
	} {
		t.Run(fmt.Sprintf("%s %v of the attempt=%v", c.field, c.value, c.history), func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			db := pulsetest.Database(t)
			var reported pulsetest.Recorder[error]
			config := fast(db)
			config.OnError = func(err error) { reported.Add(err) }
			// Deliveries without a handler's run: the first of them is made unusable then.
			leader := startClient(t, fast(db))
			opened := make(chan struct{})
			sub, err := orderedTopic.Subscribe(t.Context(), leader, func(ctx context.Context, _ *pulse.Event[order]) error {
				select {
				case <-opened:
				case <-ctx.Done():
				}
				return ctx.Err()
			}, orderedBy()...)
			is.NoErr(err)
			const n = 6
			publishMany(t, orderedTopic, leader, n)
			eventually(t, n, deliveriesOf(db), bson.D{})
			ended, cancel := context.WithCancel(t.Context())
			cancel()
			_ = sub.Unsubscribe(ended)
			closing, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
			defer cancel()
			_ = leader.Close(closing)
			close(opened)
			eventually(t, 0, historyOf(db), locked)
			first := eventually(t, n, deliveriesOf(db), bson.D{})[0]
			if c.history {
				is.NoErr(replace(t.Context(), historyOf(db), bson.D{{Key: "deliveryId", Value: first.Lookup("_id").StringValue()}}, c.field, c.value))
			} else {
				is.NoErr(replace(t.Context(), deliveriesOf(db), bson.D{{Key: "_id", Value: first.Lookup("_id").StringValue()}}, c.field, c.value))
			}

			var seen pulsetest.Recorder[int]
			is.NoErr(second(orderedTopic.Subscribe(t.Context(), startClient(t, config), func(_ context.Context, e *pulse.Event[order]) error {
				seen.Add(e.Data.Number)
				return nil
			}, orderedBy()...)))
			is.Equal(seen.Wait(t, n-1)[:n-1], []int{1, 2, 3, 4, 5})
			eventually(t, 1, deliveriesOf(db), bson.D{{Key: "status", Value: "error"}, {Key: "error.code", Value: "decode_error"}})
			told := 0
			for _, err := range reported.Values() {
				if strings.Contains(err.Error(), "cannot be run") {
					told++
				}
			}
			is.Equal(told, 1)
		})
	}
}

// A replica that was started with the default, ordered, and adopts another order, runs as many handlers as the
// settings in force allow.
func TestSettings_2_6_AdoptedOrderChangesTheConcurrency(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	db := pulsetest.Database(t)
	old := startClient(t, fast(db))
	running := newBarrier()
	topic := pulse.NewTopic[int]("t")
	sub, err := topic.Subscribe(t.Context(), old, running.handle)
	is.NoErr(err)
	is.Equal(sub.Info().MaxConcurrency, 1)
	newer := startClient(t, fast(db))
	raised, err := topic.Subscribe(t.Context(), newer, ignore[int], pulse.Unordered(), pulse.ExecutionVersion(2), pulse.ConfigVersion(1))
	is.NoErr(err)
	pulsetest.Eventually(t, "the settings are adopted", func(context.Context) error {
		if sub.Info().Ordered {
			return fmt.Errorf("not yet")
		}
		return nil
	})
	is.Equal(sub.Info().MaxConcurrency, 4)
	is.NoErr(raised.Unsubscribe(t.Context()))
	for i := range 4 {
		is.NoErr(second(topic.Publish(t.Context(), newer, i)))
	}
	running.entered.Wait(t, 4) // all at once: none has been let go
	close(running.open)
}
