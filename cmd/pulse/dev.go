package main

import (
	"os"
	"time"

	"github.com/orionjs/orion-go/cmd/pulse/internal/devserver"
)

type devCommand struct {
	Kafka       bool          `help:"Bring up a Kafka broker, too, and set KAFKA_BROKERS."`
	Port        int           `help:"Port of the MongoDB server, at 127.0.0.1. Default: a free one." placeholder:"N"`
	Keep        bool          `help:"Keep the data in the user's cache directory; the next run with --keep finds it there."`
	ServerArg   []string      `help:"Hand this argument to the MongoDB server's command line; may be repeated. Example: --server-arg=--sync-on-commit." placeholder:"ARG" sep:"none"`
	StopTimeout time.Duration `help:"Time that the command gets to end after Ctrl-C or SIGTERM before it is killed." default:"15s"`
	Command     []string      `arg:"" optional:"" passthrough:"" help:"Command to run, after --. Without one the services stay up until Ctrl-C."`
}

// Help is the long text of `pulse dev --help`.
func (devCommand) Help() string {
	return `The command finds the server in MONGODB_URI. The first of these provides it: MONGODB_URI, if it is set
already; mongod on PATH; docker or podman, if a daemon answers; secantusd-rs on PATH or in the user's
cache directory; the same, built there once with cargo (needs cmake and a C compiler too).

The exit status is the command's, 128+n if signal n ended it, 127 or 126 if it was not found or could not
be run, 125 if pulse dev itself failed. (go run shows that status and exits with 1.)

With --kafka the command finds a Kafka broker in KAFKA_BROKERS: the one of that variable, if it is set
already, else one of its own, which needs Java 17 or newer and, to be fetched once, mvn.

Examples:
  pulse dev -- go test ./...
  pulse dev --kafka -- go run .
  pulse dev --port 27017 --keep`
}

// Run hands over to devserver; the status goes back through the pointer, because it is not an error.
func (c *devCommand) Run(status *int) error {
	*status = devserver.Run(devserver.Config{
		Port:        c.Port,
		Keep:        c.Keep,
		Kafka:       c.Kafka,
		ServerArgs:  c.ServerArg,
		StopTimeout: c.StopTimeout,
		Command:     withoutSeparator(c.Command),
		Stdin:       os.Stdin,
		Stdout:      os.Stdout,
		Stderr:      os.Stderr,
	})
	return nil
}

// withoutSeparator drops the -- in front of the command, which the parser hands on or not depending on
// what stands before it.
func withoutSeparator(args []string) []string {
	if len(args) > 0 && args[0] == "--" {
		return args[1:]
	}
	return args
}
