package main

import (
	"context"
	"os"
	"time"

	"github.com/orionjs/orion-go/cmd/pulse/internal/bench"
	"github.com/orionjs/orion-go/cmd/pulse/internal/testbed"
)

type benchCommand struct {
	Scenario []string      `arg:"" optional:"" help:"What to measure: publish, publish-many, single, batch, ordered, ordered-steps, retry-storm, fan-out, latency-idle, latency-rate, idle, decode. Default: all."`
	Events   int           `help:"Events of each scenario; those of latency take fewer." default:"10000"`
	Size     int           `help:"Bytes that are added to the data of each event." default:"200"`
	Clients  int           `help:"Processes that work side by side." default:"1"`
	Workers  int           `help:"Workers of each process; publishers at a time in publish." default:"16"`
	Batch    int           `help:"Size of batches." default:"100"`
	Topics   int           `help:"Topics of each client in idle." default:"20"`
	Idle     time.Duration `help:"How long idle takes." default:"20s"`
	Streams  bool          `help:"Use change streams. --no-streams: poll." default:"true" negatable:""`
	Delay    time.Duration `help:"Let every answer of the server arrive so much later, as over a network." placeholder:"TIME"`
	Handler  time.Duration `name:"handler-time" help:"How long each call of a handler waits, as if for another service. The floor is not measured then." placeholder:"TIME"`
	JSON     bool          `help:"Print the results as JSON."`
}

// Help is the long text of `pulse bench --help`.
func (benchCommand) Help() string {
	return `Measures throughput, latency, and what is asked of the server: commands and bytes per event, by the driver's
command monitor, over all processes. Every scenario starts from an empty database of its own, which is dropped
at the end. The server is that of MONGODB_URI or, without it, one that is started for the run.

The floor is the same work done with the bare driver, in the least commands that store, claim and complete the
same documents, without leases, retries and all else that makes it safe.

More of decoding, of encoding and of the generator: go test -run '^$' -bench . ./echoes/... ./generator/...

docs/benchmarks.md says what each figure means.

Examples:
  pulse bench
  pulse bench single batch --events 50000 --clients 4
  pulse bench single batch --delay 1ms --json
  pulse bench single --clients 4 --workers 4 --handler-time 10ms`
}

// Run measures and prints.
func (c *benchCommand) Run() error {
	for _, n := range []int{c.Events, c.Clients, c.Workers, c.Batch, c.Topics, int(c.Idle)} {
		if n < 1 {
			return usageError("--events, --clients, --workers, --batch, --topics and --idle must be more than 0")
		}
	}
	if c.Events < c.Clients || c.Topics > 26*26 || c.Size < 0 || c.Delay < 0 || c.Handler < 0 {
		return usageError("there must be an event for each client, at most 676 topics, and no negative --size, --delay or --handler-time")
	}
	return onTestbed(func(ctx context.Context, bed *testbed.Bed) error {
		results, err := bench.Run(ctx, bench.Options{
			Bed: bed, Events: c.Events, Size: c.Size, Clients: c.Clients, Workers: c.Workers, Batch: c.Batch, Topics: c.Topics,
			Streams: c.Streams, Delay: c.Delay, HandlerTime: c.Handler, Idle: c.Idle, Progress: os.Stderr,
		}, c.Scenario)
		if err != nil {
			return err
		}
		if c.JSON {
			return printJSON(results)
		}
		return bench.Print(os.Stdout, results)
	})
}
