package soak

import (
	"testing"
	"time"

	"github.com/matryer/is"

	"github.com/orionjs/orion-go/cmd/pulse/internal/audit"
)

func TestPlan_TheSameSeedPlansTheSameFaults(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	plan := Plan(7, 10*time.Minute, 5)
	is.Equal(plan, Plan(7, 10*time.Minute, 5))
	short := Plan(7, time.Minute, 5)
	is.Equal(short, plan[:len(short)]) // a longer time has more
	is.True(len(plan) > 3*len(short))
	other := Plan(8, 10*time.Minute, 5)
	is.True(other[0] != plan[0] || other[1] != plan[1])
	kinds, end := map[Kind]int{}, time.Duration(0)
	for _, f := range plan {
		kinds[f.Kind]++
		is.True(f.At > end) // one after the other
		end = f.At + f.Lasts
		is.True(f.Kind == Stall && f.Target == -1 || f.Target >= 0 && f.Target < 5)
	}
	is.Equal(len(kinds), 5)
	is.True(end < 10*time.Minute)
}

func TestExplain_4_1_OnlyAFaultOfItsOwnProcessInBetween(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	done := audit.Entry{Replica: "a", Start: 100, End: 110}
	again := audit.Entry{Replica: "b", Start: 200, End: 210}
	explained := func(process string, began, ended int64) bool {
		return explain([]Hit{{Process: process, Began: began, Ended: ended}})(done, again)
	}
	is.True(explained("a", 120, 130))
	is.True(explained("a", 90, 105))   // frozen while its handler ran
	is.True(explained("", 120, 130))   // everybody was hit
	is.True(!explained("b", 120, 130)) // another one
	is.True(!explained("a", 50, 99))   // before
	is.True(!explained("a", 201, 220)) // after
}

func TestRecoveries_LastUntilAllEarlierEventsAreHandled(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	second := int64(time.Second / time.Microsecond)
	handled := func(n int, end int64) audit.Entry {
		return audit.Entry{Topic: "t", Events: []int{n}, OK: true, End: end * second}
	}
	hits := []Hit{{Began: 10 * second}, {Began: 20 * second}}
	acked := map[string][]int64{"t": {5 * second, 9 * second, 19 * second}}
	entries := []audit.Entry{handled(0, 6), handled(1, 16), handled(1, 40), handled(2, 19)}
	recoveries(hits, entries, acked)
	is.Equal(hits[0].Recovery, 6*time.Second) // event 1; the repetition does not count, event 2 came later
	is.Equal(hits[1].Recovery, time.Duration(0))
}
