package main

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/orionjs/orion-go/cmd/pulse/internal/session"
	"github.com/orionjs/orion-go/cmd/pulse/internal/terminal"
	"github.com/orionjs/orion-go/cmd/pulse/internal/view"
	"github.com/orionjs/orion-go/pulse"
	"github.com/orionjs/orion-go/pulse/admin"
)

type historyCommand struct {
	session.Flags `embed:""`
	Group         string `help:"Only attempts of this consumer group." short:"g" placeholder:"NAME"`
	Topic         string `help:"Only attempts of this topic." short:"t" placeholder:"NAME"`
	Event         string `help:"Only attempts for this event; a batch is found by each of its events." placeholder:"ID"`
	Status        string `help:"Only attempts that are pending, success or error." enum:",pending,success,error" default:"" placeholder:"STATUS"`
	Lock          string `help:"Only pending attempts that are queued (nobody has them), active, or expired (their worker is lost)." enum:",queued,active,expired" default:"" placeholder:"STATE"`
	Since         moment `help:"Only attempts created since: a date, or how long ago (2h, 7d)." placeholder:"TIME"`
	Until         moment `help:"Only attempts created before." placeholder:"TIME"`
	Limit         int    `help:"Most attempts to print; 0: all." default:"50" short:"n" placeholder:"N"`
}

// Help is the long text of `pulse history --help`.
func (historyCommand) Help() string {
	return `Lists attempts, runs of a handler, the newest first: those that ended, those that run, those that wait. Of
execution version 2 the last ten of each delivery are stored.

Examples:
  pulse history --group billing --status error --since 1h
  pulse history --event 0197f2b1-7c1e-7a53-9d1c-2b6c8e1f0a44 --json`
}

// Validate is called by the parser of the command line.
func (c *historyCommand) Validate() error {
	if c.Limit < 0 {
		return errors.New("--limit must not be negative")
	}
	return c.Flags.Validate()
}

// Run lists.
func (c *historyCommand) Run() error {
	return administer(c.Flags, func(ctx context.Context, s *session.Session, a *admin.Admin) error {
		client, err := s.Publisher(ctx, "")
		if err != nil {
			return err
		}
		defer client.Close(context.WithoutCancel(ctx))
		query := pulse.HistoryQuery{
			ConsumerGroup: c.Group, Topic: c.Topic, EventID: c.Event, Status: pulse.AttemptStatus(c.Status),
			Lock: pulse.LockState(c.Lock), From: c.Since.Time, To: c.Until.Time,
		}
		if query.ConsumerGroup == "" {
			query.ConsumerGroup = pulse.AllGroups
		}
		out := newList(c.Flags,
			terminal.Column{Title: "CREATED"}, terminal.Column{Title: "GROUP", Least: 6}, terminal.Column{Title: "TOPIC", Least: 10},
			terminal.Column{Title: "DELIVERY"}, terminal.Column{Title: "N", Right: true}, terminal.Column{Title: "STATUS"},
			terminal.Column{Title: "TOOK", Right: true}, terminal.Column{Title: "ERROR", Least: 12, Most: 60})
		now := time.Now()
		listed := listing{out: out, limit: c.Limit, most: pulse.MaxHistoryLimit, group: c.Group, topic: c.Topic, event: c.Event, what: "attempt"}
		return listed.print(ctx, s, a, func(limit int) (int, bool, error) {
			query.Limit = limit
			page, err := client.History().Find(ctx, query)
			if err != nil {
				return 0, false, err
			}
			for _, a := range page.Attempts {
				if err := out.add(view.NewAttempt(a), attemptCells(a, now)...); err != nil {
					return 0, false, err
				}
			}
			query.Cursor = page.Next
			return len(page.Attempts), page.Next != "", nil
		})
	})
}

func attemptCells(a pulse.Attempt, now time.Time) []string {
	status, took, failure := string(a.Status), "", ""
	switch {
	case a.Lock == pulse.LockQueued && a.NextAttemptAt.After(now):
		status = "due " + terminal.Relative(a.NextAttemptAt, now)
	case a.Lock == pulse.LockQueued:
		status = "waiting"
	case a.Lock == pulse.LockActive:
		status = "running"
	case a.Lock == pulse.LockExpired:
		status = "lost"
	}
	if !a.EndedAt.IsZero() && a.Duration >= 0 && !a.StartedAt.IsZero() {
		took = terminal.Span(a.Duration)
	}
	if a.Error != nil {
		failure = a.Error.Code + ": " + a.Error.Message
	}
	return []string{terminal.Relative(a.CreatedAt, now), a.ConsumerGroup, a.Topic, a.DeliveryID, strconv.Itoa(a.Attempt), status, took, failure}
}
