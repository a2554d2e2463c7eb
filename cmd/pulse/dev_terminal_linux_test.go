package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/matryer/is"
	"golang.org/x/sys/unix"
)

// startInTerminal starts pulse as the foreground process of a terminal of its own and returns the side at
// which a person types.
func (m *machine) startInTerminal(args ...string) (*program, *os.File) {
	m.t.Helper()
	return startInTerminal(m.t, 0, m.environ(), m.self, args...)
}

// startInTerminal does so with any program, in a terminal of so many columns; 0 is a terminal that does not tell.
func startInTerminal(t testing.TB, columns int, env []string, path string, args ...string) (*program, *os.File) {
	t.Helper()
	keyboard, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = keyboard.Close() })
	raw, err := keyboard.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var number int
	var failure error
	if err := raw.Control(func(fd uintptr) {
		if failure = unix.IoctlSetPointerInt(int(fd), unix.TIOCSPTLCK, 0); failure == nil {
			number, failure = unix.IoctlGetInt(int(fd), unix.TIOCGPTN)
		}
	}); err != nil || failure != nil {
		t.Fatal(err, failure)
	}
	setWidth(t, keyboard, columns)
	screen, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	p := &program{t: t, cmd: exec.Command(path, args...), out: newOutput(), waited: make(chan struct{})}
	p.cmd.Env = env
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = screen, screen, screen
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = screen.Close()
	copied := make(chan struct{})
	go func() { _, _ = io.Copy(p.out, keyboard); close(copied) }() // ends when nobody has the terminal any more
	go func() { _ = p.cmd.Wait(); <-copied; p.out.end(); close(p.waited) }()
	t.Cleanup(func() { _ = p.cmd.Process.Kill(); <-p.waited })
	return p, keyboard
}

func TestDev_CtrlCReachesCommandOnce(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	m := withMongod(t)
	p, keyboard := m.startInTerminal(append([]string{"dev", "--"}, m.helper("serve")...)...)
	p.await("ready")
	_, err := keyboard.WriteString("\x03")
	is.NoErr(err)
	is.Equal(p.wait(), 5)
	is.True(strings.Contains(p.out.String(), "graceful interrupt"))
	for _, l := range m.witness.expect("mongod", "serve") {
		l.awaitEnd(t)
	}
}

func TestDev_CommandReadsFromTerminal(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	m := withMongod(t)
	p, keyboard := m.startInTerminal(append([]string{"dev", "--"}, m.helper("ping")...)...)
	m.witness.expect("mongod", "ping")
	_, err := keyboard.WriteString("typed\n\x04")
	is.NoErr(err)
	is.Equal(p.wait(), 0)
	is.True(strings.Contains(p.out.String(), `reached, read "typed\n"`))
}

func TestDev_CtrlCWhileStartingOrStayingUp(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	m := withMongod(t)
	p, keyboard := m.startInTerminal("dev")
	p.await("Ctrl-C stops it")
	_, err := keyboard.WriteString("\x03")
	is.NoErr(err)
	is.Equal(p.wait(), 0)
	m.witness.expect("mongod")[0].awaitEnd(t)
}
