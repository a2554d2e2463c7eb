package pulse

import (
	"fmt"
	"math"
	"time"

	"github.com/orionjs/orion-go/pulse/internal/receiver"
	"github.com/orionjs/orion-go/pulse/internal/store"
)

// SubscribeOption changes one setting of a subscription from its default (spec 2.3).
//
// Most are durable: they are stored with the first subscription of the group to the topic, and every replica must
// give the same ones. To change them, raise ConfigVersion. MaxConcurrency, MaxRetryDelay, RetryJitter,
// HandlerTimeout and RateLimit are not stored, and may be changed at any time.
type SubscribeOption func(*subscribeOptions)

type subscribeOptions struct {
	settings     store.Settings
	versionAsked bool
	retriesAsked bool
	local        localOptions
}

// Offset is where a new subscription begins.
type Offset string

const (
	// Latest begins behind the newest event stored when the subscription is created. The default.
	Latest Offset = store.OffsetLatest
	// Earliest begins at the oldest event that is still retained.
	Earliest Offset = store.OffsetEarliest
)

// Delivery is how often a handler may run for one event.
type Delivery string

const (
	// AtLeastOnce retries failed and lost attempts: a handler may run again for an event that it has
	// handled. The default.
	AtLeastOnce Delivery = store.AtLeastOnce
	// AtMostOnce never runs a handler twice; a lost attempt ends the delivery with an error (spec 2.5).
	AtMostOnce Delivery = store.AtMostOnce
)

// Ordered runs one handler at a time over all replicas, in the order of publication. It is the default
// of Subscribe, and an error for SubscribeBatch.
func Ordered() SubscribeOption {
	return func(o *subscribeOptions) { o.settings.Ordered = true }
}

// Unordered runs handlers side by side, in any order. It is the default of SubscribeBatch.
func Unordered() SubscribeOption {
	return func(o *subscribeOptions) { o.settings.Ordered = false }
}

// OffsetReset sets where the subscription begins when it is created; later it changes nothing: a restart
// goes on where the group was. For an independent pass over retained events use a new group with
// Earliest (spec 2.8). Default Latest.
func OffsetReset(offset Offset) SubscribeOption {
	return func(o *subscribeOptions) { o.settings.OffsetReset = string(offset) }
}

// DeliveryMode sets how often a handler may run for one event. Default AtLeastOnce.
func DeliveryMode(mode Delivery) SubscribeOption {
	return func(o *subscribeOptions) { o.settings.Delivery = string(mode) }
}

// MaxRetries sets how many attempts may follow a failed first one. Default 3; with AtMostOnce it is 0,
// and anything else an error.
func MaxRetries(n int) SubscribeOption {
	return func(o *subscribeOptions) { o.settings.MaxRetries, o.retriesAsked = n, true }
}

// RetryDelay sets the pause after the first failed attempt. Default 1 s.
func RetryDelay(d time.Duration) SubscribeOption {
	return func(o *subscribeOptions) { o.settings.RetryDelay = d }
}

// RetryBackoffMultiplier sets the factor between one pause and the next: the pause after failed attempt n
// is RetryDelay x multiplier^(n-1) (spec 2.4). Default 2.
func RetryBackoffMultiplier(factor float64) SubscribeOption {
	return func(o *subscribeOptions) { o.settings.Multiplier = factor }
}

// ConfigVersion numbers the settings. A higher version than the stored one replaces all stored settings,
// a lower one adopts them, the same one must have equal settings (spec 2.6). Raise it with each change.
// Default 0.
func ConfigVersion(n int) SubscribeOption {
	return func(o *subscribeOptions) { o.settings.ConfigVersion = n }
}

// ExecutionVersion chooses where attempts are stored: 1 in the history collection, 2 on the delivery
// itself, which costs a fraction of the commands and needs Unordered. Default 1; batches always use
// 2's storage, and asking for 1 is an error.
func ExecutionVersion(version int) SubscribeOption {
	return func(o *subscribeOptions) { o.settings.ExecutionVersion, o.versionAsked = version, true }
}

// resolve fills in the defaults of a single (batchSize 0) or batch subscription, gives the receiver what is not
// stored, and says what is wrong.
func resolve(r *receiver.Receiver, batchSize int, opts []SubscribeOption) (store.Settings, []ConfigurationProblem) {
	topic, batch := r.Topic, r.Batch
	o := subscribeOptions{settings: store.Settings{
		ExecutionVersion: 1, Ordered: !batch, OffsetReset: store.OffsetLatest, Delivery: store.AtLeastOnce,
		MaxRetries: 3, RetryDelay: time.Second, Multiplier: 2, ReceiverMode: store.ModeSingle, BatchSize: 1,
	}}
	for _, opt := range opts {
		if opt != nil {
			opt(&o)
		}
	}
	s := &o.settings
	var problems []ConfigurationProblem
	wrong := func(format string, args ...any) {
		problems = append(problems, ConfigurationProblem{Topic: topic, Text: fmt.Sprintf(format, args...)})
	}
	if batch {
		s.ReceiverMode, s.BatchSize = store.ModeBatch, batchSize
		if batchSize < 1 || int64(batchSize) > store.MaxNumber {
			wrong("batch size %d: must be from 1 to %d; 50 to 100 is a good start", batchSize, int64(store.MaxNumber))
		}
		if s.Ordered {
			wrong("batches are unordered: remove Ordered(), or subscribe to single events")
		}
		if o.versionAsked && s.ExecutionVersion == 1 {
			wrong("batches are stored on the delivery: remove ExecutionVersion(1)")
		}
		if !o.versionAsked {
			s.ExecutionVersion = 2
		}
	}
	if s.ExecutionVersion != 1 && s.ExecutionVersion != 2 {
		wrong("ExecutionVersion(%d): must be 1 or 2", s.ExecutionVersion)
	}
	if !batch && s.Ordered && s.ExecutionVersion == 2 {
		wrong("execution version 2 is unordered: add Unordered(), or remove ExecutionVersion(2)")
	}
	if s.OffsetReset != store.OffsetLatest && s.OffsetReset != store.OffsetEarliest {
		wrong("OffsetReset(%q): must be Latest or Earliest", s.OffsetReset)
	}
	switch s.Delivery {
	case store.AtLeastOnce:
	case store.AtMostOnce:
		if o.retriesAsked && s.MaxRetries > 0 {
			wrong("MaxRetries(%d) with AtMostOnce: an event that may run once cannot be retried; remove one of the two", s.MaxRetries)
		}
		s.MaxRetries = min(s.MaxRetries, 0)
	default:
		wrong("DeliveryMode(%q): must be AtLeastOnce or AtMostOnce", s.Delivery)
	}
	for _, n := range []struct {
		name  string
		value int
	}{{"MaxRetries", s.MaxRetries}, {"ConfigVersion", s.ConfigVersion}} {
		if n.value < 0 || int64(n.value) > store.MaxNumber {
			wrong("%s(%d): must be from 0 to %d, the largest number that every client of the group reads exactly", n.name, n.value, int64(store.MaxNumber))
		}
	}
	switch err := o.retryRange(); {
	case s.RetryDelay < 0:
		wrong("RetryDelay(%v): must be 0, for retries at once, or more", s.RetryDelay)
	case !(s.Multiplier > 0) || math.IsInf(s.Multiplier, 1):
		wrong("RetryBackoffMultiplier(%v): must be a finite number above 0; 1 keeps the pauses equal", s.Multiplier)
	case err != nil:
		wrong("%v", err)
	}
	for _, text := range o.apply(r) {
		wrong("%s", text)
	}
	if r.Timeout > 0 && r.Handle != nil {
		r.Handle = timed(r.Handle, r.Timeout)
	}
	return *s, problems
}
