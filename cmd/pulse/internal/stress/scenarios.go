package stress

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/orionjs/orion-go/cmd/pulse/internal/audit"
	"github.com/orionjs/orion-go/cmd/pulse/internal/fleet"
	"github.com/orionjs/orion-go/cmd/pulse/internal/load"
)

// scenario is one line of the table. Play publishes and has handled; inspect looks for what only this scenario
// promises, beyond that nothing is lost, done twice or stranded.
type scenario struct {
	name, about string
	events      int // at full size; a multiple of unit
	unit        int
	play        func(ctx context.Context, s *stage, events int) error
	inspect     func(v *audit.Verdict, entries []audit.Entry, events int)
}

const batchSize = 100

var scenarios = []scenario{
	{
		name: "backlog", about: "a backlog over four replicas, in deliveries of exactly 100",
		events: 30_000, unit: batchSize, play: playBacklog, inspect: inspectBacklog,
	},
	{
		name: "rollout", about: "from single to batch handlers, with both side by side in between",
		events: 15_000, unit: 3 * batchSize, play: playRollout, inspect: inspectRollout,
	},
	{
		name: "retry", about: "every batch fails once and then succeeds as a whole unit",
		events: 15_000, unit: batchSize, play: playRetry, inspect: inspectRetry,
	},
	{
		name: "concurrent", about: "one replica with four workers runs four batches at a time",
		events: 6_400, unit: 4 * batchSize, play: playConcurrent, inspect: inspectConcurrent,
	},
	{
		name: "mixed", about: "twelve topics of all kinds on the four workers of one replica, none starved",
		events: 3_600, unit: mixedTopics, play: playMixed, inspect: inspectMixed,
	},
}

var batches = load.Receiver{Topic: "events", Batch: batchSize, Version: 2, Retries: 3, RetryDelay: retryDelay}

func playBacklog(ctx context.Context, s *stage, events int) error {
	if err := s.publish(ctx, batches.Topic, events); err != nil {
		return err
	}
	if _, err := s.start(ctx, 4, load.Replica{Receivers: []load.Receiver{batches}}); err != nil {
		return err
	}
	return s.await(ctx, events)
}

func inspectBacklog(v *audit.Verdict, entries []audit.Entry, events int) {
	if len(entries) != events/batchSize {
		v.Violate("%d calls, want %d", len(entries), events/batchSize)
	}
	for _, e := range entries {
		if len(e.Events) != batchSize {
			v.Violate("a delivery of %d events, from %d on, want exactly %d", len(e.Events), e.Events[0], batchSize)
		}
	}
}

const rolloutPoll = 500 * time.Millisecond

// playRollout goes from single handlers to batch handlers: a third of the events is there for the old replicas
// alone, a third for both, a third for the new ones alone.
func playRollout(ctx context.Context, s *stage, events int) error {
	third := events / 3
	single := batches
	single.Batch = 0
	if err := s.publish(ctx, single.Topic, third); err != nil {
		return err
	}
	old, err := s.start(ctx, 2, load.Replica{Client: load.Client{Poll: rolloutPoll}, Receivers: []load.Receiver{single}})
	if err != nil {
		return err
	}
	if err := s.await(ctx, third); err != nil {
		return err
	}
	batch := batches
	batch.ConfigVersion = 1
	if _, err := s.start(ctx, 2, load.Replica{Client: load.Client{Poll: rolloutPoll}, Receivers: []load.Receiver{batch}}); err != nil {
		return err
	}
	// The old replicas adopt the new settings with their next poll. From then on they meet deliveries of many events.
	select {
	case <-time.After(3 * rolloutPoll):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if err := s.publish(ctx, batch.Topic, third); err != nil {
		return err
	}
	if err := s.await(ctx, 2*third); err != nil {
		return err
	}
	if err := fleet.StopAll(old); err != nil {
		return err
	}
	if err := s.publish(ctx, batch.Topic, events-2*third); err != nil {
		return err
	}
	return s.await(ctx, events)
}

func inspectRollout(v *audit.Verdict, entries []audit.Entry, _ int) {
	single, batch := 0, 0
	for _, e := range entries {
		if e.Batch {
			batch += len(e.Events)
		} else {
			single += len(e.Events)
		}
	}
	if single == 0 || batch == 0 {
		v.Violate("single handlers handled %d events, batch handlers %d: both have to take part", single, batch)
	}
}

func playRetry(ctx context.Context, s *stage, events int) error {
	if err := s.publish(ctx, batches.Topic, events); err != nil {
		return err
	}
	if _, err := s.start(ctx, 2, load.Replica{Receivers: []load.Receiver{batches}, FailOnce: 1}); err != nil {
		return err
	}
	return s.await(ctx, events)
}

func inspectRetry(v *audit.Verdict, entries []audit.Entry, _ int) {
	units := map[int][]audit.Entry{} // by the first event
	for _, e := range entries {
		units[e.Events[0]] = append(units[e.Events[0]], e)
	}
	for first, calls := range units {
		slices.SortFunc(calls, func(a, b audit.Entry) int { return a.Attempt - b.Attempt })
		if len(calls) != 2 || calls[0].Attempt != 1 || calls[1].Attempt != 2 || calls[0].OK || !calls[1].OK {
			v.Violate("the unit from event %d on: %s, want one failed and one successful attempt", first, attempts(calls))
		} else if !slices.Equal(calls[0].Events, calls[1].Events) {
			v.Violate("the unit from event %d on was tried with %d events first, and with %d then", first, len(calls[0].Events), len(calls[1].Events))
		}
	}
}

func attempts(calls []audit.Entry) string {
	var texts []string
	for _, c := range calls {
		texts = append(texts, fmt.Sprintf("attempt %d ok=%t", c.Attempt, c.OK))
	}
	return fmt.Sprint(texts)
}

const workers = 4

func playConcurrent(ctx context.Context, s *stage, events int) error {
	if err := s.publish(ctx, batches.Topic, events); err != nil {
		return err
	}
	if _, err := s.start(ctx, 1, load.Replica{Client: load.Client{Workers: workers}, Receivers: []load.Receiver{batches}, Meet: workers, Work: 2 * time.Millisecond}); err != nil {
		return err
	}
	return s.await(ctx, events)
}

func inspectConcurrent(v *audit.Verdict, entries []audit.Entry, _ int) {
	if most := mostAtOnce(entries); most != workers {
		v.Violate("at most %d batches ran at a time, want %d", most, workers)
	}
}

// mostAtOnce is how many calls ran at the same time.
func mostAtOnce(entries []audit.Entry) int {
	type edge struct {
		at   int64
		step int
	}
	var edges []edge
	for _, e := range entries {
		edges = append(edges, edge{e.Start, 1}, edge{e.End, -1})
	}
	// One that ends in the microsecond in which another begins does not run beside it.
	slices.SortFunc(edges, func(a, b edge) int {
		if a.at != b.at {
			return int(a.at - b.at)
		}
		return a.step - b.step
	})
	now, most := 0, 0
	for _, e := range edges {
		now += e.step
		most = max(most, now)
	}
	return most
}
