package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/orionjs/orion-go/internal/spelling"
	"github.com/orionjs/orion-go/pulse/admin"
)

// Admin returns what looks into the session's database and acts on it.
func (s *Session) Admin() (*admin.Admin, error) {
	return admin.New(s.DB, admin.Config{CollectionPrefix: s.Flags.Prefix, Timeout: s.Flags.Timeout})
}

// UnknownError says that a group or a topic has no subscription.
type UnknownError struct{ text string }

func (e *UnknownError) Error() string { return e.text }

// Known returns an *UnknownError if no subscription has the group, the topic, or both together, whichever are given.
// It says what was probably meant.
func (s *Session) Known(ctx context.Context, a *admin.Admin, group, topic string) error {
	if group == "" && topic == "" {
		return nil
	}
	subs, err := a.Subscriptions(ctx, admin.SubscriptionQuery{CountLimit: -1})
	if err != nil {
		return err
	}
	var groups, topics, ofGroup []string
	for _, sub := range subs {
		groups, topics = append(groups, sub.Group), append(topics, sub.Topic)
		if sub.Group == group {
			ofGroup = append(ofGroup, sub.Topic)
		}
	}
	where := s.where()
	switch {
	case len(subs) == 0:
		return &UnknownError{s.NoSubscription()}
	case group != "" && !slices.Contains(groups, group):
		return unknown("consumer group", group, groups, where)
	case topic != "" && group == "" && !slices.Contains(topics, topic):
		return unknown("subscribed topic", topic, topics, where)
	case topic != "" && group != "" && !slices.Contains(ofGroup, topic):
		return unknown("subscription of the group "+group+" to the topic", topic, ofGroup, where)
	}
	return nil
}

// where names the place that is looked at.
func (s *Session) where() string {
	return fmt.Sprintf("the database %s (prefix %s)", s.Flags.Database, s.Flags.Prefix)
}

// NoSubscription says that there is none, which may mean that it is the wrong place.
func (s *Session) NoSubscription() string {
	return s.where() + " has no subscription: is it the right one? Subscriptions appear when a service starts"
}

// Meant replaces a *admin.NotFoundError by what Known says.
func (s *Session) Meant(ctx context.Context, a *admin.Admin, err error, group, topic string) error {
	var missing *admin.NotFoundError
	if !errors.As(err, &missing) {
		return err
	}
	return cmp.Or(s.Known(ctx, a, group, topic), err)
}

// mostNames is how many names an error lists.
const mostNames = 10

func unknown(what, name string, names []string, where string) error {
	names = slices.Compact(slices.Sorted(slices.Values(names)))
	text := fmt.Sprintf("%s has no %s %q", where, what, name)
	if near, ok := spelling.Nearest(name, names); ok {
		return &UnknownError{fmt.Sprintf("%s: did you mean %s?", text, near)}
	}
	more := ""
	if len(names) > mostNames {
		more = fmt.Sprintf(" and %d more", len(names)-mostNames)
		names = names[:mostNames]
	}
	return &UnknownError{fmt.Sprintf("%s; there are: %s%s", text, strings.Join(names, ", "), more)}
}
