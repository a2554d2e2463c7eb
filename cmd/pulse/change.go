package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"strings"
	"time"

	"github.com/orionjs/orion-go/cmd/pulse/internal/session"
	"github.com/orionjs/orion-go/cmd/pulse/internal/terminal"
	"github.com/orionjs/orion-go/cmd/pulse/internal/view"
	"github.com/orionjs/orion-go/pulse/admin"
)

type retryCommand struct {
	changeFlags `embed:""`
}

// Help is the long text of `pulse retry --help`.
func (retryCommand) Help() string {
	return `Shows which deliveries would be retried, and retries them after a yes. Each gets one more attempt, which is due at
once; when it fails, the delivery ends as an error again. Without --state those in error are meant. Who retried,
and why, stays with the delivery.

In an ordered topic the attempt runs out of its order.

` + changeHelp("retry")
}

// Run retries.
func (c *retryCommand) Run(status *int) error {
	return c.run(status, change{
		verb: "retry", past: "retried", states: []admin.State{admin.Failed},
		one: (*admin.Admin).Retry, many: (*admin.Admin).RetryMatching,
	})
}

type cancelCommand struct {
	changeFlags `embed:""`
}

// Help is the long text of `pulse cancel --help`.
func (cancelCommand) Help() string {
	return `Shows which deliveries would be cancelled, and ends them as errors after a yes: no attempt follows, unless pulse retry
grants one. Without --state those that wait are meant, pending and retrying ones. One that is processing loses its
lease: its handler's context ends within a third of LockTimeout, and what it returns counts for nothing.

` + changeHelp("cancel")
}

// Run cancels.
func (c *cancelCommand) Run(status *int) error {
	return c.run(status, change{
		verb: "cancel", past: "cancelled", states: []admin.State{admin.Pending, admin.Retrying},
		one: (*admin.Admin).Cancel, many: (*admin.Admin).CancelMatching,
	})
}

func changeHelp(verb string) string {
	reason := map[string]string{"retry": "the warehouse is back", "cancel": "sent by hand"}[verb]
	return strings.NewReplacer("VERB", verb, "REASON", reason).Replace(`Without --yes, and without a terminal to ask on, nothing is changed, and the exit status is 3.

Examples:
  pulse VERB 0197f2b2-0d3f-7c11-a4a0-5f3e9d7b1c02
  pulse VERB --group billing --topic invoice.created --code worker_lost --since 2h
  pulse VERB --group billing --topic invoice.created --yes --reason "REASON"`)
}

// changeFlags are those of a command that changes deliveries.
type changeFlags struct {
	session.Flags  `embed:""`
	IDs            []string `arg:"" optional:"" name:"id" help:"IDs of deliveries, in place of a filter."`
	deliveryFilter `embed:""`
	Max            int `help:"Most deliveries to change; give the command again for others." default:"1000" placeholder:"N"`
	consent        `embed:""`
}

// consent is what a command needs that changes something.
type consent struct {
	Yes    bool `help:"Do it without asking." short:"y"`
	author `embed:""`
}

// author is who changes something.
type author struct {
	By     string `help:"Who does it, stored with what is changed. Default: your user at this host." placeholder:"NAME"`
	Reason string `help:"Why, stored as well." placeholder:"TEXT"`
}

func (c author) by() admin.By {
	by := admin.By{Name: c.By, Reason: c.Reason}
	if by.Name == "" {
		by.Name = "pulse-cli"
		if u, err := user.Current(); err == nil {
			by.Name = u.Username
		}
		if host, err := os.Hostname(); err == nil {
			by.Name += "@" + host
		}
	}
	return by
}

// Validate is called by the parser of the command line.
func (c *changeFlags) Validate() error {
	filtered := c.Group != "" || c.Topic != "" || len(c.State) > 0 || c.Event != "" || c.Code != "" || !c.Since.IsZero() || !c.Until.IsZero()
	switch {
	case len(c.IDs) == 0 && !filtered:
		return errors.New("say which deliveries: their IDs, or a filter such as --group billing")
	case len(c.IDs) > 0 && filtered:
		return errors.New("give IDs or a filter, not both")
	case c.Max < 1:
		return errors.New("--max must be at least 1")
	case len(c.IDs) > c.Max:
		return fmt.Errorf("--max is %d, and there are %d IDs", c.Max, len(c.IDs))
	}
	return c.Flags.Validate()
}

// change is one kind of change of deliveries.
type change struct {
	verb, past string
	states     []admin.State // those that a filter means which names none
	one        func(*admin.Admin, context.Context, string, admin.By) (admin.Change, error)
	many       func(*admin.Admin, context.Context, admin.DeliveryQuery, admin.Bulk) (admin.Changes, error)
}

// shownBefore is how many deliveries are shown before the question.
const shownBefore = 20

func (c *changeFlags) run(status *int, ch change) error {
	return administer(c.Flags, func(ctx context.Context, s *session.Session, a *admin.Admin) error {
		matched, err := c.preview(ctx, s, a, ch)
		var missing *admin.NotFoundError
		if len(c.IDs) > 0 && errors.As(err, &missing) { // an answer, as of pulse deliveries show: nothing is changed
			*status = exitNo
			tell("%s: nothing was changed", withoutPackage(err))
			if c.JSON {
				return printJSON(view.NewChanges(admin.Changes{Errors: []error{err}}))
			}
			if text, known, err := whereIs(ctx, a, missing.Name, time.Now()); err != nil || !known {
				return err
			} else {
				tell("%s", text)
			}
			return nil
		}
		if err != nil {
			return err
		}
		if matched == 0 {
			*status = exitNo
			if c.JSON {
				return printJSON(view.Changes{})
			}
			tell("no delivery matches: nothing was changed")
			return tellWhere(ctx, a, c.Event)
		}
		agreed, err := decide(ctx, c.Yes, fmt.Sprintf("%s %s?", title(ch.verb), terminal.Plural(matched, "delivery")))
		if err != nil {
			return err
		}
		if !agreed {
			*status = exitNo
			if c.JSON {
				return printJSON(view.Changes{Matched: matched})
			}
			return nil
		}
		done, err := c.do(ctx, a, ch)
		c.report(status, ch, done)
		return err
	})
}

// preview shows what would be changed, and counts it.
func (c *changeFlags) preview(ctx context.Context, s *session.Session, a *admin.Admin, ch change) (int, error) {
	var first []admin.Delivery
	matched := len(c.IDs)
	if len(c.IDs) > 0 {
		for _, id := range c.IDs {
			d, err := a.Delivery(ctx, id)
			if err != nil {
				return 0, err
			}
			first = append(first, d.Delivery)
		}
	} else {
		query := c.query()
		dry, err := ch.many(a, ctx, query, admin.Bulk{DryRun: true, Max: c.Max})
		if err != nil {
			return 0, err
		}
		if matched = dry.Matched; matched == 0 {
			return 0, s.Known(ctx, a, c.Group, c.Topic)
		}
		if len(query.States) == 0 {
			query.States = ch.states
		}
		if !c.JSON {
			_, err = pages(shownBefore, admin.MaxLimit, func(limit int) (int, bool, error) {
				query.Limit = limit
				page, err := a.Deliveries(ctx, query)
				first, query.Cursor = append(first, page.Deliveries...), page.Next
				return len(page.Deliveries), page.Next != "", err
			})
		}
		if err != nil {
			return 0, err
		}
	}
	if c.JSON {
		return matched, nil
	}
	out := newList(c.Flags, deliveryColumns()...)
	now := time.Now()
	for _, d := range first {
		if err := out.add(nil, deliveryCells(d, now)...); err != nil {
			return 0, err
		}
	}
	if err := out.end("no delivery matches any more"); err != nil {
		return 0, err
	}
	if more := matched - len(first); more > 0 {
		fmt.Printf("and %s more\n", terminal.Number(more))
	}
	return matched, nil
}

// do changes the deliveries.
func (c *changeFlags) do(ctx context.Context, a *admin.Admin, ch change) (admin.Changes, error) {
	by := c.by()
	progress := terminal.NewProgress(os.Stderr)
	defer progress.Clear()
	if len(c.IDs) == 0 {
		return ch.many(a, ctx, c.query(), admin.Bulk{By: by, Max: c.Max, Progress: func(done admin.Changes) {
			progress.Set(done.Matched, "delivery", -1)
		}})
	}
	done := admin.Changes{Matched: len(c.IDs)}
	for _, id := range c.IDs {
		if _, err := ch.one(a, ctx, id, by); err != nil {
			if ctx.Err() != nil {
				return done, err
			}
			done.Errors = append(done.Errors, err)
			continue
		}
		done.Changed++
	}
	return done, nil
}

func (c *changeFlags) report(status *int, ch change, done admin.Changes) {
	for _, err := range done.Errors {
		tell("%s", withoutPackage(err))
	}
	if done.Changed < done.Matched {
		*status = exitFailure
	}
	if c.JSON {
		if err := printJSON(view.NewChanges(done)); err != nil {
			*status = exitFailure
		}
		return
	}
	fmt.Printf("%s %s\n", ch.past, terminal.Plural(done.Changed, "delivery"))
	if done.More {
		tell("there are more: --max ended the work; give the command again")
	}
}

func title(word string) string { return strings.ToUpper(word[:1]) + word[1:] }

// withoutPackage is the text of an error without the package that it comes from.
func withoutPackage(err error) string {
	return strings.TrimPrefix(strings.TrimPrefix(err.Error(), "pulse/admin: "), "pulse: ")
}
