package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/orionjs/orion-go/cmd/pulse/internal/session"
	"github.com/orionjs/orion-go/cmd/pulse/internal/terminal"
	"github.com/orionjs/orion-go/cmd/pulse/internal/view"
	"github.com/orionjs/orion-go/pulse/admin"
)

type pauseCommand struct {
	session.Flags `embed:""`
	Group         string `arg:"" help:"Consumer group."`
	Topic         string `arg:"" help:"Topic."`
	consent       `embed:""`
}

// Help is the long text of `pulse pause --help`.
func (pauseCommand) Help() string {
	return `Running replicas notice within a poll (3 s by default): running handlers finish, no other one starts. Events become
deliveries as always, and wait. The pause is stored: it outlasts restarts, until pulse resume. Retention goes on:
resume before events end.

Clients of Node do not see the pause and go on.

Without --yes, and without a terminal to ask on, nothing is changed, and the exit status is 3.`
}

// Run pauses.
func (c *pauseCommand) Run(status *int) error {
	return administer(c.Flags, func(ctx context.Context, s *session.Session, a *admin.Admin) error {
		subs, err := a.Subscriptions(ctx, admin.SubscriptionQuery{Group: c.Group, Topic: c.Topic, CountLimit: -1})
		if err == nil && len(subs) == 0 {
			err = s.Known(ctx, a, c.Group, c.Topic)
		}
		if err != nil {
			return err
		}
		for _, sub := range subs {
			if sub.Leader.Held && !strings.HasPrefix(sub.Leader.Owner, "go:") {
				tell("the topic is led by a client of Node, which does not see pauses and will go on")
			}
		}
		agreed, err := decide(ctx, c.Yes, fmt.Sprintf("Pause %s of %s in all replicas?", terminal.Clean(c.Topic), terminal.Clean(c.Group)))
		if err != nil || !agreed {
			*status = exitNo
			return err
		}
		changed, err := a.Pause(ctx, c.Group, c.Topic, c.by())
		return reportPause(status, c.Flags, c.Group, c.Topic, "paused", changed, s.Meant(ctx, a, err, c.Group, c.Topic))
	})
}

type resumeCommand struct {
	session.Flags `embed:""`
	Group         string `arg:"" help:"Consumer group."`
	Topic         string `arg:"" help:"Topic."`
	author        `embed:""`
}

// Help is the long text of `pulse resume --help`.
func (resumeCommand) Help() string {
	return `Running replicas notice within a poll (3 s by default), and go on with all that waits. pulse subscriptions show tells who
resumed, when and why, until the next pause.`
}

// Run resumes.
func (c *resumeCommand) Run(status *int) error {
	return administer(c.Flags, func(ctx context.Context, s *session.Session, a *admin.Admin) error {
		changed, err := a.Resume(ctx, c.Group, c.Topic, c.by())
		return reportPause(status, c.Flags, c.Group, c.Topic, "resumed", changed, s.Meant(ctx, a, err, c.Group, c.Topic))
	})
}

// reportPause tells what became of a pause or its end.
func reportPause(status *int, flags session.Flags, group, topic, word string, changed bool, err error) error {
	if err != nil {
		return err
	}
	if !changed {
		*status = exitNo
	}
	switch {
	case flags.JSON:
		return printJSON(view.PauseChange{ConsumerGroup: group, Topic: topic, Changed: changed})
	case changed:
		fmt.Printf("%s %s of %s: running replicas notice within a poll\n", word, terminal.Clean(topic), terminal.Clean(group))
	case word == "paused":
		tell("%s of %s was paused already: pulse subscriptions show tells by whom", topic, group)
	default:
		tell("%s of %s was not paused", topic, group)
	}
	return nil
}
