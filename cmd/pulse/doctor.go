package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/orionjs/orion-go/cmd/pulse/internal/session"
	"github.com/orionjs/orion-go/cmd/pulse/internal/terminal"
	"github.com/orionjs/orion-go/cmd/pulse/internal/view"
	"github.com/orionjs/orion-go/pulse/admin"
)

type doctorCommand struct {
	session.Flags `embed:""`
	Group         string `help:"Only subscriptions of this consumer group." short:"g" placeholder:"NAME"`
	Topic         string `help:"Only subscriptions to this topic." short:"t" placeholder:"NAME"`
	Fix           bool   `help:"Mend what can safely be mended: missing indexes, leases of lost workers, steps that are half done, what nobody would claim."`
	Yes           bool   `help:"Mend without asking." short:"y"`
}

// Help is the long text of `pulse doctor --help`.
func (doctorCommand) Help() string {
	return `Looks at the indexes, the clocks, the leases, the retention, the cursors and the documents. Each finding says where it
is, what it means, and what to do; --fix does so for those marked as fixable.

Findings are problems, warnings or notes. The exit status is 3 while there are problems or warnings that are not mended.
Running replicas mend much by themselves: look again after a few minutes.`
}

// Validate is called by the parser of the command line.
func (c *doctorCommand) Validate() error {
	if c.Yes && !c.Fix {
		return errors.New("--yes is the answer to what --fix asks: give both, or none")
	}
	return c.Flags.Validate()
}

// Run examines.
func (c *doctorCommand) Run(status *int) error {
	return administer(c.Flags, func(ctx context.Context, s *session.Session, a *admin.Admin) error {
		if err := s.Known(ctx, a, c.Group, c.Topic); err != nil {
			return err
		}
		examine := func(fix bool) (admin.Report, error) {
			return a.Doctor(ctx, admin.DoctorOptions{Group: c.Group, Topic: c.Topic, Fix: fix})
		}
		report, err := examine(false)
		if err != nil {
			return err
		}
		if report.Subscriptions == 0 {
			tell("%s; pulse doctor --fix would create the indexes here", s.NoSubscription())
		}
		fixable := 0
		for _, f := range report.Findings {
			if f.Fixable {
				fixable++
			}
		}
		if c.Fix && fixable > 0 {
			if !c.JSON && !c.Yes {
				writeFindings(report.Findings)
				fmt.Println()
			}
			agreed, err := decide(ctx, c.Yes, fmt.Sprintf("Mend %s?", terminal.Plural(fixable, "finding")))
			if err != nil {
				return err
			}
			if agreed {
				if report, err = examine(true); err != nil {
					return err
				}
			}
		}
		if !report.Healthy() {
			*status = exitNo
		}
		if c.JSON {
			return printJSON(view.NewReport(report))
		}
		if len(report.Findings) == 0 {
			fmt.Printf("nothing is wrong; %s examined\n", terminal.Plural(report.Subscriptions, "subscription"))
			return nil
		}
		writeFindings(report.Findings)
		return nil
	})
}

func writeFindings(findings []admin.Finding) {
	for i, f := range findings {
		if i > 0 {
			fmt.Println()
		}
		mark := ""
		switch {
		case f.Fixed:
			mark = " [mended]"
		case f.Fixable:
			mark = " [fixable]"
		}
		fmt.Printf("%s  %s  %s%s\n", strings.ToUpper(string(f.Severity)), f.Check, terminal.Clean(f.Where), mark)
		fmt.Println("  " + terminal.Clean(f.Text))
		if !f.Fixed && f.Remedy != "" {
			fmt.Println("  -> " + terminal.Clean(f.Remedy))
		}
	}
}
