package pulse

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/orionjs/orion-go/pulse/internal/receiver"
	"github.com/orionjs/orion-go/pulse/internal/store"
	"github.com/orionjs/orion-go/pulse/internal/worker"
)

// Subscription is a local handler of a durable subscription.
type Subscription struct {
	client   *Client
	receiver *receiver.Receiver
	wanted   store.Settings
	// wait waits for the handlers of a subscription that was removed. Whoever has the client's turn may
	// touch it.
	wait func(context.Context) error
}

// SubscriptionInfo describes a local subscription with the settings in force, which are the stored ones
// when those have a higher ConfigVersion.
type SubscriptionInfo struct {
	// Topic and ConsumerGroup identify the durable subscription.
	Topic, ConsumerGroup string
	// Batch tells whether the local handler takes batches.
	Batch bool
	// BatchSize is the size of new batches; 1 while events are delivered one by one.
	BatchSize int
	// MaxConcurrency is the local limit.
	MaxConcurrency int
	// MaxRetryDelay, HandlerTimeout and RatePerSecond are the local limits of the options MaxRetryDelay,
	// HandlerTimeout and RateLimit, 0 where there is none; RetryJitter is that of its option, and RateBurst belongs
	// to RatePerSecond.
	MaxRetryDelay, HandlerTimeout time.Duration
	RetryJitter, RatePerSecond    float64
	RateBurst                     int
	// The rest are the durable settings, as the options of the same names describe them.
	Ordered                bool
	OffsetReset            Offset
	DeliveryMode           Delivery
	MaxRetries             int
	RetryDelay             time.Duration
	RetryBackoffMultiplier float64
	ConfigVersion          int
	ExecutionVersion       int
}

// Subscribe registers the handler of the topic's events and, once the client has started, begins to serve
// them. It stores the durable subscription if the group has none for the topic, and checks the settings
// against a stored one (spec 2.6).
//
// The handler's error (or panic) fails the attempt; the retry settings decide what follows, see Permanent
// and RetryAfter. Its context ends when the delivery's lease is lost (cause ErrLockLost) and when Close
// has run out of patience. At-least-once handlers must be idempotent by the event's ID.
//
// Errors: *ConfigurationError for options that cannot work, a second handler of the topic in this client,
// or settings other than the stored ones of the same ConfigVersion; ErrClosed; MongoDB's.
func (t Topic[T]) Subscribe(ctx context.Context, c *Client, handler func(ctx context.Context, event *Event[T]) error, opts ...SubscribeOption) (*Subscription, error) {
	r := &receiver.Receiver{Topic: t.name}
	if handler != nil {
		r.Handle = func(ctx context.Context, call receiver.Call) error {
			event, err := received[T](c, call, 0)
			if err != nil {
				return err
			}
			return handler(ctx, event)
		}
	}
	return c.subscribe(ctx, r, 0, opts)
}

// SubscribeBatch is Subscribe for a handler of up to batchSize events a call. A batch is one unit: one
// claim, lease, outcome and retry; when the handler fails, all of it is retried. Its events are in the
// order of publication; batches of a topic may run side by side and finish in any order. It never waits
// for a batch to fill: what is there is delivered. It needs a server with transactions, a replica set or
// a sharded cluster; on a standalone server it is a *ConfigurationError (spec 3.3).
func (t Topic[T]) SubscribeBatch(ctx context.Context, c *Client, batchSize int, handler func(ctx context.Context, events []*Event[T]) error, opts ...SubscribeOption) (*Subscription, error) {
	r := &receiver.Receiver{Topic: t.name, Batch: true}
	if handler != nil {
		r.Handle = func(ctx context.Context, call receiver.Call) error {
			events := make([]*Event[T], len(call.Events))
			for i := range call.Events {
				event, err := received[T](c, call, i)
				if err != nil {
					return err
				}
				events[i] = event
			}
			return handler(ctx, events)
		}
	}
	return c.subscribe(ctx, r, batchSize, opts)
}

func received[T any](c *Client, call receiver.Call, i int) (*Event[T], error) {
	event, err := newEvent[T](call.Events[i])
	if err != nil {
		return nil, err
	}
	event.ConsumerGroup, event.Attempt = c.config.ConsumerGroup, call.Attempt
	return event, nil
}

func (c *Client) subscribe(ctx context.Context, r *receiver.Receiver, batchSize int, opts []SubscribeOption) (*Subscription, error) {
	if c == nil {
		return nil, configurationError([]ConfigurationProblem{{Topic: r.Topic, Text: "the client is nil"}})
	}
	ctx, done, err := c.exclusive(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	settings, problems := resolve(r, batchSize, opts)
	if problem := nameProblem("the topic's name", r.Topic); problem != "" {
		problems = append(problems, ConfigurationProblem{Text: "subscribe: " + problem})
	}
	if r.Handle == nil {
		problems = append(problems, ConfigurationProblem{Topic: r.Topic, Text: "the handler is nil"})
	}
	if c.subscription(r.Topic) != nil {
		problems = append(problems, ConfigurationProblem{Topic: r.Topic, Text: "this client has a handler already: one topic has one handler in a client; use a client of another group for an independent one"})
	}
	if err := configurationError(problems); err != nil {
		return nil, err
	}
	r.Adopt(settings)
	sub := &Subscription{client: c, receiver: r, wanted: settings}
	if e := c.running(); e != nil {
		stored, err := sub.ensure(ctx)
		if err != nil {
			return nil, c.orClosed(withAdvice(err))
		}
		e.Add(r, stored)
	}
	c.mu.Lock()
	c.subscriptions[r.Topic] = sub
	c.mu.Unlock()
	return sub, nil
}

// problems says why the subscription cannot work, given the stored one, nil if there is none.
func (s *Subscription) problems(stored *store.Subscription) []ConfigurationProblem {
	c, r := s.client, s.receiver
	if r.Batch && !c.store.Transactions() {
		return []ConfigurationProblem{{
			Topic: r.Topic,
			Text:  "batches need transactions, and this server is a standalone one: run MongoDB as a replica set (one member is enough), or subscribe to single events",
		}}
	}
	if stored == nil {
		return nil
	}
	var problems []ConfigurationProblem
	if version := stored.Settings.ConfigVersion(); version == s.wanted.ConfigVersion {
		for _, difference := range stored.Settings.Differences(s.wanted) {
			remedy := "use the stored value, or raise ConfigVersion to change it for all replicas"
			if strings.HasPrefix(difference, "offsetReset:") {
				remedy = "it counted when the subscription was created, and never again: use the stored value, or raise ConfigVersion to have this one stored; a group that is to begin elsewhere needs another name"
			}
			problems = append(problems, ConfigurationProblem{
				Topic: r.Topic, Group: c.config.ConsumerGroup,
				Text: fmt.Sprintf("%s, both with configVersion %d: %s", difference, version, remedy),
			})
		}
	}
	return problems
}

// ensure stores the durable subscription, or checks it against the stored one, and takes over its ID and
// the settings in force.
func (s *Subscription) ensure(ctx context.Context) (store.Subscription, error) {
	c, r := s.client, s.receiver
	if err := configurationError(s.problems(nil)); err != nil {
		return store.Subscription{}, err
	}
	stored, err := c.store.EnsureSubscription(ctx, c.config.ConsumerGroup, r.Topic, s.wanted)
	if err != nil {
		return stored, err
	}
	if err := configurationError(s.problems(&stored)); err != nil {
		return stored, err
	}
	if stored.Created {
		starts := "behind the newest event: those published before are not delivered to this group, now or later (offsetReset earliest would have included them)"
		if s.wanted.OffsetReset == store.OffsetEarliest {
			starts = "at the oldest retained event"
		}
		c.config.Logger.Info("pulse: created the durable subscription", "group", c.config.ConsumerGroup, "topic", r.Topic, "starts", starts)
	}
	r.SubscriptionID = stored.ID
	inForce := stored.Settings.Over(s.wanted)
	if inForce.ConfigVersion > s.wanted.ConfigVersion {
		c.config.Logger.Info("pulse: adopted the stored settings of a higher configVersion", "group", c.config.ConsumerGroup, "topic", r.Topic,
			"from", s.wanted.ConfigVersion, "to", inForce.ConfigVersion, "changed", stored.Settings.Differences(s.wanted))
	}
	r.Adopt(inForce)
	return stored, nil
}

// Topic returns the topic's name.
func (s *Subscription) Topic() string { return s.receiver.Topic }

// Info describes the subscription, without I/O.
func (s *Subscription) Info() SubscriptionInfo {
	r, settings := s.receiver, s.receiver.Settings()
	info := SubscriptionInfo{
		Topic: r.Topic, ConsumerGroup: s.client.config.ConsumerGroup,
		Batch: r.Batch, BatchSize: settings.BatchSize, MaxConcurrency: r.Most(s.client.config.WorkerCount),
		Ordered: settings.Ordered, OffsetReset: Offset(settings.OffsetReset), DeliveryMode: Delivery(settings.Delivery),
		MaxRetries: settings.MaxRetries, RetryDelay: settings.RetryDelay, RetryBackoffMultiplier: settings.Multiplier,
		ConfigVersion: settings.ConfigVersion, ExecutionVersion: settings.ExecutionVersion,
		MaxRetryDelay: r.MaxDelay, RetryJitter: r.Jitter, HandlerTimeout: r.Timeout,
	}
	if r.Rate != nil {
		info.RatePerSecond, info.RateBurst = float64(r.Rate.Limit()), r.Rate.Burst()
	}
	return info
}

// Unsubscribe removes the local handler: nothing of it starts any more, claims that wait are handed back
// with their attempt not consumed, and running handlers are waited for until ctx ends (not when called
// from inside a handler). The durable subscription stays: the topic's events wait for the group's other
// clients, or for the next Subscribe. A further call only waits again. After Close it does nothing.
func (s *Subscription) Unsubscribe(ctx context.Context) error {
	wait, err := s.detach(ctx)
	if wait == nil || worker.InHandler(ctx) {
		return err
	}
	return errors.Join(wait(ctx), err)
}

// detach takes the subscription out of the client, once, and returns how to wait for its handlers; nil when
// it never ran.
func (s *Subscription) detach(ctx context.Context) (wait func(context.Context) error, err error) {
	c := s.client
	ctx, done, err := c.exclusive(ctx)
	if errors.Is(err, ErrClosed) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer done()
	c.mu.Lock()
	active := c.subscriptions[s.Topic()] == s
	if active {
		delete(c.subscriptions, s.Topic())
	}
	c.mu.Unlock()
	if e := c.running(); active && e != nil {
		s.wait, err = e.Remove(ctx, s.Topic())
	}
	return s.wait, err
}

// Subscriptions returns the local subscriptions, sorted by topic, without I/O (spec 2.9).
func (c *Client) Subscriptions() []SubscriptionInfo {
	subs := c.registered()
	infos := make([]SubscriptionInfo, len(subs))
	for i, sub := range subs {
		infos[i] = sub.Info()
	}
	return infos
}

func (c *Client) registered() []*Subscription {
	c.mu.Lock()
	defer c.mu.Unlock()
	subs := make([]*Subscription, 0, len(c.subscriptions))
	for _, sub := range c.subscriptions {
		subs = append(subs, sub)
	}
	slices.SortFunc(subs, func(a, b *Subscription) int { return cmp.Compare(a.receiver.Topic, b.receiver.Topic) })
	return subs
}

func (c *Client) subscription(topic string) *Subscription {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.subscriptions[topic]
}
