package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/orionjs/orion-go/cmd/pulse/internal/session"
	"github.com/orionjs/orion-go/cmd/pulse/internal/terminal"
	"github.com/orionjs/orion-go/cmd/pulse/internal/view"
	"github.com/orionjs/orion-go/pulse/admin"
)

type deliveriesCommand struct {
	List deliveriesList `cmd:"" default:"withargs" help:"List deliveries. The default."`
	Show deliveriesShow `cmd:"" help:"Show one delivery with its attempts and payload."`
}

// deliveryFilter selects deliveries, the same for all commands that take one.
type deliveryFilter struct {
	Group string   `help:"Of this consumer group." short:"g" placeholder:"NAME" group:"Which deliveries"`
	Topic string   `help:"Of this topic." short:"t" placeholder:"NAME" group:"Which deliveries"`
	State []string `help:"In this state: pending (waits for its first attempt), retrying (waits for another), processing, success, error. May be repeated, or separated by commas." short:"s" placeholder:"STATE" enum:"pending,retrying,processing,success,error" group:"Which deliveries"`
	Event string   `help:"Of this event; a batch is found by each of its events." placeholder:"ID" group:"Which deliveries"`
	Code  string   `help:"Whose last attempt failed with this code: handler_error, decode_error, event_expired, worker_lost, ..." placeholder:"CODE" group:"Which deliveries"`
	Since moment   `help:"Whose event was published since: a date, or how long ago (2h, 7d)." placeholder:"TIME" group:"Which deliveries"`
	Until moment   `help:"Whose event was published before." placeholder:"TIME" group:"Which deliveries"`
}

func (f deliveryFilter) query() admin.DeliveryQuery {
	q := admin.DeliveryQuery{Group: f.Group, Topic: f.Topic, EventID: f.Event, ErrorCode: f.Code, From: f.Since.Time, To: f.Until.Time}
	for _, s := range f.State {
		q.States = append(q.States, admin.State(s))
	}
	return q
}

type deliveriesList struct {
	session.Flags  `embed:""`
	deliveryFilter `embed:""`
	Limit          int `help:"Most deliveries to print; 0: all." default:"50" short:"n" placeholder:"N"`
}

// Help is the long text of `pulse deliveries --help`.
func (deliveriesList) Help() string {
	return `Lists deliveries of both execution versions, those of the newest events first.

Examples:
  pulse deliveries --group billing --state error
  pulse deliveries --group billing --topic invoice.created --state error --code decode_error --since 1d --json
  pulse deliveries --event 0197f2b1-7c1e-7a53-9d1c-2b6c8e1f0a44
  pulse deliveries show 0197f2b2-0d3f-7c11-a4a0-5f3e9d7b1c02`
}

// Validate is called by the parser of the command line.
func (c *deliveriesList) Validate() error {
	if c.Limit < 0 {
		return errors.New("--limit must not be negative")
	}
	return c.Flags.Validate()
}

// Run lists.
func (c *deliveriesList) Run() error {
	return administer(c.Flags, func(ctx context.Context, s *session.Session, a *admin.Admin) error {
		out := newList(c.Flags, deliveryColumns()...)
		now := time.Now()
		query := c.query()
		listed := listing{out: out, limit: c.Limit, most: admin.MaxLimit, group: c.Group, topic: c.Topic, event: c.Event, what: "delivery"}
		return listed.print(ctx, s, a, func(limit int) (int, bool, error) {
			query.Limit = limit
			page, err := a.Deliveries(ctx, query)
			if err != nil {
				return 0, false, err
			}
			for _, d := range page.Deliveries {
				if err := out.add(view.NewDelivery(d), deliveryCells(d, now)...); err != nil {
					return 0, false, err
				}
			}
			query.Cursor = page.Next
			return len(page.Deliveries), page.Next != "", nil
		})
	})
}

func deliveryColumns() []terminal.Column {
	return []terminal.Column{
		{Title: "PUBLISHED"},
		{Title: "GROUP", Least: 6},
		{Title: "TOPIC", Least: 10},
		{Title: "DELIVERY"},
		{Title: "EVENTS", Right: true},
		{Title: "STATE"},
		{Title: "ATTEMPT", Right: true},
		{Title: "ERROR", Least: 12, Most: 60},
	}
}

func deliveryCells(d admin.Delivery, now time.Time) []string {
	failure := ""
	if d.Error != nil {
		failure = d.Error.Code + ": " + d.Error.Message
	}
	return []string{
		terminal.Relative(d.EventCreatedAt, now), d.Group, d.Topic, d.ID, strconv.Itoa(max(len(d.EventIDs), 1)),
		deliveryState(d, now), strconv.Itoa(d.Attempt), failure,
	}
}

// deliveryState is the state with what an operator wants to know beside it.
func deliveryState(d admin.Delivery, now time.Time) string {
	switch {
	case d.State == admin.Processing && d.LeaseEnded:
		return "processing, lost"
	case d.State == admin.Retrying && d.NextAttemptAt.After(now):
		return "retrying " + terminal.Relative(d.NextAttemptAt, now)
	}
	return string(d.State)
}

type deliveriesShow struct {
	session.Flags `embed:""`
	ID            string `arg:"" name:"id" help:"ID of the delivery."`
	NoPayload     bool   `help:"Leave the events' data out."`
}

// Help is the long text of `pulse deliveries show --help`.
func (deliveriesShow) Help() string {
	return fmt.Sprintf(`Shows a delivery with its attempts (of execution version 2 the last ten) and its events. Payloads are relaxed
Extended JSON, as pulse publish reads it. Of a batch the first %d events are shown.`, admin.MaxEvents)
}

// Run shows.
func (c *deliveriesShow) Run(status *int) error {
	return administer(c.Flags, func(ctx context.Context, _ *session.Session, a *admin.Admin) error {
		d, err := a.Delivery(ctx, c.ID)
		var missing *admin.NotFoundError
		if errors.As(err, &missing) {
			*status = exitNo
			return c.explain(ctx, a)
		}
		if err != nil {
			return err
		}
		if c.NoPayload {
			for i := range d.Events {
				d.Events[i].Data = noData
			}
		}
		if c.JSON {
			return printJSON(view.NewDeliveryDetail(d))
		}
		writeDelivery(d, c.NoPayload, time.Now())
		return nil
	})
}

// explain says why there is no such delivery: the ID may be that of an event.
func (c *deliveriesShow) explain(ctx context.Context, a *admin.Admin) error {
	of, err := a.Deliveries(ctx, admin.DeliveryQuery{EventID: c.ID})
	if err != nil {
		return err
	}
	if len(of.Deliveries) > 0 {
		tell("%s is the ID of an event: pulse deliveries --event lists its deliveries", c.ID)
		return nil
	}
	text, known, err := whereIs(ctx, a, c.ID, time.Now())
	if err != nil {
		return err
	}
	if !known {
		text = fmt.Sprintf("there is no delivery %s: it may have been deleted when its retention ended; pulse deliveries --event finds one by its event", c.ID)
	}
	tell("%s", text)
	return nil
}
