package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/signal"
	"syscall"

	"github.com/orionjs/orion-go/cmd/pulse/internal/stress"
	"github.com/orionjs/orion-go/cmd/pulse/internal/testbed"
)

type stressCommand struct {
	Scale    float64  `help:"Multiply the number of events of each scenario; 0.01 takes seconds." default:"1" placeholder:"F"`
	Scenario []string `help:"Play only these scenarios: backlog, rollout, retry, concurrent, mixed." placeholder:"NAME"`
	JSON     bool     `help:"Print the results as JSON."`
}

// Help is the long text of `pulse stress --help`.
func (stressCommand) Help() string {
	return `Publishes 70,000 events in five scenarios, has them handled by processes of their own, and compares what
the handlers recorded with what was published: nothing lost, nothing handled twice, nothing left behind.
Any violation is listed, and the exit status is 1.

The server is that of MONGODB_URI or, without it, one that is started for the run, as pulse dev does. Every
scenario has a database of its own, which is dropped at the end.

Examples:
  pulse stress
  pulse stress --scale 0.01 --json`
}

// Run plays the scenarios; that promises were broken is a status, with the table, and no error of the run.
func (c *stressCommand) Run(status *int) error {
	if c.Scale <= 0 {
		return errors.New("--scale must be more than 0")
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

// onTestbed runs f with a server until Ctrl-C, and cleans up then too.
func onTestbed(f func(context.Context, *testbed.Bed) error) (err error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	bed, err := testbed.Open(ctx, os.Getenv("MONGODB_URI"), os.Stderr)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, bed.Close()) }()
	return f(ctx, bed)
}

func printJSON(v any) error {
	out := json.NewEncoder(os.Stdout)
	out.SetIndent("", "  ")
	return out.Encode(v)
}
