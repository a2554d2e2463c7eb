package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/orionjs/orion-go/cmd/pulse/internal/session"
	"github.com/orionjs/orion-go/cmd/pulse/internal/terminal"
	"github.com/orionjs/orion-go/cmd/pulse/internal/view"
	"github.com/orionjs/orion-go/pulse/admin"
)

type rolloutCommand struct {
	session.Flags `embed:""`
	Group         string `arg:"" help:"Consumer group."`
	Topic         string `arg:"" help:"Topic."`
	Step          string `help:"Ask for one step alone, version-2 or rollback: the exit status is 3 unless the answer is yes." enum:",version-2,rollback" default:"" placeholder:"STEP"`
}

// Help is the long text of `pulse rollout --help`.
func (rolloutCommand) Help() string {
	return `Tells who is connected, what is left to do in each execution version, and whether these steps can be taken:
  version-2   set executionVersion 2, or deploy a batch receiver, with a higher configVersion
  rollback    on the way back, after version 1 was set again: deploy software that does not know version 2

Who is connected is read from currentOp: the user needs the right inprog to see the connections of others. A
connection tells no group; one whose name says nothing is unknown, not old.

Example, in a deployment:
  pulse rollout billing invoice.created --step version-2`
}

// Run reports.
func (c *rolloutCommand) Run(status *int) error {
	return administer(c.Flags, func(ctx context.Context, s *session.Session, a *admin.Admin) error {
		report, err := a.Rollout(ctx, c.Group, c.Topic)
		if err != nil {
			return s.Meant(ctx, a, err, c.Group, c.Topic)
		}
		asked := map[string]admin.Verdict{"": {Answer: admin.Yes}, "version-2": report.Step2, "rollback": report.RollbackStep3}[c.Step]
		if asked.Answer != admin.Yes {
			*status = exitNo
		}
		if c.JSON {
			return printJSON(view.NewRollout(report))
		}
		return c.write(report)
	})
}

func (c *rolloutCommand) write(r admin.RolloutReport) error {
	terminal.Fields(os.Stdout,
		[2]string{"group", terminal.Clean(r.Group)}, [2]string{"topic", terminal.Clean(r.Topic)}, [2]string{"mode", mode(r.Settings)},
		[2]string{"config version", strconv.Itoa(r.Settings.ConfigVersion)},
		[2]string{"execution version", strconv.Itoa(r.Settings.ExecutionVersion)},
		[2]string{"left in version 1", count(r.Version1)},
		[2]string{"left in version 2", fmt.Sprintf("%s waiting, %s running", count(r.Version2Pending), count(r.Version2Processing))})
	if r.HalfDone.N > 0 {
		fmt.Printf("steps of version 1 that are half done: %s; a client of the group completes them\n", count(r.HalfDone))
	}
	if len(r.Clients) > 0 && c.Step != "rollback" { // what speaks against that step is in the database
		fmt.Println()
		table := terminal.NewTable(terminal.Column{Title: "CONNECTED", Least: 20}, terminal.Column{Title: "KIND"},
			terminal.Column{Title: "CONNECTIONS", Right: true}, terminal.Column{Title: "HOSTS", Least: 10})
		for _, client := range r.Clients {
			table.Row(client.AppName, string(client.Kind), strconv.Itoa(client.Connections), strings.Join(client.Hosts, ", "))
		}
		columns, _ := terminal.Width(os.Stdout)
		if err := table.Write(os.Stdout, columns); err != nil {
			return err
		}
	}
	if c.Step != "rollback" {
		writeVerdict("Can version 2 be set?", r.Step2)
	}
	if c.Step != "version-2" {
		writeVerdict("Can software be deployed that does not know version 2?", r.RollbackStep3)
	}
	return nil
}

func writeVerdict(question string, v admin.Verdict) {
	fmt.Printf("\n%s %s\n", question, strings.ToUpper(string(v.Answer)))
	for _, reason := range v.Reasons {
		fmt.Println("  " + terminal.Clean(reason))
	}
}
