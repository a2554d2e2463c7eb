package main

import (
	"context"
	"fmt"
	"time"

	"github.com/orionjs/orion-go/cmd/pulse/internal/terminal"
	"github.com/orionjs/orion-go/pulse/admin"
)

// whereIs answers where an event is of which no delivery was found; known is false when no event has the ID.
func whereIs(ctx context.Context, a *admin.Admin, id string, now time.Time) (text string, known bool, err error) {
	found, err := a.Events(ctx, id)
	if err != nil {
		return "", false, err
	}
	e := found[0]
	switch {
	case e.Gone:
		return fmt.Sprintf("no event %s is stored: it has another ID, was cancelled before its time, or its retention has deleted it", id), false, nil
	case e.Waiting && e.NotBefore.After(now):
		return fmt.Sprintf("the event %s of the topic %s waits for its time, %s: no group gets it before", id, e.Topic, terminal.Both(e.NotBefore, now)), true, nil
	case e.Waiting && !e.NotBefore.IsZero():
		return fmt.Sprintf("the event %s of the topic %s was due %s, and no client has published it yet: pulse doctor tells more", id, e.Topic, terminal.Both(e.NotBefore, now)), true, nil
	case e.Waiting:
		return fmt.Sprintf("the event %s of the topic %s was stored in a transaction, and has no place in the order yet: a client gives it one within a poll; pulse doctor tells more", id, e.Topic), true, nil
	}
	return fmt.Sprintf("the event %s of the topic %s is published (%s), and no such delivery of it is stored: a group that is behind has none yet, and its retention may have deleted one that has ended; pulse subscriptions --topic shows who is behind",
		id, e.Topic, terminal.Both(latest(e.CreatedAt, e.NotBefore), now)), true, nil
}

// tellWhere says where an event is that was asked for, and of which nothing was found.
func tellWhere(ctx context.Context, a *admin.Admin, id string) error {
	if id == "" {
		return nil
	}
	text, _, err := whereIs(ctx, a, id, time.Now())
	if err == nil {
		tell("%s", text)
	}
	return err
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
