package stress

import (
	"slices"
	"testing"

	"github.com/matryer/is"

	"github.com/orionjs/orion-go/cmd/pulse/internal/audit"
)

// calls are successful calls of a batch handler for so many events each, one after the other.
func calls(sizes ...int) []audit.Entry {
	var out []audit.Entry
	n := 0
	for i, size := range sizes {
		e := audit.Entry{Topic: batches.Topic, Batch: true, Attempt: 1, OK: true, Start: int64(10 * i), End: int64(10*i + 9)}
		for range size {
			e.Events = append(e.Events, n)
			n++
		}
		out = append(out, e)
	}
	return out
}

func TestStress_8_1_EachScenarioFindsItsOwnBreach(t *testing.T) {
	t.Parallel()
	retried := func(change func([]audit.Entry)) []audit.Entry {
		first, second := calls(100, 100), calls(100, 100)
		for i := range first {
			first[i].OK, second[i].Attempt = false, 2
		}
		all := slices.Concat(first, second)
		if change != nil {
			change(all)
		}
		return all
	}
	atOnce := func(n int) []audit.Entry {
		out := calls(100, 100, 100, 100, 100)
		for i := range n {
			out[i].Start, out[i].End = 1000, 2000
		}
		return out
	}
	single := calls(1)
	single[0].Batch = false
	for _, c := range []struct {
		name     string
		scenario string
		entries  []audit.Entry
		breaches bool
	}{
		{"exactly 100", "backlog", calls(100, 100), false},
		{"uneven", "backlog", calls(99, 101), true},
		{"too many calls", "backlog", calls(100, 50, 50), true},
		{"both kinds", "rollout", slices.Concat(single, calls(100)), false},
		{"no batch", "rollout", single, true},
		{"no single", "rollout", calls(100), true},
		{"whole units", "retry", retried(nil), false},
		{"no failure", "retry", calls(100, 100), true},
		{"a third attempt", "retry", retried(func(all []audit.Entry) { all[3] = all[2] }), true},
		{"another unit", "retry", retried(func(all []audit.Entry) { all[2].Events = all[2].Events[:99] }), true},
		{"four at once", "concurrent", atOnce(4), false},
		{"only three", "concurrent", atOnce(3), true},
		{"one too many", "concurrent", atOnce(5), true},
	} {
		t.Run(c.scenario+": "+c.name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			var v audit.Verdict
			for _, s := range scenarios {
				if s.name == c.scenario {
					s.inspect(&v, c.entries, 200)
				}
			}
			is.Equal(len(v.Violations) > 0, c.breaches) // v.Violations
		})
	}
}

func TestStress_8_1_FindsTheStarvedTopic(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	var entries []audit.Entry
	for i, r := range mixed() {
		entries = append(entries, audit.Entry{Topic: r.Topic, Events: []int{0}, OK: true, Start: int64(i), End: int64(100)})
	}
	var v audit.Verdict
	inspectMixed(&v, entries[:4], 3600)
	is.Equal(len(v.Violations), 0)
	entries[3].Start, entries[3].End = 101, 102
	inspectMixed(&v, entries[:4], 3600)
	is.Equal(len(v.Violations), 1) // v.Violations
	v = audit.Verdict{}
	inspectMixed(&v, entries[:4], 36) // too few events to tell
	is.Equal(len(v.Violations), 0)
	v = audit.Verdict{}
	entries[3].Start, entries[3].End = 3, 100
	inspectMixed(&v, entries[:5], 3600) // five at once on four workers
	is.Equal(len(v.Violations), 1)
}

func TestStress_8_1_FullSizeIsSeventyThousandEvents(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	sum := 0
	for _, s := range scenarios {
		is.Equal(s.size(1), s.events)
		is.Equal(s.size(0.0001), s.unit)
		sum += s.events
	}
	is.Equal(sum, 70_000)
	_, err := choose([]string{"retry", "nothing"})
	is.True(err != nil)
}
