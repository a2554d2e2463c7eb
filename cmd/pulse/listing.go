package main

import (
	"context"

	"github.com/orionjs/orion-go/cmd/pulse/internal/session"
	"github.com/orionjs/orion-go/cmd/pulse/internal/terminal"
	"github.com/orionjs/orion-go/pulse/admin"
)

// listing is a list of deliveries or attempts that comes in pages.
type listing struct {
	out *list
	// limit is how many rows are wanted, 0 for all; most how many a page may have.
	limit, most int
	// group, topic and event are what the rows are of, as far as the command line names them.
	group, topic, event string
	// what is the noun for a row.
	what string
}

// print prints page after page, which next adds to out. Of nothing it says why: no subscription has the group or topic,
// or where the event is.
func (l listing) print(ctx context.Context, s *session.Session, a *admin.Admin, next func(limit int) (got int, more bool, err error)) error {
	more, err := pages(l.limit, l.most, next)
	if err != nil {
		return err
	}
	if l.out.rows == 0 {
		if err := s.Known(ctx, a, l.group, l.topic); err != nil {
			return err
		}
	}
	if err := l.out.end("no " + l.what + " matches"); err != nil {
		return err
	}
	if l.out.rows == 0 {
		return tellWhere(ctx, a, l.event)
	}
	if more {
		tell("these are the first %s; there are more: --limit 0 shows all", terminal.Plural(l.limit, l.what))
	}
	return nil
}

// pages asks for page after page until there are as many rows as wanted, 0 for all. It tells whether there are more.
func pages(want, most int, next func(limit int) (got int, more bool, err error)) (bool, error) {
	for have := 0; ; {
		limit := most
		if want > 0 {
			limit = min(limit, want-have)
		}
		got, more, err := next(limit)
		have += got
		if err != nil || !more || want > 0 && have >= want {
			return more, err
		}
	}
}
