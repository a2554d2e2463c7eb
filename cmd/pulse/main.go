// Command pulse is the operator's and developer's tool of Pulse and Echoes.
//
// Its command `dev` brings up the services that a program on Pulse needs, runs a command with them and
// stops what it started:
//
//	go run ./cmd/pulse dev -- go test ./...
package main

import (
	"fmt"
	"os"
	"runtime/debug"

	"github.com/alecthomas/kong"

	"github.com/orionjs/orion-go/cmd/pulse/internal/devserver"
)

// exitUsage is the status for a command line that cannot be understood.
const exitUsage = 2

type cli struct {
	Dev     devCommand     `cmd:"" help:"Bring up MongoDB and, if asked to, Kafka, run a command with them, stop what was started."`
	Stress  stressCommand  `cmd:"" help:"Show under load, over several processes, that no event is lost or handled twice."`
	Bench   benchCommand   `cmd:"" help:"Measure throughput, latency, and the commands that each event costs."`
	Version versionCommand `cmd:"" help:"Print the version of this program."`
	Guard   guardCommand   `cmd:"" hidden:"" help:"Internal: end a command whose pulse dev was killed."`
	Member  memberCommand  `cmd:"" hidden:"" name:"fleet-member" help:"Internal: one of the processes of a stress or a bench."`
}

func main() {
	var app cli
	parser := kong.Must(&app,
		kong.Name("pulse"),
		kong.Description("Tool for developing and operating services on Pulse and Echoes."),
	)
	parsed, err := parser.Parse(os.Args[1:])
	if err != nil {
		fmt.Fprintf(os.Stderr, "pulse: %v; see pulse --help\n", err)
		os.Exit(exitUsage)
	}
	status := 0
	if err := parsed.Run(&status); err != nil {
		fmt.Fprintf(os.Stderr, "pulse: %v\n", err)
		os.Exit(1)
	}
	os.Exit(status)
}

type versionCommand struct{}

// Run prints the module version, or the revision of a build from a checkout.
func (versionCommand) Run() error {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return fmt.Errorf("this binary was built without module support and does not know its version")
	}
	fmt.Println("pulse", info.Main.Version, info.GoVersion)
	return nil
}

type guardCommand struct{}

// Run waits for the end of the pulse dev that started it.
func (guardCommand) Run() error { return devserver.Guard(os.Stdin) }
