package pulse_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/matryer/is"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/orionjs/orion-go/pulse"
	"github.com/orionjs/orion-go/pulse/pulsetest"
)

// Settings that are not stored are refused by name, value and remedy, too.
func TestSubscribe_2_3_IllegalLocalOptions(t *testing.T) {
	t.Parallel()
	type options = []pulse.SubscribeOption
	for name, test := range map[string]struct {
		options options
		want    string // empty: legal
	}{
		"all":                          {options{pulse.MaxRetryDelay(time.Minute), pulse.RetryJitter(1), pulse.HandlerTimeout(time.Minute), pulse.RateLimit(0.5, 1)}, ""},
		"no jitter":                    {options{pulse.RetryJitter(0)}, ""},
		"pauses beyond dates, bounded": {options{pulse.MaxRetries(1000), pulse.MaxRetryDelay(time.Hour)}, ""},
		"no longest pause":             {options{pulse.MaxRetryDelay(0)}, "MaxRetryDelay(0s): must be from 1ms to 876600h0m0s, or left out for no bound; for retries at once use RetryDelay(0)"},
		"endless pause":                {options{pulse.MaxRetryDelay(math.MaxInt64)}, "MaxRetryDelay(2562047h47m16.854775807s): must be from 1ms to 876600h0m0s, or left out for no bound; for retries at once use RetryDelay(0)"},
		"bound below the first":        {options{pulse.RetryDelay(time.Minute), pulse.MaxRetryDelay(time.Second)}, "MaxRetryDelay(1s): is less than the first pause, RetryDelay(1m0s); lower that, or raise the bound"},
		"negative jitter":              {options{pulse.RetryJitter(-0.1)}, "RetryJitter(-0.1): must be from 0, no jitter, to 1, any pause up to the full one"},
		"percent":                      {options{pulse.RetryJitter(20)}, "RetryJitter(20): must be from 0, no jitter, to 1, any pause up to the full one"},
		"jitter no number":             {options{pulse.RetryJitter(math.NaN())}, "RetryJitter(NaN): must be from 0, no jitter, to 1, any pause up to the full one"},
		"no time":                      {options{pulse.HandlerTimeout(0)}, "HandlerTimeout(0s): must be from 1ms to 876600h0m0s, or left out for no limit"},
		"negative time":                {options{pulse.HandlerTimeout(-time.Second)}, "HandlerTimeout(-1s): must be from 1ms to 876600h0m0s, or left out for no limit"},
		"endless time":                 {options{pulse.HandlerTimeout(math.MaxInt64)}, "HandlerTimeout(2562047h47m16.854775807s): must be from 1ms to 876600h0m0s, or left out for no limit"},
		"endless burst":                {options{pulse.RateLimit(5, math.MaxInt)}, "RateLimit(5, 9223372036854775807): the burst, the calls that may begin at once, must be from 1 to 2147483647"},
		"negative burst":               {options{pulse.RateLimit(5, math.MinInt)}, "RateLimit(5, -9223372036854775808): the burst, the calls that may begin at once, must be from 1 to 2147483647"},
		"endless concurrency":          {options{pulse.Unordered(), pulse.MaxConcurrency(math.MaxInt)}, "MaxConcurrency(9223372036854775807): must be from 1 to 9007199254740991; WorkerCount bounds it as well"},
		"negative first pause":         {options{pulse.RetryDelay(math.MinInt64)}, "RetryDelay(-2562047h47m16.854775808s): must be 0, for retries at once, or more"},
		"retries beyond exactness":     {options{pulse.MaxRetries(math.MaxInt), pulse.MaxRetryDelay(time.Hour)}, "MaxRetries(9223372036854775807): must be from 0 to 9007199254740991, the largest number that every client of the group reads exactly"},
		"no calls":                     {options{pulse.RateLimit(0, 1)}, "RateLimit(0, 1): the calls per second must be a finite number above 0, or the option left out for no limit; Unsubscribe stops a topic"},
		"endless calls":                {options{pulse.RateLimit(math.Inf(1), 1)}, "RateLimit(+Inf, 1): the calls per second must be a finite number above 0, or the option left out for no limit; Unsubscribe stops a topic"},
		"no burst":                     {options{pulse.RateLimit(5, 0)}, "RateLimit(5, 0): the burst, the calls that may begin at once, must be from 1 to 2147483647"},
		"rate is no number":            {options{pulse.RateLimit(math.NaN(), 1)}, "RateLimit(NaN, 1): the calls per second must be a finite number above 0, or the option left out for no limit; Unsubscribe stops a topic"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			sub, err := deliverOrders.Subscribe(t.Context(), offline(t), ignore[order], test.options...)
			if test.want == "" {
				is.NoErr(err)
				if name == "all" {
					info := sub.Info()
					is.Equal(info.MaxRetryDelay, time.Minute)
					is.Equal(info.HandlerTimeout, time.Minute)
					is.Equal([]float64{info.RetryJitter, info.RatePerSecond, float64(info.RateBurst)}, []float64{1, 0.5, 1})
				}
				return
			}
			is.Equal(problemsOf(t, err), []string{"topic order.created: " + test.want})
		})
	}
}

// No pause is longer than the bound, and what is left to chance makes it shorter only. Replicas may differ in what
// is not stored.
func TestRetry_2_4_BoundAndJitter(t *testing.T) {
	everyCell(t, func(t *testing.T, is *is.I, s *suite) {
		const first, most, jitter = 40 * time.Millisecond, 100 * time.Millisecond, 0.5
		var runs pulsetest.Recorder[int]
		for i, c := range s.clients {
			s.attach(t, orderedTopic, c, failing(&runs, func(int) error { return errPlanned }),
				pulse.MaxRetries(5), pulse.RetryDelay(first), pulse.RetryBackoffMultiplier(10),
				pulse.MaxRetryDelay(most), pulse.RetryJitter(jitter), pulse.HandlerTimeout(time.Minute+time.Duration(i)))
		}
		published(t, orderedTopic, s.clients[0], 1)
		d := s.ended(t, "error", 1)[0]
		got := d.delays()
		is.Equal(len(got), 5)
		for i, pause := range got {
			full := min(first*time.Duration(math.Pow10(i)), most)
			is.True(pause <= full)                                                     // never longer
			is.True(pause >= time.Duration(float64(full)*(1-jitter))-time.Millisecond) // stored in milliseconds
		}
		is.Equal(runs.Values(), []int{1, 2, 3, 4, 5, 6})
	})
}

// The handler's context ends with a cause that names the option; its error is a failure like others, with a code.
func TestExecute_4_2_HandlerTimeout(t *testing.T) {
	everyCell(t, func(t *testing.T, is *is.I, s *suite) {
		const limit = 50 * time.Millisecond
		causes := make(chan error, 10)
		s.attachAll(t, func(ctx context.Context, es []*pulse.Event[order]) error {
			if es[0].Attempt == 3 {
				return nil
			}
			<-ctx.Done()
			causes <- context.Cause(ctx)
			if es[0].Attempt == 2 {
				return errors.New("gave up")
			}
			return fmt.Errorf("bill: %w", ctx.Err())
		}, pulse.HandlerTimeout(limit), pulse.MaxRetries(2), pulse.RetryDelay(time.Millisecond))
		published(t, orderedTopic, s.clients[0], 1)
		d := s.ended(t, "success", 1)[0]
		for range 2 {
			cause := await(t, "a cause", causes)
			is.True(errors.Is(cause, pulse.ErrHandlerTimeout))
			is.Equal(cause.Error(), "pulse: the handler ran longer than its HandlerTimeout(50ms): let it end with its context, or raise the limit")
		}
		for i, reason := range []string{"bill: context deadline exceeded", "gave up"} {
			failure := d.attempts[i].Lookup("error").Document()
			is.Equal(failure.Lookup("code").StringValue(), "handler_timeout")
			is.Equal(failure.Lookup("message").StringValue(), "pulse: the handler ran longer than its HandlerTimeout(50ms): let it end with its context, or raise the limit: "+reason)
		}
	})
}

// Of a limited topic as many handlers begin as its burst allows. The rest is claimed by nobody, other topics have all
// workers, and a replica without the limit takes what is left.
func TestRateLimit_HoldsNoSlotsAndNoClaims(t *testing.T) {
	t.Parallel()
	for _, k := range []kind{v2Kind, v1Kind, orderedKind} {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			db := pulsetest.Database(t)
			config := fast(db)
			config.WorkerCount = 2
			c := startClient(t, config)
			var slow, quick pulsetest.Recorder[int]
			k.subscribeTo(t, deliverOrders, c, &slow, pulse.RateLimit(1e-6, 3))
			other := pulse.NewTopic[order]("order.shipped")
			k.subscribeTo(t, other, c, &quick, pulse.RateLimit(1e6, 5))
			publishMany(t, deliverOrders, c, 40)
			publishMany(t, other, c, 40)
			quick.Wait(t, 40)
			slow.Wait(t, 3)
			// Everything of the limited topic that has no outcome is free for others.
			eventually(t, 3, deliveriesOf(db), bson.D{{Key: "topic", Value: "order.created"}, {Key: "status", Value: bson.D{{Key: "$in", Value: []string{"success", "v2-success"}}}}})
			for _, coll := range []string{"deliveries", "history"} {
				eventually(t, 0, db.Collection("orionjs.pulse."+coll), bson.D{
					{Key: "topic", Value: "order.created"}, {Key: "endedAt", Value: nil}, {Key: "lockToken", Value: bson.D{{Key: "$type", Value: "string"}}},
				})
			}
			is.Equal(slow.Len(), 3)
			var rest pulsetest.Recorder[int]
			if k.name == orderedKind.name {
				closeClient(t, c) // which had the order
			}
			k.subscribeTo(t, deliverOrders, startClient(t, fast(db)), &rest)
			rest.Wait(t, 37)
		})
	}
}

// A limited topic goes on as its tokens come.
func TestRateLimit_GoesOn(t *testing.T) {
	everySetup(t, func(t *testing.T, g *group) {
		is := is.New(t)
		var seen pulsetest.Recorder[time.Time]
		for _, c := range g.clients {
			_, err := deliverOrders.Subscribe(t.Context(), c, func(context.Context, *pulse.Event[order]) error {
				seen.Add(time.Now())
				return nil
			}, unordered(pulse.RateLimit(20, 1))...)
			is.NoErr(err)
		}
		publishMany(t, deliverOrders, g.clients[0], 15)
		times := seen.Wait(t, 15)
		if len(g.clients) == 1 {
			is.True(times[14].Sub(times[0]) >= 14*50*time.Millisecond-20*time.Millisecond) // never faster
		}
	})
}
