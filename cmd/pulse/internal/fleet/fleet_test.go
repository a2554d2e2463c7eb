package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/matryer/is"
)

// roles are those of the test binary, which plays both sides.
var roles = map[string]Role{
	"echo": func(ctx context.Context, order json.RawMessage, m *Member) (any, error) {
		if err := m.Begin(ctx); err != nil {
			return nil, err
		}
		m.Tell(Message{Handled: 7})
		<-ctx.Done()
		return map[string]any{"order": order}, nil
	},
	"leave": func(ctx context.Context, _ json.RawMessage, m *Member) (any, error) {
		fmt.Fprintln(os.Stderr, "nothing to do here")
		return nil, nil
	},
	"fail": func(context.Context, json.RawMessage, *Member) (any, error) { return nil, errors.New("cannot") },
}

func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == Command {
		if err := Serve(os.Args[2], roles, os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func start(t *testing.T, role string) (*Process, <-chan Message) {
	t.Helper()
	heard := make(chan Message, 10)
	p, err := Start("one", role, map[string]int{"n": 5}, func(m Message) { heard <- m }, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	return p, heard
}

func TestProcess_WorksByItsOrderAndReports(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	p, heard := start(t, "echo")
	is.NoErr(p.Ready(t.Context()))
	is.True((<-heard).Ready)
	is.NoErr(p.Err()) // it runs
	is.NoErr(p.Go())
	is.Equal((<-heard).Handled, 7)
	var report struct{ Order map[string]int }
	is.NoErr(p.Stop(&report))
	is.Equal(report.Order, map[string]int{"n": 5})
	is.True(p.PeakMemory() >= 0)
}

func TestProcess_EndsThatWereNotWishedAreErrorsWithTheLog(t *testing.T) {
	t.Parallel()
	for role, texts := range map[string][]string{
		"leave":   {"process one ended by itself", "nothing to do here"},
		"fail":    {"process one: exit status 1", "fail: cannot"},
		"unknown": {`no role "unknown"`, "echo, fail, leave"},
	} {
		t.Run(role, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			p, _ := start(t, role)
			err := p.Ready(t.Context())
			is.True(err != nil)
			for _, text := range texts {
				is.True(strings.Contains(err.Error(), text)) // err
			}
		})
	}
}

func TestProcess_KilledWhileFrozen(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	p, _ := start(t, "echo")
	is.NoErr(p.Ready(t.Context()))
	if err := p.Freeze(); errors.Is(err, errors.ErrUnsupported) {
		return
	}
	p.Kill()
	<-p.Done()
	is.True(strings.Contains(p.Err().Error(), "killed"))
}
