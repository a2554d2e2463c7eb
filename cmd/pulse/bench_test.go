//go:build unix

package main

import (
	"encoding/json"
	"testing"

	"github.com/matryer/is"

	"github.com/orionjs/orion-go/cmd/pulse/internal/bench"
)

func TestBench_CountsWhatEachScenarioAsksOfTheServer(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	var results []bench.Result
	is.NoErr(json.Unmarshal(measure(t, "bench", "--events", "300", "--clients", "2", "--idle", "1s", "--topics", "3", "--delay", "1ms", "--json"), &results))
	is.Equal(len(results), len(bench.Names()))
	for i, r := range results {
		is.Equal(r.Scenario, bench.Names()[i])
		switch r.Scenario {
		case "publish":
			is.Equal(r.CommandsPerEvent, 1.0)
			is.Equal(r.Floor.CommandsPerEvent, 1.0)
		case "publish-many":
			is.Equal(r.Commands, map[string]int{"insert": 2}) // one by each client
		case "single":
			is.Equal(r.Floor.Commands, map[string]int{"find": 1, "insert": 1, "update": 4}) // 300: in claims of 250
		case "batch":
			is.Equal(r.Floor.Commands, map[string]int{"find": 1, "insert": 1, "update": 2})
		case "fan-out":
			is.Equal(r.Events, 900)
		case "latency-idle", "latency-rate":
			is.True(r.Floor.Latency.P50 > 0 && r.Floor.Commands["update"] > 0) // completed, too
			is.True(r.Latency.P50 > 0 && r.Latency.P50 <= r.Latency.P95 && r.Latency.P95 <= r.Latency.P99 && r.Latency.P99 <= r.Latency.Max)
		case "idle":
			is.Equal(r.Events, 0)
			continue
		case "decode":
			is.Equal(r.Events, 300)
			is.True(r.PerSecond > 0 && r.Ratio > 0)
			is.True(3*r.AllocationsPerEvent <= r.Floor.AllocationsPerEvent)
			is.Equal(len(r.Commands), 0)
			continue
		}
		is.True(r.Events >= 100 && r.CommandsPerEvent > 0 && r.BytesPerEvent > 200) // r
		is.True(r.CPUPer1000 > 0 && r.PeakMemory > 1<<20)
		is.True((r.Floor != nil) == (r.Ratio > 0))
	}
}

func TestBench_HandlersTakeTheirTime(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	var results []bench.Result
	is.NoErr(json.Unmarshal(measure(t, "bench", "single", "--events", "20", "--workers", "2", "--handler-time", "50ms", "--json"), &results))
	is.Equal(len(results), 1)
	is.True(results[0].Seconds >= 0.5) // 20 calls of 50 ms, two at a time
	is.True(results[0].Floor == nil)   // the bare driver has no handlers
}
