package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/orionjs/orion-go/cmd/pulse/internal/session"
	"github.com/orionjs/orion-go/cmd/pulse/internal/terminal"
	"github.com/orionjs/orion-go/cmd/pulse/internal/view"
	"github.com/orionjs/orion-go/pulse/admin"
)

type subscriptionsCommand struct {
	List subscriptionsList `cmd:"" default:"withargs" help:"List subscriptions. The default."`
	Show subscriptionsShow `cmd:"" help:"Show one subscription with all of its settings."`
}

type subscriptionsList struct {
	session.Flags `embed:""`
	Group         string `help:"Only those of this consumer group." short:"g" placeholder:"NAME"`
	Topic         string `help:"Only those to this topic." short:"t" placeholder:"NAME"`
}

// Help is the long text of `pulse subscriptions --help`.
func (subscriptionsList) Help() string {
	return `Each line is what a group has not finished of a topic:
  LAG      age of the oldest event that is not finished
  BEHIND   events behind the cursor: nobody has made deliveries of them yet
  WAITING, RETRYING, RUNNING   deliveries that are not finished
  FAILED   deliveries that ended with an error and are kept
  SCHEDULED   events of the topic that were published for a later time, and when the next is due; shown when there are any
Numbers are counted up to 10,000; a + stands for more. Of the scheduled events of all topics the next 10,000 are counted.`
}

// Run lists.
func (c *subscriptionsList) Run() error {
	return administer(c.Flags, func(ctx context.Context, s *session.Session, a *admin.Admin) error {
		subs, err := a.Subscriptions(ctx, admin.SubscriptionQuery{Group: c.Group, Topic: c.Topic})
		if err != nil {
			return err
		}
		if len(subs) == 0 {
			if err := s.Known(ctx, a, c.Group, c.Topic); err != nil {
				return err
			}
		}
		scheduled, err := a.Scheduled(ctx)
		if err != nil {
			return err
		}
		some := slices.ContainsFunc(subs, func(sub admin.Subscription) bool {
			n, _ := scheduled.Topic(sub.Topic)
			return n != admin.Count{}
		})
		right := func(title string) terminal.Column { return terminal.Column{Title: title, Right: true} }
		columns := []terminal.Column{
			{Title: "GROUP", Least: 8},
			{Title: "TOPIC", Least: 10},
			{Title: "MODE"},
			{Title: "STATE"},
			right("LAG"), right("BEHIND"), right("WAITING"), right("RETRYING"), right("RUNNING"), right("FAILED"),
		}
		if some {
			columns = append(columns, terminal.Column{Title: "SCHEDULED"})
		}
		out, now := newList(c.Flags, columns...), time.Now()
		for _, sub := range subs {
			b := sub.Backlog
			n, next := scheduled.Topic(sub.Topic)
			err := out.add(view.NewSubscription(sub, n, next), sub.Group, sub.Topic, mode(sub.Settings), subscriptionState(sub), lag(b),
				count(b.Undiscovered), count(b.Pending), count(b.Retrying), count(b.Processing), count(b.Failed), waits(n, terminal.Relative(next, now)))
			if err != nil {
				return err
			}
		}
		return out.end("the database " + s.Flags.Database + " has no subscriptions: they appear when a service starts")
	})
}

type subscriptionsShow struct {
	session.Flags `embed:""`
	Group         string `arg:"" help:"Consumer group."`
	Topic         string `arg:"" help:"Topic."`
}

// Help is the long text of `pulse subscriptions show --help`.
func (subscriptionsShow) Help() string {
	return `Shows the settings that are stored, the same for all replicas. MaxConcurrency, MaxRetryDelay, RetryJitter, HandlerTimeout
and RateLimit are those of each process, and no tool sees them: Client.Subscriptions lists them there.`
}

// Run shows.
func (c *subscriptionsShow) Run() error {
	return administer(c.Flags, func(ctx context.Context, s *session.Session, a *admin.Admin) error {
		subs, err := a.Subscriptions(ctx, admin.SubscriptionQuery{Group: c.Group, Topic: c.Topic})
		if err != nil {
			return err
		}
		if len(subs) == 0 {
			return s.Known(ctx, a, c.Group, c.Topic)
		}
		scheduled, err := a.Scheduled(ctx)
		if err != nil {
			return err
		}
		n, next := scheduled.Topic(c.Topic)
		if c.JSON {
			return printJSON(view.NewSubscription(subs[0], n, next))
		}
		now := time.Now()
		writeSubscription(subs[0], waits(n, terminal.Both(next, now)), now)
		return nil
	})
}

// waits tells how many events wait for a later time, and when the next is due; empty for none.
func waits(n admin.Count, next string) string {
	switch {
	case n == admin.Count{}:
		return ""
	case next == "":
		return count(n)
	}
	return count(n) + ", next " + next
}

func writeSubscription(sub admin.Subscription, scheduled string, now time.Time) {
	set, b := sub.Settings, sub.Backlog
	cursor := "at the very beginning"
	if !sub.Cursor.Time.IsZero() {
		cursor = terminal.Both(sub.Cursor.Time, now)
		if sub.Cursor.EventID != "" {
			cursor += ", event " + terminal.Clean(sub.Cursor.EventID)
		}
	}
	done := func(p *admin.Pause) string {
		if p == nil {
			return ""
		}
		return byWhom(p.By) + ", " + terminal.Both(p.At, now)
	}
	terminal.Fields(os.Stdout,
		[2]string{"group", terminal.Clean(sub.Group)}, [2]string{"topic", terminal.Clean(sub.Topic)}, [2]string{"state", subscriptionState(sub)},
		[2]string{"paused", done(sub.Paused)}, [2]string{"resumed", done(sub.Resumed)},
		[2]string{"leader", held(sub.Leader, now)}, [2]string{"order held by", held(sub.OrderHolder, now)},
		[2]string{"cursor", cursor},
		[2]string{"created", terminal.Both(sub.CreatedAt, now)}, [2]string{"updated", terminal.Both(sub.UpdatedAt, now)})
	fmt.Println("\nSettings")
	terminal.Fields(os.Stdout,
		[2]string{"  mode", mode(set)}, [2]string{"  config version", strconv.Itoa(set.ConfigVersion)},
		[2]string{"  execution version", strconv.Itoa(set.ExecutionVersion)}, [2]string{"  delivery", set.Delivery},
		[2]string{"  retries", fmt.Sprintf("%d, after %s, each pause %g times the one before", set.MaxRetries, terminal.Span(set.RetryDelay), set.RetryBackoffMultiplier)},
		[2]string{"  began at", set.OffsetReset})
	fmt.Println("\nBacklog")
	terminal.Fields(os.Stdout,
		[2]string{"  lag", lag(b)}, [2]string{"  oldest event", terminal.Both(b.OldestPending, now)},
		[2]string{"  events behind the cursor", count(b.Undiscovered)}, [2]string{"  deliveries waiting", count(b.Pending)},
		[2]string{"  retrying", count(b.Retrying)}, [2]string{"  running", count(b.Processing)}, [2]string{"  failed", count(b.Failed)},
		[2]string{"  scheduled for later", scheduled})
}

func mode(s admin.Settings) string {
	switch {
	case s.ReceiverMode == "batch":
		return fmt.Sprintf("batches of %d", s.BatchSize)
	case s.Ordered:
		return "ordered"
	}
	return fmt.Sprintf("single v%d", s.ExecutionVersion)
}

func subscriptionState(sub admin.Subscription) string {
	switch {
	case sub.Paused != nil:
		return "paused"
	case sub.Leader.Held:
		return "served"
	}
	return "unserved"
}

func lag(b admin.Backlog) string {
	if b.OldestPending.IsZero() {
		return "0s"
	}
	return terminal.Span(time.Duration(b.LagSeconds * float64(time.Second)).Round(time.Second / 10))
}

func count(c admin.Count) string {
	if c.AtLeast {
		return terminal.Number(c.N) + "+"
	}
	return terminal.Number(c.N)
}

func held(h admin.Holder, now time.Time) string {
	switch {
	case h.Owner == "":
		return "" // nobody ever
	case h.Held:
		return terminal.Clean(h.Owner) + ", until " + terminal.Both(h.Until, now)
	}
	return "nobody; " + terminal.Clean(h.Owner) + " until " + terminal.Both(h.Until, now)
}

func byWhom(by admin.By) string {
	if by.Reason == "" {
		return "by " + terminal.Clean(by.Name)
	}
	return "by " + terminal.Clean(by.Name) + ": " + terminal.Clean(by.Reason)
}
