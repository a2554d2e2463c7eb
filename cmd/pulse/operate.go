package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/orionjs/orion-go/cmd/pulse/internal/session"
	"github.com/orionjs/orion-go/cmd/pulse/internal/terminal"
	"github.com/orionjs/orion-go/pulse/admin"
)

// operate runs f with the database of the flags until Ctrl-C.
func operate(flags session.Flags, f func(context.Context, *session.Session) error) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	s, err := session.Open(ctx, flags)
	if err == nil {
		defer s.Close()
		err = s.Explain(f(ctx, s))
	}
	if err != nil && ctx.Err() != nil {
		return errors.New("interrupted")
	}
	return err
}

// administer is operate for commands that look or act by package admin.
func administer(flags session.Flags, f func(context.Context, *session.Session, *admin.Admin) error) error {
	return operate(flags, func(ctx context.Context, s *session.Session) error {
		a, err := s.Admin()
		if err != nil {
			return err
		}
		return f(ctx, s, a)
	})
}

// decide asks whether to go on, and tells on standard error what follows when the answer is no.
func decide(ctx context.Context, yes bool, question string) (bool, error) {
	if yes {
		return true, nil
	}
	agreed, err := terminal.Confirm(ctx, os.Stdin, os.Stderr, question)
	switch {
	case errors.Is(err, terminal.ErrNoTerminal):
		tell("nothing was changed: give --yes to do it")
		return false, nil
	case err == nil && !agreed:
		tell("nothing was changed")
	}
	return agreed, err
}

// tell says something to people beside what the command prints.
func tell(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "pulse: %s\n", terminal.Clean(fmt.Sprintf(format, args...)))
}

// list prints rows: for programs as one document a line, for people as a table that fits.
type list struct {
	json  *json.Encoder // nil: for people
	table *terminal.Table
	rows  int
}

func newList(flags session.Flags, columns ...terminal.Column) *list {
	l := &list{table: terminal.NewTable(columns...)}
	if flags.JSON {
		l.json = lines()
	}
	return l
}

// lines writes one JSON document a line to standard output.
func lines() *json.Encoder {
	out := json.NewEncoder(os.Stdout)
	out.SetEscapeHTML(false)
	return out
}

// add takes a row in both forms. Documents are written at once, a table at the end.
func (l *list) add(document any, cells ...string) error {
	l.rows++
	if l.json != nil {
		return l.json.Encode(document)
	}
	l.table.Row(cells...)
	return nil
}

// end writes the table, or, on standard error, that there is nothing.
func (l *list) end(none string) error {
	if l.json != nil {
		return nil
	}
	if l.rows == 0 {
		tell("%s", none)
		return nil
	}
	columns, _ := terminal.Width(os.Stdout)
	return l.table.Write(os.Stdout, columns)
}
