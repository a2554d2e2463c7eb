//go:build unix

package main

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/matryer/is"
)

func TestDev_SignalReachesCommandOnceAndServerOutlivesIt(t *testing.T) {
	t.Parallel()
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		t.Run(sig.String(), func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			m := withMongod(t)
			p := m.pulse(append([]string{"dev", "--"}, m.helper("serve")...)...)
			p.await("ready")
			p.signal(sig)
			p.signal(sig)         // as from go tool, which repeats what the terminal sends
			is.Equal(p.wait(), 5) // the helper's own status after its graceful end
			is.True(strings.Contains(p.out.String(), "graceful "+sig.String()))
			for _, l := range m.witness.expect("mongod", "serve") {
				l.awaitEnd(t)
			}
			is.Equal(len(m.leftovers()), 0)
		})
	}
}

func TestDev_SignalThatEndsCommandIsItsStatus(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	m := withMongod(t)
	p := m.pulse(append([]string{"dev", "--"}, m.helper("hang")...)...)
	lives := m.witness.expect("mongod", "hang")
	p.signal(syscall.SIGTERM)
	is.Equal(p.wait(), 128+int(syscall.SIGTERM))
	lives[0].awaitEnd(t)
	lives[1].awaitEnd(t)
}

func TestDev_StubbornCommandIsKilled(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	m := withMongod(t)
	p := m.pulse(append([]string{"dev", "--stop-timeout=50ms", "--"}, m.helper("stubborn")...)...)
	p.await("ready")
	p.signal(syscall.SIGINT)
	is.Equal(p.wait(), 137)
	is.True(strings.Contains(p.out.String(), "did not end within 50ms: killing it"))
	for _, l := range m.witness.expect("mongod", "stubborn") {
		l.awaitEnd(t)
	}
}

func TestDev_EndsWhatTheCommandLeavesBehind(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{
		"ended by a signal": {"serve"},
		"ended by itself":   {"serve", "now"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			m := withMongod(t)
			p := m.pulse(append([]string{"dev", "--"}, m.helper("leave", args...)...)...)
			want := 0
			if len(args) == 1 {
				want = 128 + int(syscall.SIGTERM)
				p.await("ready")
				p.signal(syscall.SIGTERM)
			}
			is.Equal(p.wait(), want)
			is.True(strings.Contains(p.out.String(), "graceful terminated"))
			for _, l := range m.witness.expect("mongod", "leave", "serve") {
				l.awaitEnd(t)
			}
		})
	}
}

func TestDev_KilledLeavesNothingRunning(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Log("only Linux ends a server whose owner was killed")
		return
	}
	is := is.New(t)
	m := withMongod(t)
	p := m.pulse(append([]string{"dev", "--"}, m.helper("leave", "hang")...)...)
	p.await("ready")
	p.signal(syscall.SIGKILL)
	for _, l := range m.witness.expect("mongod", "leave", "hang") {
		l.awaitEnd(t)
	}
	p.wait()
	is.Equal(len(m.leftovers()), 1) // the killed one could not remove its storage

	next := m.pulse(append([]string{"dev", "--"}, m.helper("exit", "0")...)...)
	is.Equal(next.wait(), 0)
	is.Equal(len(m.leftovers()), 0) // but the next one does
}

func TestDev_EndsWithGoRun(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Log("only Linux tells of the end of go run")
		return
	}
	is := is.New(t)
	m := withMongod(t)
	// The parent is known by its name.
	gorun := filepath.Join(m.home, "go")
	is.NoErr(os.Symlink(m.self, gorun))
	p := m.start(m.environ(), gorun, append([]string{helperPrefix + "gorun", m.self, "dev", "--"}, m.helper("serve")...)...)
	p.await("ready")
	p.signal(syscall.SIGTERM) // go run hands it to nobody
	for _, l := range m.witness.expect("gorun", "mongod", "serve") {
		l.awaitEnd(t)
	}
	p.await("graceful terminated") // the command had its time
	p.wait()
}

func TestDev_InterruptedWhileStarting(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	m := newMachine(t)
	m.put("mongod", `exec "$SELF" helper:hang`) // never answers
	p := m.pulse(append([]string{"dev", "--"}, m.helper("ping")...)...)
	server := m.witness.expect("hang")[0]
	p.signal(syscall.SIGINT)
	is.Equal(p.wait(), 130)
	server.awaitEnd(t)
	is.Equal(len(m.leftovers()), 0)
}
