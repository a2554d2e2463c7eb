package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/orionjs/orion-go/cmd/pulse/internal/session"
	"github.com/orionjs/orion-go/cmd/pulse/internal/terminal"
	"github.com/orionjs/orion-go/cmd/pulse/internal/view"
	"github.com/orionjs/orion-go/pulse/admin"
)

type tailCommand struct {
	session.Flags `embed:""`
	Topic         string `arg:"" help:"Topic."`
	Since         moment `help:"Begin with the events that were stored since: a date, or how long ago (2h, 7d). Default: those from now on." placeholder:"TIME"`
	NoFollow      bool   `help:"End with the last event that is stored; without --since print all that are."`
	Limit         int    `help:"End after so many events; 0: never." short:"n" placeholder:"N"`
	NoPayload     bool   `help:"Leave the events' data out."`
}

// Help is the long text of `pulse tail --help`.
func (tailCommand) Help() string {
	return `Prints events in their order, one a line, until Ctrl-C. It takes part in no group and changes nothing. An event that was
published for a later time comes when that has come, with "not before"; pulse deliveries --event tells of one that waits.

Examples:
  pulse tail invoice.created
  pulse tail invoice.created --since 1h --no-follow --json > invoices.ndjson`
}

// Validate is called by the parser of the command line.
func (c *tailCommand) Validate() error {
	if c.Limit < 0 {
		return errors.New("--limit must not be negative")
	}
	return c.Flags.Validate()
}

// errEnough ends a tail that has printed what was asked for.
var errEnough = errors.New("enough")

// Run follows.
func (c *tailCommand) Run() error {
	return administer(c.Flags, func(ctx context.Context, s *session.Session, a *admin.Admin) error {
		printed := 0
		each := func(e admin.Event) error {
			if err := c.print(e); err != nil {
				return err
			}
			if printed++; printed == c.Limit {
				return errEnough
			}
			return nil
		}
		var err error
		if c.NoFollow {
			if err = a.Scan(ctx, c.Topic, c.Since.Time, each); err == nil {
				err = c.tellRest(ctx, a, printed)
			}
		} else {
			var unknown *session.UnknownError
			if errors.As(s.Known(ctx, a, "", c.Topic), &unknown) {
				tell("%v; waiting for events all the same", unknown)
			}
			err = a.Tail(ctx, c.Topic, c.Since.Time, each)
		}
		if errors.Is(err, errEnough) || ctx.Err() != nil && !c.NoFollow {
			return nil // Ctrl-C is how one stops looking
		}
		return err
	})
}

// tellRest says, at the end of a topic, what is not there: nothing was printed, or events wait for a later time.
func (c *tailCommand) tellRest(ctx context.Context, a *admin.Admin, printed int) error {
	scheduled, err := a.Scheduled(ctx)
	if err != nil {
		return err
	}
	if printed == 0 {
		tell("no event of the topic %s is stored that has been published", c.Topic)
	}
	if n, next := scheduled.Topic(c.Topic); n.N > 0 {
		tell("published for a later time: %s", waits(n, terminal.Both(next, time.Now())))
	}
	return nil
}

func (c *tailCommand) print(e admin.Event) error {
	if c.NoPayload {
		e.Data = noData
	}
	if c.JSON {
		return lines().Encode(view.NewEvent(e))
	}
	parts := []string{terminal.Exact(e.CreatedAt), terminal.Clean(e.ID)}
	if !e.NotBefore.IsZero() {
		parts = append(parts, "not before "+terminal.Exact(e.NotBefore))
	}
	for _, key := range slices.Sorted(maps.Keys(e.Headers)) {
		parts = append(parts, terminal.Clean(key+"="+e.Headers[key]))
	}
	if data := view.Data(e.Data); data != nil {
		parts = append(parts, terminal.Clean(string(data)))
	}
	_, err := fmt.Println(strings.Join(parts, "  "))
	return err
}
