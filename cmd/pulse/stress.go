package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/orionjs/orion-go/cmd/pulse/internal/soak"
	"github.com/orionjs/orion-go/cmd/pulse/internal/stress"
	"github.com/orionjs/orion-go/cmd/pulse/internal/testbed"
)

type stressCommand struct {
	Scale    float64       `help:"Multiply the number of events of each scenario; 0.01 takes seconds. Default: 1." placeholder:"F"`
	Scenario []string      `help:"Play only these scenarios: backlog, rollout, retry, concurrent, mixed." placeholder:"NAME" enum:"backlog,rollout,retry,concurrent,mixed"`
	Soak     time.Duration `help:"Instead, publish and handle for so long while random faults hit the processes." placeholder:"TIME"`
	Seed     uint64        `help:"Seed of the faults of --soak, which replays their plan. Default: another one each time." placeholder:"N"`
	Rate     float64       `help:"Events that --soak publishes in a second. Default: 100." placeholder:"N"`
	Logs     string        `help:"Write the logs of the processes of --soak into this directory." placeholder:"DIR" type:"existingdir"`
	JSON     bool          `help:"Print the results as JSON."`
}

// Help is the long text of `pulse stress --help`.
func (stressCommand) Help() string {
	return `Publishes 70,000 events in five scenarios, has them handled by processes of their own, and compares what
the handlers recorded with what was published: nothing lost, nothing handled twice, nothing left behind.
Any violation is listed, and the exit status is 1.

The server is that of MONGODB_URI or, without it, one that is started for the run, as pulse dev does. Every
scenario has a database of its own, which is dropped at the end.

With --soak the processes are killed, frozen and cut off while they work. Events that are handled twice are then
told apart: those whose process was hit in between, before it could store the outcome, are no violation. Order is
checked, and how long it took after each fault until all earlier events were handled is reported.

Examples:
  pulse stress
  pulse stress --scale 0.01 --json
  pulse stress --soak 10m
  pulse stress --soak 1m --seed 7`
}

// Validate is called by the parser of the command line.
func (c *stressCommand) Validate() error {
	switch {
	case c.Scale < 0 || c.Rate < 0 || c.Soak < 0:
		return errors.New("--scale, --rate and --soak must be more than 0")
	case c.Soak > 0 && (c.Scale > 0 || len(c.Scenario) > 0):
		return errors.New("--soak plays no scenario: leave out --scale and --scenario")
	case c.Soak == 0 && (c.Seed > 0 || c.Rate > 0 || c.Logs != ""):
		return errors.New("--seed, --rate and --logs belong to --soak")
	}
	return nil
}

// Run plays the scenarios; that promises were broken is a status, with the table, and no error of the run.
func (c *stressCommand) Run(status *int) error {
	if c.Soak > 0 {
		return c.soak(status)
	}
	if c.Scale == 0 {
		c.Scale = 1
	}
	return onTestbed(func(ctx context.Context, bed *testbed.Bed) error {
		results, err := stress.Run(ctx, bed, c.Scale, c.Scenario, os.Stderr)
		if err != nil {
			return err
		}
		if stress.Violated(results) {
			*status = 1
		}
		if c.JSON {
			return printJSON(results)
		}
		return stress.Print(os.Stdout, results)
	})
}

func (c *stressCommand) soak(status *int) error {
	if c.Seed == 0 {
		c.Seed = uint64(time.Now().UnixNano() % 1_000_000)
	}
	if c.Rate == 0 {
		c.Rate = 100
	}
	return onTestbed(func(ctx context.Context, bed *testbed.Bed) error {
		fmt.Fprintf(os.Stderr, "pulse stress: %s with faults; --seed %d plans the same ones again\n", c.Soak, c.Seed)
		result, err := soak.Run(ctx, soak.Config{Bed: bed, Total: c.Soak, Seed: c.Seed, Rate: c.Rate, Logs: c.Logs, Progress: os.Stderr})
		if err != nil {
			return err
		}
		if len(result.Violations) > 0 {
			*status = 1
		}
		if c.JSON {
			return printJSON(result)
		}
		return soak.Print(os.Stdout, result)
	})
}

// onTestbed runs f with a server until Ctrl-C, and cleans up then too.
func onTestbed(f func(context.Context, *testbed.Bed) error) (err error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	bed, err := testbed.Open(ctx, os.Getenv("MONGODB_URI"), os.Stderr)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, bed.Close()) }()
	err = f(ctx, bed)
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("interrupted: %w", err)
	}
	return err
}

func printJSON(v any) error {
	out := json.NewEncoder(os.Stdout)
	out.SetIndent("", "  ")
	return out.Encode(v)
}
