package soak

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"
)

// Print writes the result: what became of the events, and how long recovery took after each kind of fault.
func Print(w io.Writer, r Result) error {
	_, _ = fmt.Fprintf(w, "seed %d: %d events in %.0f s, %d calls of handlers, %d faults\n", r.Seed, r.Events, r.Seconds, r.Calls, len(r.Faults))
	_, _ = fmt.Fprintf(w, "lost %d, handled twice %d (and %d explained by a fault of their process), stranded %d, failed %d\n\n",
		r.Lost, r.Duplicates, r.Explained, r.Stranded, r.Failed)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprintln(table, "fault\tnumber\tlongest\trecovery, median\tslowest\t")
	for _, k := range kinds {
		var lasted time.Duration
		var recovered []time.Duration
		for _, h := range r.Faults {
			if h.Kind == k.kind {
				lasted = max(lasted, h.Lasts)
				recovered = append(recovered, h.Recovery)
			}
		}
		if len(recovered) == 0 {
			continue
		}
		slices.Sort(recovered)
		seconds := func(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }
		_, _ = fmt.Fprintf(table, "%s\t%d\t%s\t%s\t%s\t\n", k.kind, len(recovered), seconds(lasted),
			seconds(recovered[len(recovered)/2]), seconds(recovered[len(recovered)-1]))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, violation := range r.Violations {
		_, _ = fmt.Fprintf(w, "VIOLATION: %s\n", violation)
	}
	return nil
}
