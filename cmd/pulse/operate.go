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

// list prints rows: for programs as one document a line, for people as a table that fits.
type list struct {
	json  *json.Encoder // nil: for people
	table *terminal.Table
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
	if l.table.Len() == 0 {
		fmt.Fprintln(os.Stderr, "pulse: "+none)
		return nil
	}
	columns, _ := terminal.Width(os.Stdout)
	return l.table.Write(os.Stdout, columns)
}
