package audit

import (
	"slices"
	"strings"
	"testing"

	"github.com/matryer/is"
)

// call is a successful first attempt at these events, from start to end.
func call(replica string, start, end int64, events ...int) Entry {
	return Entry{Replica: replica, Topic: "t", Attempt: 1, Events: events, OK: true, Start: start, End: end}
}

func failed(e Entry) Entry {
	e.OK = false
	return e
}

func TestCheck_8_1_FindsWhatIsWrongAndNothingElse(t *testing.T) {
	t.Parallel()
	four := map[string]int{"t": 4}
	good := []Entry{call("a", 1, 2, 0, 1), call("b", 2, 3, 2), failed(call("b", 3, 4, 3)), call("b", 5, 6, 3)}
	never := func(Entry, Entry) bool { return false }
	always := func(Entry, Entry) bool { return true }
	for _, c := range []struct {
		name    string
		entries []Entry
		left    State
		explain Explain
		want    Verdict // its Violations are parts of the texts
	}{
		{"all is well", good, State{}, never, Verdict{Calls: 4}},
		{"a lost event", good[:3], State{}, nil, Verdict{Calls: 3, Lost: 1, Violations: []string{"topic t: 1 events were lost: [3]"}}},
		{"handled twice", append([]Entry{call("c", 7, 8, 2)}, good...), State{}, nil, Verdict{Calls: 5, Duplicates: 1, Violations: []string{"1 successful handlings too many, of events [2]"}}},
		{"twice within one call", append([]Entry{call("c", 7, 8, 1, 1)}, good...), State{}, never, Verdict{Calls: 5, Duplicates: 2, Violations: []string{"2 successful handlings too many"}}},
		{"twice, and a fault explains it", append([]Entry{call("c", 7, 8, 2)}, good...), State{}, always, Verdict{Calls: 5, Explained: 1}},
		{"never published", append([]Entry{call("c", 7, 8, 4)}, good...), State{}, nil, Verdict{Calls: 5, Violations: []string{"event 4 was handled, which was never published"}}},
		{"left pending", good, State{Waiting: 2, Locked: 1}, nil, Verdict{Calls: 4, Stranded: 2, Violations: []string{"2 deliveries are left pending, 1 of them"}}},
		{"left locked", good, State{Locked: 1}, nil, Verdict{Calls: 4, Stranded: 1, Violations: []string{"1 attempts are left locked"}}},
		{"a commit that nobody noticed", good, State{Unstamped: 3}, nil, Verdict{Calls: 4, Stranded: 3, Violations: []string{"3 events of committed transactions"}}},
		{"ended with an error", good, State{Failed: 1}, nil, Verdict{Calls: 4, Failed: 1, Violations: []string{"1 deliveries ended with an error"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			got := Check(four, c.entries, c.left, c.explain)
			is.Equal(got.Events, 4)
			is.True(got.Seconds > 0 && got.PerSecond > 0)
			is.Equal(len(got.Violations), len(c.want.Violations))
			for i, part := range c.want.Violations {
				is.True(strings.Contains(got.Violations[i], part)) // got.Violations[i]
			}
			is.Equal([]int{got.Calls, got.Lost, got.Duplicates, got.Explained, got.Stranded, got.Failed},
				[]int{c.want.Calls, c.want.Lost, c.want.Duplicates, c.want.Explained, c.want.Stranded, c.want.Failed})
		})
	}
}

func TestCheckOrder_4_9_FindsWhatWasBegunTooEarly(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name       string
		entries    []Entry
		violations int
	}{
		{"in order", []Entry{call("a", 1, 2, 0), call("a", 2, 3, 1), call("b", 4, 5, 2)}, 0},
		{"a retry holds the order", []Entry{call("a", 1, 2, 0), failed(call("a", 2, 3, 1)), call("a", 4, 5, 1), call("a", 6, 7, 2)}, 0},
		{"done again after a crash", []Entry{call("a", 1, 2, 0), call("a", 2, 3, 1), call("b", 5, 6, 0), call("b", 6, 7, 1), call("b", 7, 8, 2)}, 0},
		{"overtaken", []Entry{call("a", 1, 2, 0), call("a", 2, 3, 2), call("a", 3, 4, 1)}, 1},
		{"beside each other", []Entry{call("a", 1, 4, 0), call("b", 3, 5, 1)}, 1},
		{"begun during the retry", []Entry{failed(call("a", 1, 2, 0)), call("a", 3, 4, 1), call("a", 5, 6, 0)}, 1},
		{"over a hole", []Entry{call("a", 1, 2, 0), call("a", 3, 4, 2)}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			entries := slices.Concat(c.entries, []Entry{{Topic: "another", Events: []int{9}, OK: true, Start: 1, End: 9}})
			var v Verdict
			v.CheckOrder("t", entries)
			is.Equal(len(v.Violations), c.violations) // v.Violations
		})
	}
}
