// Command pulse is the operator's and developer's tool of Pulse and Echoes.
//
// Its command `dev` brings up the services that a program on Pulse needs, runs a command with them and
// stops what it started:
//
//	go run ./cmd/pulse dev -- go test ./...
//
// The commands of operators look at the subscriptions and deliveries of a database, and mend them: docs/cli.md.
package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/orionjs/orion-go/cmd/pulse/internal/devserver"
	"github.com/orionjs/orion-go/cmd/pulse/internal/terminal"
)

// The exit statuses of all commands but dev, which passes on that of its command.
const (
	exitFailure = 1 // it could not be done
	exitUsage   = 2 // the command line cannot be understood
	exitNo      = 3 // it was done, and the answer is no: nothing was changed, or findings remain
)

type cli struct {
	Subscriptions subscriptionsCommand `cmd:"" group:"Look" help:"List the groups' subscriptions: settings, cursor, lag, backlog."`
	Deliveries    deliveriesCommand    `cmd:"" group:"Look" help:"List deliveries, or show one with its attempts and payload."`
	History       historyCommand       `cmd:"" group:"Look" help:"List attempts, the newest first."`
	Tail          tailCommand          `cmd:"" group:"Look" help:"Print the events of a topic as they come."`
	Doctor        doctorCommand        `cmd:"" group:"Look" help:"Look for what is wrong, and mend what can safely be mended."`
	Rollout       rolloutCommand       `cmd:"" group:"Look" help:"Tell whether the next step of a rollout, or of its way back, can be taken."`

	Console consoleCommand `cmd:"" group:"Look" help:"Serve a web page that shows, and on request mends, what the other commands do."`

	Publish publishCommand `cmd:"" group:"Change" help:"Publish events from JSON."`
	Retry   retryCommand   `cmd:"" group:"Change" help:"Grant one more attempt to deliveries that have ended."`
	Cancel  cancelCommand  `cmd:"" group:"Change" help:"End deliveries that wait or run."`
	Pause   pauseCommand   `cmd:"" group:"Change" help:"Stop the handling of a group's topic in all replicas."`
	Resume  resumeCommand  `cmd:"" group:"Change" help:"End a pause."`

	Dev        devCommand        `cmd:"" group:"Develop" help:"Bring up MongoDB and, if asked to, Kafka, run a command with them, stop what was started."`
	Stress     stressCommand     `cmd:"" group:"Develop" help:"Show under load, over several processes, that no event is lost or handled twice."`
	Bench      benchCommand      `cmd:"" group:"Develop" help:"Measure throughput, latency, and the commands that each event costs."`
	Completion completionCommand `cmd:"" group:"Tool" help:"Print what makes a shell complete pulse's command lines."`
	Version    versionCommand    `cmd:"" group:"Tool" help:"Print the version of this program."`

	Guard    guardCommand    `cmd:"" hidden:"" help:"Internal: end a command whose pulse dev was killed."`
	Member   memberCommand   `cmd:"" hidden:"" name:"fleet-member" help:"Internal: one of the processes of a stress or a bench."`
	Complete completeCommand `cmd:"" hidden:"" name:"__complete" help:"Internal: complete a command line."`
}

func main() { os.Exit(run(os.Args[1:])) }

// run is the program: it returns the exit status.
func run(args []string) int {
	var app cli
	parser := newParser(&app)
	parsed, err := parser.Parse(args)
	if err != nil {
		complain(fmt.Sprintf("%s; see %s --help", strings.ReplaceAll(err.Error(), `one of "",`, "one of "), commandOf(err)))
		if len(args) > 0 && strings.HasPrefix(args[0], "-") {
			fmt.Fprintln(os.Stderr, "pulse: flags follow the command, as in: pulse subscriptions --database shop")
		}
		return exitUsage
	}
	status := 0
	err = parsed.Run(&status, parser)
	var usage usageError
	switch {
	case errors.As(err, &usage):
		complain(fmt.Sprintf("%v; see pulse %s --help", err, parsed.Selected().Path()))
		return exitUsage
	case err != nil:
		complain(withoutPackage(err))
		return exitFailure
	}
	return status
}

// complain prints an error. Its text may have stored names in it, or what a server says: nothing of it shall be obeyed
// by a terminal.
func complain(text string) { fmt.Fprintln(os.Stderr, "pulse: "+terminal.CleanLines(text)) }

func newParser(app *cli) *kong.Kong {
	return kong.Must(app,
		kong.Name("pulse"),
		kong.Description("Tool for developing and operating services on Pulse and Echoes."),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: helpWidth}),
		kong.Help(printHelp),
	)
}

// printHelp shows, of a command that stands for one of its own, the help of that one, which has the flags.
func printHelp(options kong.HelpOptions, ctx *kong.Context) error {
	if node := ctx.Selected(); node != nil && node.DefaultCmd != nil {
		whole, err := kong.Trace(ctx.Kong, append(strings.Fields(node.Path()), node.DefaultCmd.Name))
		if err != nil {
			return err
		}
		ctx = whole
	}
	return kong.DefaultHelpPrinter(options, ctx)
}

// helpWidth is the longest line of a help text.
const helpWidth = 110

// commandOf names the command whose help explains an error of the parser.
func commandOf(err error) string {
	var wrong *kong.ParseError
	if errors.As(err, &wrong) && wrong.Context != nil {
		if node := wrong.Context.Selected(); node != nil {
			return "pulse " + node.Path()
		}
	}
	return "pulse"
}

// usageError is a command line that is wrong in a way that only its command can tell.
type usageError string

func (e usageError) Error() string { return string(e) }

type guardCommand struct{}

// Run waits for the end of the pulse dev that started it.
func (guardCommand) Run() error { return devserver.Guard(os.Stdin) }
