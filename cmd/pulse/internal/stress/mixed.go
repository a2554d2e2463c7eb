package stress

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/orionjs/orion-go/cmd/pulse/internal/audit"
	"github.com/orionjs/orion-go/cmd/pulse/internal/load"
)

const mixedTopics = 12

// mixed are the receivers of the twelve topics: batches, single events of both versions, and ordered ones.
func mixed() []load.Receiver {
	kinds := []load.Receiver{{Batch: 25, Version: 2}, {Version: 2}, {Version: 1}, {Version: 1, Ordered: true}}
	receivers := make([]load.Receiver, mixedTopics)
	for i := range receivers {
		r := kinds[i%len(kinds)]
		r.Topic, r.Retries, r.RetryDelay = fmt.Sprintf("topic-%02d", i+1), 3, retryDelay
		receivers[i] = r
	}
	return receivers
}

func playMixed(ctx context.Context, s *stage, events int) error {
	receivers := mixed()
	for _, r := range receivers {
		if err := s.publish(ctx, r.Topic, events/mixedTopics); err != nil {
			return err
		}
	}
	if _, err := s.start(ctx, 1, load.Replica{Client: load.Client{Workers: workers}, Receivers: receivers}); err != nil {
		return err
	}
	return s.await(ctx, events)
}

// fewest is with how many events of each topic it can be told whether one had to wait for the others.
const fewest = 50

func inspectMixed(v *audit.Verdict, entries []audit.Entry, events int) {
	if most := mostAtOnce(entries); most > workers {
		v.Violate("%d handlers ran at a time, want at most %d", most, workers)
	}
	first, last := map[string]int64{}, map[string]int64{}
	for _, e := range entries {
		if at, seen := first[e.Topic]; !seen || e.Start < at {
			first[e.Topic] = e.Start
		}
		last[e.Topic] = max(last[e.Topic], e.End)
	}
	for _, r := range mixed() {
		if r.Ordered {
			v.CheckOrder(r.Topic, entries)
		}
		if events/len(mixed()) < fewest {
			continue
		}
		began, served := first[r.Topic]
		others := maps.Clone(last)
		delete(others, r.Topic)
		if served && len(others) > 0 && began > slices.Max(slices.Collect(maps.Values(others))) {
			v.Violate("topic %s starved: its first event had to wait until all other topics were finished", r.Topic)
		}
	}
}
