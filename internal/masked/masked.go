// Package masked puts names in place of what differs in every run of pulse, so that two outputs can be compared.
package masked

import "regexp"

// UUID finds the IDs that Pulse makes.
var UUID = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}`)

var volatile = []struct {
	expr *regexp.Regexp
	name string
}{
	{UUID, "UUID"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`), "TIME"},
	{regexp.MustCompile(`getSiblingDB\("\w+"\)`), `getSiblingDB(DATABASE)`},
	{regexp.MustCompile(`go:[\w.:/-]+`), "go:WORKER"},
	{regexp.MustCompile(`\b\d+(\.\d+)?(ms|s|m|h|d)(\d+[smh])?\b`), "SPAN"},
	{regexp.MustCompile(`"durationMs": ?[\d.e-]+,\s*`), ""}, // absent when it is 0
	{regexp.MustCompile(`"lagSeconds": ?[\d.e-]+`), `"lagSeconds": NUMBER`},
	{regexp.MustCompile(`(?m) +$`), ""},
	{regexp.MustCompile(` {2,}`), "  "}, // columns are as wide as what differs
}

// Text is the output with IDs, times, durations, workers and the name of the database masked.
func Text(output string) string {
	for _, v := range volatile {
		output = v.expr.ReplaceAllString(output, v.name)
	}
	return output
}
