// Package stress plays scenarios over several processes and tells whether every event was handled, once.
package stress

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/orionjs/orion-go/cmd/pulse/internal/audit"
	"github.com/orionjs/orion-go/cmd/pulse/internal/testbed"
)

// Result is what one scenario came to.
type Result struct {
	Scenario string `json:"scenario"`
	About    string `json:"about"`
	audit.Verdict
}

// Names are the scenarios, in their order.
func Names() []string {
	names := make([]string, len(scenarios))
	for i, s := range scenarios {
		names[i] = s.name
	}
	return names
}

// Run plays the named scenarios, all if none is named, with their events times scale. It says on progress what
// it is about to do. An error is one of the run itself; what the handlers got wrong is in the results.
func Run(ctx context.Context, bed *testbed.Bed, scale float64, names []string, progress io.Writer) ([]Result, error) {
	chosen, err := choose(names)
	if err != nil {
		return nil, err
	}
	var results []Result
	for _, s := range chosen {
		events := s.size(scale)
		_, _ = fmt.Fprintf(progress, "pulse stress: %s: %d events, %s\n", s.name, events, s.about)
		verdict, err := s.run(ctx, bed, events)
		if err != nil {
			return results, fmt.Errorf("scenario %s: %w", s.name, err)
		}
		results = append(results, Result{Scenario: s.name, About: s.about, Verdict: verdict})
	}
	return results, nil
}

func choose(names []string) ([]scenario, error) {
	if len(names) == 0 {
		return scenarios, nil
	}
	var chosen []scenario
	for _, s := range scenarios {
		for _, name := range names {
			if s.name == name {
				chosen = append(chosen, s)
			}
		}
	}
	if len(chosen) != len(names) {
		return nil, fmt.Errorf("scenarios %s: each of them must be one of %s, once", strings.Join(names, ", "), strings.Join(Names(), ", "))
	}
	return chosen, nil
}

// size is the number of events at a scale: a multiple of the unit, one of them at least.
func (s scenario) size(scale float64) int {
	units := int(scale*float64(s.events)/float64(s.unit) + 0.5)
	return max(1, units) * s.unit
}

func (s scenario) run(ctx context.Context, bed *testbed.Bed, events int) (v audit.Verdict, err error) {
	stage, end, err := newStage(ctx, bed)
	if err != nil {
		return v, err
	}
	defer func() { err = errors.Join(err, end()) }()
	if err := s.play(ctx, stage, events); err != nil {
		return v, err
	}
	entries, left, err := stage.finish(ctx)
	if err != nil {
		return v, err
	}
	v = audit.Check(stage.published, entries, left, nil)
	s.inspect(&v, entries, events)
	return v, nil
}

// Violated tells whether any promise was broken.
func Violated(results []Result) bool {
	for _, r := range results {
		if len(r.Violations) > 0 {
			return true
		}
	}
	return false
}

// Print writes the results as a table, with the violations below it.
func Print(w io.Writer, results []Result) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprintln(table, "scenario\tevents\tcalls\tlost\tduplicates\tstranded\tfailed\tseconds\tevents/s\t")
	var sum audit.Verdict
	for _, r := range results {
		row(table, r.Scenario, r.Verdict)
		sum.Events += r.Events
		sum.Calls += r.Calls
		sum.Lost += r.Lost
		sum.Duplicates += r.Duplicates
		sum.Stranded += r.Stranded
		sum.Failed += r.Failed
		sum.Seconds += r.Seconds
	}
	if sum.Seconds > 0 {
		sum.PerSecond = float64(sum.Events) / sum.Seconds
	}
	row(table, "together", sum)
	if err := table.Flush(); err != nil {
		return err
	}
	for _, r := range results {
		for _, violation := range r.Violations {
			_, _ = fmt.Fprintf(w, "VIOLATION: %s: %s\n", r.Scenario, violation)
		}
	}
	return nil
}

func row(w io.Writer, name string, v audit.Verdict) {
	_, _ = fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%.1f\t%.0f\t\n", name, v.Events, v.Calls, v.Lost, v.Duplicates, v.Stranded, v.Failed, v.Seconds, v.PerSecond)
}
