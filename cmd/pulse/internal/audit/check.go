package audit

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
)

// Verdict is what a record says about the events that were published.
type Verdict struct {
	// Events were published; Calls of handlers were made.
	Events int `json:"events"`
	Calls  int `json:"calls"`
	// Lost are events that no handler has handled successfully.
	Lost int `json:"lost"`
	// Duplicates are successful handlings beyond the first one of an event that no fault explains.
	Duplicates int `json:"duplicates"`
	// Explained are those that a fault explains: its process was hit before it could store the outcome.
	Explained int `json:"explained"`
	// Stranded are deliveries, attempts and events that are left unfinished, Failed deliveries that ended
	// with an error.
	Stranded int `json:"stranded"`
	Failed   int `json:"failed"`
	// Violations say what was promised and not kept, in words; empty if all is well.
	Violations []string `json:"violations,omitempty"`
	// Seconds went by from the start of the first call to the end of the last, PerSecond is the throughput.
	Seconds   float64 `json:"seconds"`
	PerSecond float64 `json:"eventsPerSecond"`
}

// Violate adds a violation.
func (v *Verdict) Violate(format string, args ...any) {
	v.Violations = append(v.Violations, fmt.Sprintf(format, args...))
}

// Explain tells whether a fault explains that what this call did was done again by a later one.
type Explain func(done, again Entry) bool

// Check compares the record with the number of events that were published to each topic, numbered from 0, and
// with the state that is left. Explain may be nil: then every duplicate is a violation.
func Check(published map[string]int, entries []Entry, left State, explain Explain) Verdict {
	v := Verdict{Calls: len(entries), Stranded: left.Waiting + left.Unstamped, Failed: left.Failed}
	successes := map[string]map[int][]Entry{}
	var first, last int64
	for _, e := range sorted(entries) {
		if first == 0 {
			first = e.Start
		}
		last = max(last, e.End)
		for _, n := range e.Events {
			if n < 0 || n >= published[e.Topic] {
				v.Violate("topic %s: event %d was handled, which was never published", e.Topic, n)
			} else if e.OK {
				if successes[e.Topic] == nil {
					successes[e.Topic] = map[int][]Entry{}
				}
				successes[e.Topic][n] = append(successes[e.Topic][n], e)
			}
		}
	}
	for _, topic := range slices.Sorted(maps.Keys(published)) {
		v.Events += published[topic]
		v.lostAndTwice(topic, published[topic], successes[topic], explain)
	}
	if left.Waiting > 0 {
		v.Violate("%d deliveries are left pending, %d of them or of their attempts locked", left.Waiting, left.Locked)
	} else if left.Locked > 0 {
		v.Stranded += left.Locked
		v.Violate("%d attempts are left locked", left.Locked)
	}
	if left.Unstamped > 0 {
		v.Violate("%d events of committed transactions were never noticed", left.Unstamped)
	}
	if left.Failed > 0 {
		v.Violate("%d deliveries ended with an error", left.Failed)
	}
	if v.Seconds = float64(last-first) / 1e6; v.Seconds > 0 {
		v.PerSecond = float64(v.Events) / v.Seconds
	}
	return v
}

func (v *Verdict) lostAndTwice(topic string, published int, successes map[int][]Entry, explain Explain) {
	var lost, twice []int
	for n := range published {
		done := successes[n]
		if len(done) == 0 {
			lost = append(lost, n)
			continue
		}
		for i, again := range done[1:] {
			if explain != nil && explain(done[i], again) {
				v.Explained++
				continue
			}
			v.Duplicates++
			twice = append(twice, n)
		}
	}
	v.Lost += len(lost)
	if len(lost) > 0 {
		v.Violate("topic %s: %d events were lost: %s", topic, len(lost), some(lost))
	}
	if len(twice) > 0 {
		v.Violate("topic %s: %d successful handlings too many, of events %s", topic, len(twice), some(twice))
	}
}

// sorted are the entries by their start.
func sorted(entries []Entry) []Entry {
	return slices.SortedFunc(slices.Values(entries), func(a, b Entry) int {
		return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.End, b.End))
	})
}

// some lists the first of many numbers.
func some(numbers []int) string {
	const most = 10
	if len(numbers) > most {
		return fmt.Sprint(numbers[:most], " and more")
	}
	return fmt.Sprint(numbers)
}
