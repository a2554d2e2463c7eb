// Package github turns webhook deliveries into an activity feed.
//
// The handlers are the methods of Service; echoes_gen.go, written by echoesgen, decodes their payloads and
// registers them.
package github

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/orionjs/orion-go/echoes"
)

//go:generate go tool echoesgen

// Topic returns the topic of a webhook event, as in github.push. The prefix keeps senders of webhooks, who
// choose the event's name, away from the topics of other services.
func Topic(event string) string { return "github." + event }

// Feed is where activities go. Add may be called more than once for one delivery.
type Feed interface {
	Add(ctx context.Context, a Activity) error
}

// Activity is something that happened, as a line for people.
type Activity struct {
	DeliveryID string    `bson:"_id"`
	Topic      string    `bson:"topic"`
	Repository string    `bson:"repository"`
	Actor      string    `bson:"actor"`
	Text       string    `bson:"text"`
	ReceivedAt time.Time `bson:"receivedAt"`
	// Payload is the decoded payload: *Push, *Issues, *IssueComment, *PullRequestEvent or *ReleaseEvent.
	Payload any `bson:"payload"`
}

// Service handles the events that the receiver has stored. Events of other names are stored as well, and
// wait for a service that handles them.
type Service struct{ Feed Feed }

// Pushed handles commits, and the creation and deletion of branches and tags.
//
//echoes:event topic=github.push
func (s *Service) Pushed(ctx context.Context, item echoes.Item[Push]) error {
	p := &item.Params
	name := strings.TrimPrefix(strings.TrimPrefix(p.Ref, "refs/heads/"), "refs/tags/")
	text := fmt.Sprintf("pushed %s to %s", count(len(p.Commits), "commit"), name)
	switch {
	case p.Created:
		text = "created " + name
	case p.Deleted:
		text = "deleted " + name
	case p.Forced:
		text = "force-" + text
	}
	return s.add(ctx, item.EventContext, p.Source, p, "%s", text)
}

// IssueChanged handles everything that happens to an issue itself.
//
//echoes:event topic=github.issues
func (s *Service) IssueChanged(ctx context.Context, item echoes.Item[Issues]) error {
	p := &item.Params
	return s.add(ctx, item.EventContext, p.Source, p, "%s issue #%d: %s", p.Action, p.Issue.Number, p.Issue.Title)
}

// Commented handles comments on issues and pull requests.
//
//echoes:event topic=github.issue_comment
func (s *Service) Commented(ctx context.Context, item echoes.Item[IssueComment]) error {
	p := &item.Params
	what := "issue"
	if p.Issue.PullRequest != nil {
		what = "pull request"
	}
	return s.add(ctx, item.EventContext, p.Source, p, "%s a comment on %s #%d: %s", p.Action, what, p.Issue.Number, firstLine(p.Comment.Body))
}

// PullRequestChanged handles everything that happens to a pull request itself.
//
//echoes:event topic=github.pull_request
func (s *Service) PullRequestChanged(ctx context.Context, item echoes.Item[PullRequestEvent]) error {
	p := &item.Params
	action := p.Action
	if action == "closed" && p.PullRequest.Merged {
		action = "merged"
	}
	return s.add(ctx, item.EventContext, p.Source, p, "%s pull request #%d: %s (%s into %s, +%d -%d)",
		action, p.Number, p.PullRequest.Title, p.PullRequest.Head.Label, p.PullRequest.Base.Ref, p.PullRequest.Additions, p.PullRequest.Deletions)
}

// Released handles releases.
//
//echoes:event topic=github.release
func (s *Service) Released(ctx context.Context, item echoes.Item[ReleaseEvent]) error {
	p := &item.Params
	return s.add(ctx, item.EventContext, p.Source, p, "%s release %s with %s", p.Action, p.Release.TagName, count(len(p.Release.Assets), "file"))
}

func (s *Service) add(ctx context.Context, event echoes.EventContext, source Source, payload any, format string, args ...any) error {
	a := Activity{
		DeliveryID: event.EventID,
		Topic:      event.Topic,
		Repository: source.Repository.FullName,
		Actor:      source.Sender.Login,
		Text:       fmt.Sprintf(format, args...),
		ReceivedAt: event.CreatedAt,
		Payload:    payload,
	}
	if err := s.Feed.Add(ctx, a); err != nil {
		return fmt.Errorf("add to the feed of %s: %w", a.Repository, err)
	}
	return nil
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return strings.TrimSpace(line)
}
