package pulse_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"

	"github.com/orionjs/orion-go/pulse"
)

// offline is a client that nobody starts: what it says, it says without a server.
func offline(t *testing.T) *pulse.Client {
	t.Helper()
	c, err := pulse.New(t.Context(), unreachable(t), pulse.Config{ConsumerGroup: "billing", Database: "d", ManualStart: true})
	is.New(t).NoErr(err)
	return c
}

func TestSubscribe_2_3_IllegalOptions(t *testing.T) {
	t.Parallel()
	type options = []pulse.SubscribeOption
	const (
		single = 0
		year   = 365 * 24 * time.Hour
	)
	for _, test := range []struct {
		name      string
		batchSize int // single: a handler of single events
		options   options
		want      []string // none: legal
	}{
		{"defaults", single, nil, nil},
		{"ordered", single, options{pulse.Ordered(), pulse.MaxConcurrency(1)}, nil},
		{"version 1 unordered", single, options{pulse.Unordered(), pulse.ExecutionVersion(1), pulse.MaxConcurrency(9)}, nil},
		// 2.7
		{"version 2 without Unordered", single, options{pulse.ExecutionVersion(2)}, []string{"execution version 2 is unordered: add Unordered(), or remove ExecutionVersion(2)"}},
		{"version 2 ordered", single, options{pulse.ExecutionVersion(2), pulse.Ordered()}, []string{"execution version 2 is unordered: add Unordered(), or remove ExecutionVersion(2)"}},
		{"version 2 unordered", single, unordered(), nil},
		{"the last one counts", single, unordered(pulse.Ordered(), pulse.Unordered()), nil},

		{"version 0", single, options{pulse.Unordered(), pulse.ExecutionVersion(0)}, []string{"ExecutionVersion(0): must be 1 or 2"}},
		{"version 3", single, options{pulse.Unordered(), pulse.ExecutionVersion(3)}, []string{"ExecutionVersion(3): must be 1 or 2"}},
		{"offset", single, unordered(pulse.OffsetReset("newest")), []string{`OffsetReset("newest"): must be Latest or Earliest`}},
		{"delivery", single, unordered(pulse.DeliveryMode("exactly-once")), []string{`DeliveryMode("exactly-once"): must be AtLeastOnce or AtMostOnce`}},
		{"negative retries", single, unordered(pulse.MaxRetries(-1)), []string{"MaxRetries(-1): must be from 0 to 9007199254740991, the largest number that every client of the group reads exactly"}},
		{"no retries", single, unordered(pulse.MaxRetries(0)), nil},
		{"negative config version", single, unordered(pulse.ConfigVersion(-1)), []string{"ConfigVersion(-1): must be from 0 to 9007199254740991, the largest number that every client of the group reads exactly"}},
		{"no concurrency", single, unordered(pulse.MaxConcurrency(0)), []string{"MaxConcurrency(0): must be from 1 to 9007199254740991; WorkerCount bounds it as well"}},
		{"more concurrency than workers", single, unordered(pulse.MaxConcurrency(100)), nil},
		{"ordered concurrency", single, options{pulse.MaxConcurrency(2)}, []string{
			"MaxConcurrency(2): ordered delivery runs one handler at a time; add Unordered(), or remove it",
		}},
		{"config version beyond exactness", single, unordered(pulse.ConfigVersion(1 << 53)), []string{"ConfigVersion(9007199254740992): must be from 0 to 9007199254740991, the largest number that every client of the group reads exactly"}},

		// 2.4
		{"negative delay", single, unordered(pulse.RetryDelay(-time.Second)), []string{"RetryDelay(-1s): must be 0, for retries at once, or more"}},
		{"no delay", single, unordered(pulse.RetryDelay(0)), nil},
		{"multiplier 0", single, unordered(pulse.RetryBackoffMultiplier(0)), []string{"RetryBackoffMultiplier(0): must be a finite number above 0; 1 keeps the pauses equal"}},
		{"multiplier below 0", single, unordered(pulse.RetryBackoffMultiplier(-2)), []string{"RetryBackoffMultiplier(-2): must be a finite number above 0; 1 keeps the pauses equal"}},
		{"multiplier not a number", single, unordered(pulse.RetryBackoffMultiplier(math.NaN())), []string{"RetryBackoffMultiplier(NaN): must be a finite number above 0; 1 keeps the pauses equal"}},
		{"multiplier infinite", single, unordered(pulse.RetryBackoffMultiplier(math.Inf(1))), []string{"RetryBackoffMultiplier(+Inf): must be a finite number above 0; 1 keeps the pauses equal"}},
		{"shrinking pauses", single, unordered(pulse.RetryBackoffMultiplier(0.5)), nil},
		{"delay leaves the range of dates", single, unordered(pulse.MaxRetries(60)), []string{"the delay before retry 60 would be 5.76e+20 ms (1s x 2^59), beyond the last date that can be stored: use fewer retries, a smaller multiplier or a shorter delay"}},
		{"delay just within it", single, unordered(pulse.MaxRetries(42)), nil},
		{"long delay", single, unordered(pulse.RetryDelay(200*year), pulse.RetryBackoffMultiplier(1)), nil},

		// 2.5
		{"at most once", single, unordered(pulse.DeliveryMode(pulse.AtMostOnce)), nil},
		{"at most once, no retries", single, unordered(pulse.DeliveryMode(pulse.AtMostOnce), pulse.MaxRetries(0)), nil},
		{"at most once with retries", single, unordered(pulse.DeliveryMode(pulse.AtMostOnce), pulse.MaxRetries(1)), []string{"MaxRetries(1) with AtMostOnce: an event that may run once cannot be retried; remove one of the two"}},
		{"at most once, negative retries", single, unordered(pulse.MaxRetries(-1), pulse.DeliveryMode(pulse.AtMostOnce)), []string{"MaxRetries(-1): must be from 0 to 9007199254740991, the largest number that every client of the group reads exactly"}},

		// Batches
		{"batch", 100, nil, nil},
		{"batch, all said", 100, unordered(), nil},
		{"batch of one", 1, nil, nil},
		{"largest batch", 1<<53 - 1, nil, nil},
		{"batch size 0", -1, nil, []string{"batch size -1: must be from 1 to 9007199254740991; 50 to 100 is a good start"}},
		{"batch size beyond exactness", 1 << 53, nil, []string{"batch size 9007199254740992: must be from 1 to 9007199254740991; 50 to 100 is a good start"}},
		{"ordered batch", 100, options{pulse.Ordered()}, []string{"batches are unordered: remove Ordered(), or subscribe to single events"}},
		{"batch of version 1", 100, options{pulse.ExecutionVersion(1)}, []string{"batches are stored on the delivery: remove ExecutionVersion(1)"}},
		{"batch at most once", 100, options{pulse.DeliveryMode(pulse.AtMostOnce)}, nil},

		// 2.11
		{"everything", -5, options{
			pulse.Ordered(), pulse.ExecutionVersion(1), pulse.OffsetReset(""), pulse.DeliveryMode(""), pulse.MaxRetries(-3),
			pulse.ConfigVersion(-1), pulse.RetryBackoffMultiplier(0), pulse.MaxConcurrency(-1),
		}, []string{
			"batch size -5: must be from 1 to 9007199254740991; 50 to 100 is a good start",
			"batches are unordered: remove Ordered(), or subscribe to single events",
			"batches are stored on the delivery: remove ExecutionVersion(1)",
			`OffsetReset(""): must be Latest or Earliest`,
			`DeliveryMode(""): must be AtLeastOnce or AtMostOnce`,
			"MaxRetries(-3): must be from 0 to 9007199254740991, the largest number that every client of the group reads exactly",
			"ConfigVersion(-1): must be from 0 to 9007199254740991, the largest number that every client of the group reads exactly",
			"RetryBackoffMultiplier(0): must be a finite number above 0; 1 keeps the pauses equal",
			"MaxConcurrency(-1): must be from 1 to 9007199254740991; WorkerCount bounds it as well",
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			c := offline(t)
			topic := pulse.NewTopic[int]("t")
			var sub *pulse.Subscription
			var err error
			if test.batchSize == single {
				sub, err = topic.Subscribe(t.Context(), c, ignore[int], test.options...)
			} else {
				sub, err = topic.SubscribeBatch(t.Context(), c, test.batchSize, ignoreBatch[int], test.options...)
			}
			if test.want == nil {
				is.NoErr(err)
				is.Equal(len(c.Subscriptions()), 1)
				return
			}
			is.True(sub == nil)
			is.Equal(len(c.Subscriptions()), 0)
			for i := range test.want {
				test.want[i] = "topic t: " + test.want[i]
			}
			is.Equal(problemsOf(t, err), test.want)
		})
	}
}

func TestSubscribe_2_11_HandlerAndTopicAreCheckedTogether(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	_, err := pulse.NewTopic[int]("").Subscribe(t.Context(), offline(t), nil, unordered(pulse.MaxRetries(-1))...)
	is.Equal(problemsOf(t, err), []string{
		"MaxRetries(-1): must be from 0 to 9007199254740991, the largest number that every client of the group reads exactly",
		"subscribe: the topic's name is empty",
		"the handler is nil",
	})
	_, err = pulse.NewTopic[int]("\xff").SubscribeBatch(t.Context(), offline(t), 1, nil)
	is.Equal(problemsOf(t, err), []string{`subscribe: the topic's name "\xff" is not valid UTF-8`, "topic \xff: the handler is nil"})
	_, err = pulse.NewTopic[int]("t").Subscribe(t.Context(), nil, ignore[int])
	is.Equal(problemsOf(t, err), []string{"topic t: the client is nil"})
	_, err = pulse.NewTopic[int]("t").SubscribeBatch(t.Context(), nil, 1, ignoreBatch[int])
	is.Equal(problemsOf(t, err), []string{"topic t: the client is nil"})
}

func TestSubscribe_2_9_SubscriptionsAreListedWithoutIO(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	c := offline(t)
	is.Equal(c.Subscriptions(), []pulse.SubscriptionInfo{})
	is.NoErr(second(pulse.NewTopic[int]("b").SubscribeBatch(t.Context(), c, 50, ignoreBatch[int], pulse.MaxConcurrency(2))))
	is.NoErr(second(pulse.NewTopic[int]("a").Subscribe(t.Context(), c, ignore[int], unordered(pulse.DeliveryMode(pulse.AtMostOnce))...)))
	infos := c.Subscriptions()
	is.Equal(infos, []pulse.SubscriptionInfo{
		{
			Topic: "a", ConsumerGroup: "billing", BatchSize: 1, MaxConcurrency: 4, OffsetReset: pulse.Latest, DeliveryMode: pulse.AtMostOnce,
			RetryDelay: time.Second, RetryBackoffMultiplier: 2, ExecutionVersion: 2,
		},
		{
			Topic: "b", ConsumerGroup: "billing", Batch: true, BatchSize: 50, MaxConcurrency: 2, OffsetReset: pulse.Latest, DeliveryMode: pulse.AtLeastOnce,
			MaxRetries: 3, RetryDelay: time.Second, RetryBackoffMultiplier: 2, ExecutionVersion: 2,
		},
	})
}

func TestErrors_PermanentAndRetryAfterOfNilAreNil(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	is.True(pulse.Permanent(nil) == nil)
	is.True(pulse.RetryAfter(nil, time.Second) == nil)
	cause := errors.New("cause")
	for _, err := range []error{pulse.Permanent(cause), pulse.RetryAfter(cause, time.Second)} {
		is.True(errors.Is(err, cause))
		is.Equal(err.Error(), "cause")
	}
	is.True(strings.HasPrefix(pulse.ErrLockLost.Error(), "pulse: "))
	is.True(!errors.Is(pulse.ErrClosed, context.Canceled))
}
