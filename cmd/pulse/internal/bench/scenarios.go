package bench

import (
	"context"
	"time"

	"github.com/orionjs/orion-go/cmd/pulse/internal/load"
)

// scenario is one measurement. Play prepares, lets the processes begin and waits for their end; it returns how
// many events that were.
type scenario struct {
	name, about string
	play        func(ctx context.Context, s *stage) error
	// local measures in this process instead, without a server.
	local func(s scenario, opts Options) (Result, error)
	// latency tells whether the times from publication to handler say something: they do not for a backlog. Then rate is
	// the events a second, and most how many there are at most.
	latency bool
	rate    float64
	most    int
	// idle tells whether nothing is handled, and commands are counted by time.
	idle bool
	// floor has the numbers of claimers with which the least commands are measured; empty: there is no floor.
	floor []int
	// backlog tells whether the floor needs events to handle.
	backlog bool
}

const (
	retries    = 3
	retryDelay = 100 * time.Millisecond
	fanOut     = 3
)

var scenarios = []scenario{
	{name: "publish", about: "one at a time, by the workers side by side", play: playPublish(false), floor: []int{1}},
	{name: "publish-many", about: "1,000 at a time", play: playPublish(true), floor: []int{1}},
	{name: "single", about: "a backlog, unordered, version 2", backlog: true, floor: floorClaimers, play: playBacklog(1, func(*stage) consumer { return receiving(single) })},
	{name: "batch", about: "a backlog, in batches", backlog: true, floor: floorClaimers, play: playBacklog(1, func(s *stage) consumer {
		return receiving(load.Receiver{Version: 2, Batch: s.opts.Batch, Retries: retries})
	})},
	{name: "ordered", about: "a backlog in order, claimed ahead", play: playBacklog(1, func(*stage) consumer { return receiving(load.Receiver{Version: 1, Ordered: true, Retries: retries}) })},
	{name: "ordered-steps", about: "a backlog in order, without retries and so step by step", play: playBacklog(1, func(*stage) consumer { return receiving(load.Receiver{Version: 1, Ordered: true}) })},
	{name: "retry-storm", about: "a backlog whose every first attempt fails", play: playBacklog(1, func(*stage) consumer {
		c := receiving(single)
		c.FailOnce = true
		return c
	})},
	{name: "fan-out", about: "a backlog for three groups; each event counts three times", play: playBacklog(fanOut, func(*stage) consumer { return receiving(single) })},
	latency("latency-idle", "one event each quarter of a second", 4, 100),
	latency("latency-rate", "500 events a second", 500, 5000),
	{name: "idle", about: "20 topics for each client, without events", idle: true, play: playIdle},
	{name: "decode", about: "an invoice of ten lines, by generated code; the floor is the driver", local: measureDecode},
}

var single = load.Receiver{Version: 2, Retries: retries, RetryDelay: retryDelay}

func receiving(r load.Receiver) consumer {
	r.Topic = topic
	return consumer{Receivers: []load.Receiver{r}}
}

func playPublish(many bool) func(context.Context, *stage) error {
	return func(ctx context.Context, s *stage) error {
		share := s.opts.Events / s.opts.Clients
		for range s.opts.Clients {
			order := publisher{Client: s.client(group), Topic: topic, Events: share, Pad: s.opts.Size, Many: many}
			if err := s.add(ctx, publisherRole, order); err != nil {
				return err
			}
		}
		if err := s.start(); err != nil {
			return err
		}
		return s.await(ctx, share*s.opts.Clients)
	}
}

// playBacklog has it handled by the clients of so many groups.
func playBacklog(groups int, order func(*stage) consumer) func(context.Context, *stage) error {
	return func(ctx context.Context, s *stage) error {
		if err := s.prepare(ctx, topic, s.opts.Events); err != nil {
			return err
		}
		if err := s.consumers(ctx, groups, order(s)); err != nil {
			return err
		}
		if err := s.start(); err != nil {
			return err
		}
		return s.await(ctx, groups*s.opts.Events)
	}
}

// consumers adds the clients of each group.
func (s *stage) consumers(ctx context.Context, groups int, order consumer) error {
	for g := range groups {
		for range s.opts.Clients {
			order.Client, order.Work = s.client(group+string(rune('a'+g))), s.opts.HandlerTime
			if err := s.add(ctx, consumerRole, order); err != nil {
				return err
			}
		}
	}
	return nil
}

// settle is how long clients have to become the leaders of their topics before what they do is measured.
const settle = 2 * time.Second

// latency is a scenario that measures it at a rate, the events a second, with so many at most.
func latency(name, about string, rate float64, most int) scenario {
	return scenario{name: name, about: about, latency: true, rate: rate, most: most, floor: []int{1}, play: playLatency(rate, most, following)}
}

// following adds the clients that handle what is published.
func following(ctx context.Context, s *stage, _ int) error {
	return s.consumers(ctx, 1, receiving(single))
}

func playLatency(rate float64, most int, follow func(ctx context.Context, s *stage, events int) error) func(context.Context, *stage) error {
	return func(ctx context.Context, s *stage) error {
		events := min(s.opts.Events, most)
		if err := follow(ctx, s, events); err != nil {
			return err
		}
		if err := s.start(); err != nil {
			return err
		}
		if err := pause(ctx, settle); err != nil {
			return err
		}
		order := publisher{Client: s.client("publisher"), Topic: topic, Events: events, Pad: s.opts.Size, Rate: rate}
		if err := s.add(ctx, publisherRole, order); err != nil {
			return err
		}
		if err := s.processes[len(s.processes)-1].Go(); err != nil {
			return err
		}
		return s.await(ctx, 2*events) // the publisher tells of each, too
	}
}

// idleSettle is how long clients have to begin before they are measured as idle ones.
const idleSettle = 5 * time.Second

func playIdle(ctx context.Context, s *stage) error {
	order := consumer{Settle: idleSettle}
	for i := range s.opts.Topics {
		r := single
		r.Topic = topic + string(rune('a'+i/26)) + string(rune('a'+i%26))
		order.Receivers = append(order.Receivers, r)
	}
	if err := s.consumers(ctx, 1, order); err != nil {
		return err
	}
	if err := s.start(); err != nil {
		return err
	}
	return pause(ctx, idleSettle+s.opts.Idle)
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
