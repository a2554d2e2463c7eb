package echoes

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/orionjs/orion-go/pulse"
	"github.com/orionjs/orion-go/pulse/pulsetest"
)

// Options of a listener reach Pulse: all calls but the first of a limited one wait, and a slow one is told.
func TestPulse_7_8_LimitsPassThrough(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	db := pulsetest.Database(t)
	var limited pulsetest.Recorder[string]
	started(t, onPulse(db), service{
		On("limited", func(_ context.Context, n note) error {
			limited.Add(n.Text)
			return nil
		}, decodeNote, single(RateLimit(1e-6))...),
		On("slow", func(ctx context.Context, _ note) error {
			<-ctx.Done()
			return context.Cause(ctx)
		}, decodeNote, single(HandlerTimeout(10*time.Millisecond), MaxRetries(1), RetryDelay(time.Hour), MaxRetryDelay(time.Hour), RetryJitter(1))...),
	})
	a := started(t, onPulse(db))
	results, err := a.PublishMany(t.Context(), "limited", []Draft[any]{{Params: note{"1"}}, {Params: note{"2"}}, {Params: note{"3"}}})
	is.NoErr(err)
	is.Equal(len(results), 3)
	publish(t, a, "slow", note{})
	var d bson.Raw
	pulsetest.Eventually(t, "a failed attempt", func(ctx context.Context) error {
		d, err = db.Collection("orionjs.pulse.deliveries").FindOne(ctx, bson.M{"topic": "slow", "attempts.0": bson.M{"$exists": true}}).Raw()
		return err
	})
	is.Equal(d.Lookup("attempts", "0", "error", "code").StringValue(), "handler_timeout")
	is.True(d.Lookup("nextAttemptAt").Time().Before(d.Lookup("attempts", "0", "endedAt").Time().Add(time.Hour))) // by the jitter
	is.Equal(len(limited.Wait(t, 1)), 1)
}

func TestPulse_9_1_PublishLaterAndOnce(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	db := pulsetest.Database(t)
	var handled pulsetest.Recorder[string]
	a := started(t, onPulse(db), service{On("t", func(_ context.Context, n note) error {
		handled.Add(n.Text)
		return nil
	}, decodeNote, single()...)})
	later := publish(t, a, "t", note{"later"}, NotBefore(time.Now().Add(time.Hour)), UniqueKey("k"))
	again := publish(t, a, "t", note{"whatever"}, UniqueKey("k"))
	is.Equal(again.ID, later.ID)
	is.True(again.Duplicate)
	cancelled, err := a.CancelScheduled(t.Context(), later.ID)
	is.NoErr(err)
	is.True(cancelled)
	results, err := a.PublishMany(t.Context(), "t", []Draft[any]{
		{Params: note{"now"}, UniqueKey: "k"}, {Params: note{"soon"}, NotBefore: time.Now().Add(100 * time.Millisecond)}, {Params: note{"again"}, UniqueKey: "k"},
	})
	is.NoErr(err)
	is.Equal(results[0].ID, later.ID)
	is.True(!results[0].Duplicate && results[2].Duplicate)
	got := handled.Wait(t, 2)
	is.True(got[0] != "later" && got[1] != "later" && got[0] != got[1])
}

// What Kafka has not is refused before anything is stored anywhere.
func TestPublish_7_5_OnlyPulsePublishesLaterAndOnce(t *testing.T) {
	t.Parallel()
	for _, to := range []Target{ToKafka, ToBoth} {
		t.Run(string(to), func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			a, first, second := publishing(t, to)
			for want, opt := range map[string]PublishOption{
				"UniqueKey needs Pulse, and Config.PublishTo selects Kafka: ": UniqueKey("k"),
				"NotBefore needs Pulse, and Config.PublishTo selects Kafka, ": NotBefore(time.Now()),
				"the key given by UniqueKey is empty":                         UniqueKey(""),
				"NotBefore has the zero time":                                 NotBefore(time.Time{}),
			} {
				_, err := a.Publish(t.Context(), "a", 1, opt)
				var bad *InvalidEventError
				is.True(errors.As(err, &bad))
				is.True(strings.Contains(err.Error(), want))
			}
			_, err := a.PublishMany(t.Context(), "a", []Draft[any]{{Params: 1}, {Params: 2, UniqueKey: "k"}})
			var bad *InvalidEventError
			is.True(errors.As(err, &bad))
			is.Equal(bad.Index, 1)
			is.Equal(len(first.published)+len(second.published), 0)
			_, err = a.CancelScheduled(t.Context(), "x")
			is.True(err != nil)
		})
	}
	is := is.New(t)
	a, first, _ := publishing(t, ToPulse)
	at := time.Now().Add(time.Hour)
	is.NoErr(func() error { _, err := a.Publish(t.Context(), "a", 1, UniqueKey("k"), NotBefore(at)); return err }())
	is.Equal(first.published[0].UniqueKey, "k")
	is.Equal(first.published[0].NotBefore, at)
	_, err := newApp(t, Config{Pulse: &Pulse{Config: pulse.Config{ConsumerGroup: "g"}}}).CancelScheduled(t.Context(), "x")
	is.True(errors.Is(err, ErrNotStarted))
}
