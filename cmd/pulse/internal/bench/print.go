package bench

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// Print writes the results as a table. A dash is what does not apply.
func Print(w io.Writer, results []Result) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprintln(table, "scenario\tevents\tevents/s\tof floor\tp50 ms\tp95\tp99\tmax\tcommands/event\tbytes/event\tCPU s/1,000\tpeak MB\t")
	for _, r := range results {
		row(table, r.Scenario, r)
		if r.Floor != nil {
			row(table, "  its floor", *r.Floor)
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, r := range results {
		if r.AllocationsPerEvent > 0 {
			_, _ = fmt.Fprintf(w, "%s: %.0f allocations each, %.0f by the driver\n", r.Scenario, r.AllocationsPerEvent, r.Floor.AllocationsPerEvent)
		}
		if r.CommandsPerSecond > 0 {
			_, _ = fmt.Fprintf(w, "%s: %.2f commands/s and %.2f %% of a processor for each client, in %.0f s\n",
				r.Scenario, r.CommandsPerSecond, 100*r.CPUShare, r.Seconds)
		}
	}
	return nil
}

func row(w io.Writer, name string, r Result) {
	number := func(format string, n float64) string {
		if n == 0 {
			return "-"
		}
		return fmt.Sprintf(format, n)
	}
	latency := r.Latency
	if latency == nil {
		latency = &Latency{}
	}
	ratio := "-"
	if r.Ratio > 0 {
		ratio = fmt.Sprintf("%.0f %%", 100*r.Ratio)
	}
	_, _ = fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t\n", name, r.Events,
		number("%.0f", r.PerSecond), ratio,
		number("%.1f", latency.P50), number("%.1f", latency.P95), number("%.1f", latency.P99), number("%.1f", latency.Max),
		number("%.3f", r.CommandsPerEvent), number("%.0f", r.BytesPerEvent), number("%.3f", r.CPUPer1000), number("%.0f", float64(r.PeakMemory)/(1<<20)))
}
