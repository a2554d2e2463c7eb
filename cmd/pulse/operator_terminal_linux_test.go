package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/matryer/is"
	"golang.org/x/sys/unix"

	"github.com/orionjs/orion-go/pulse/pulsetest"
)

// inTerminal runs the program for a person who looks at so many columns.
func (d *desk) inTerminal(t *testing.T, columns int, args ...string) (*program, *os.File) {
	t.Helper()
	return startInTerminal(t, columns, append(os.Environ(), d.environ()...), filepath.Join(d.bin, "pulse"), args...)
}

// In a terminal a person is asked, and only a yes changes something; tables take the room that there is.
func TestOperator_InATerminal(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	d := newDesk(t)
	d.serve("billing", "invoice.created")
	file := filepath.Join(t.TempDir(), "invoice.json")
	is.NoErr(os.WriteFile(file, []byte(`{"permanent": true, "once": true, "fail": "`+strings.Repeat("no such customer ", 20)+`"}`), 0o600))

	p, _ := d.inTerminal(t, 100, "publish", "invoice.created", file, "--id", "INV-1")
	is.Equal(p.wait(), 0)
	is.True(strings.Contains(p.out.String(), "published event INV-1 to invoice.created"))

	failed := func() bool {
		p, _ := d.inTerminal(t, 150, "deliveries", "--state", "error")
		is.Equal(p.wait(), 0)
		out := p.out.String()
		for line := range strings.SplitSeq(out, "\r\n") {
			if n := len([]rune(line)); n > 150 {
				t.Errorf("a line of %d columns: %s", n, line)
			}
		}
		return strings.Contains(out, "handler_error: no such customer") && strings.Contains(out, "…")
	}
	pulsetest.Eventually(t, "the delivery has failed", eventually(failed))

	p, keyboard := d.inTerminal(t, 100, "retry", "--group", "billing")
	p.await("Retry 1 delivery? [y/N] ")
	_, err := keyboard.WriteString("\n")
	is.NoErr(err)
	is.Equal(p.wait(), exitNo)
	is.True(strings.Contains(p.out.String(), "nothing was changed"))
	is.True(failed())

	p, keyboard = d.inTerminal(t, 100, "retry", "--group", "billing")
	p.await("[y/N] ")
	_, err = keyboard.WriteString("\x03") // Ctrl-C
	is.NoErr(err)
	is.Equal(p.wait(), exitFailure)
	is.True(strings.Contains(p.out.String(), "interrupted"))
	is.True(failed())

	p, keyboard = d.inTerminal(t, 40, "retry", "--group", "billing")
	p.await("[y/N] ")
	is.True(strings.Contains(p.out.String(), "\ntopic      invoice.created\r\n")) // too narrow for a table
	_, err = keyboard.WriteString("yes\n")
	is.NoErr(err)
	is.Equal(p.wait(), 0)
	is.True(strings.Contains(p.out.String(), "retried 1 delivery"))
	pulsetest.Eventually(t, "the retry succeeds", eventually(func() bool { return !failed() }))
}

// Whoever follows a topic sees its events as they come, and stops by Ctrl-C, which is no failure.
func TestOperator_TailFollowsUntilCtrlC(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	d := newDesk(t)
	file := filepath.Join(t.TempDir(), "order.json")
	is.NoErr(os.WriteFile(file, []byte(`{"n": 1}`), 0o600))
	publish := func(id string) {
		p, _ := d.inTerminal(t, 80, "publish", "order.created", file, "--id", id)
		is.Equal(p.wait(), 0)
	}
	publish("first")
	p, keyboard := d.inTerminal(t, 80, "tail", "order.created", "--since", "1h")
	p.await(`first  {"n":1}`)
	publish("second")
	p.await(`second  {"n":1}`)
	_, err := keyboard.WriteString("\x03")
	is.NoErr(err)
	is.Equal(p.wait(), 0)
	is.True(!strings.Contains(p.out.String(), "interrupted"))
}

// A long publication shows how far it is, and leaves nothing of that behind.
func TestOperator_PublishShowsItsProgress(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	d := newDesk(t)
	file := filepath.Join(t.TempDir(), "orders.ndjson")
	is.NoErr(os.WriteFile(file, []byte(strings.Repeat("{\"n\": 1}\n", 5000)), 0o600))
	p, _ := d.inTerminal(t, 80, "publish", "order.created", file)
	is.Equal(p.wait(), 0)
	out := p.out.String()
	is.True(strings.Contains(out, "\r["))
	is.True(strings.Contains(out, " events"))
	is.True(strings.Contains(out, "\r\x1b[Kpublished 5,000 events to order.created in "))
}

// setWidth gives the terminal behind its keyboard a size.
func setWidth(t testing.TB, keyboard *os.File, columns int) {
	t.Helper()
	raw, err := keyboard.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var failure error
	err = raw.Control(func(fd uintptr) {
		failure = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Row: 40, Col: uint16(columns)})
	})
	if err != nil || failure != nil {
		t.Fatal(err, failure)
	}
}
