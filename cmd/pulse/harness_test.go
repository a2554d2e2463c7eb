//go:build unix

package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// patience ends a test whose awaited event never comes. It is no measure of anything.
const patience = 60 * time.Second

// machine is a computer as pulse dev sees it: a PATH with nothing but what the test puts there, a cache
// and a temporary directory of its own, and a witness of the processes' lives.
type machine struct {
	t              testing.TB
	self           string
	bin, home, tmp string
	witness        *witness
}

func newMachine(t testing.TB) *machine {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	m := &machine{t: t, self: self, bin: t.TempDir(), home: t.TempDir(), tmp: t.TempDir(), witness: newWitness(t)}
	return m
}

// put installs a shell script under a name on PATH. In it, $SELF is the test binary.
func (m *machine) put(name, script string) {
	m.t.Helper()
	m.putAt(filepath.Join(m.bin, name), script)
}

func (m *machine) putAt(path, script string) {
	m.t.Helper()
	script = fmt.Sprintf("#!/bin/sh\nSELF='%s'\n%s\n", m.self, script)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		m.t.Fatal(err)
	}
	// Renamed into place: a file that is open for writing while another test forks cannot be executed.
	if err := os.WriteFile(path+".new", []byte(script), 0o755); err != nil {
		m.t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		m.t.Fatal(err)
	}
}

// withMongod is a machine on which mongod is installed.
func withMongod(t testing.TB) *machine {
	m := newMachine(t)
	m.put("mongod", `exec "$SELF" helper:mongod "$@"`)
	return m
}

// helper is the command line of a helper.
func (m *machine) helper(name string, args ...string) []string {
	return append([]string{m.self, helperPrefix + name}, args...)
}

// environ is that of pulse dev; assignments in extra win.
func (m *machine) environ(extra ...string) []string {
	return append([]string{
		// Under -race a program that succeeds would wait for a second before it ends.
		"GORACE=atexit_sleep_ms=0",
		roleEnv + "=pulse", witnessEnv + "=" + m.witness.addr(),
		"PATH=" + m.bin, "HOME=" + m.home, "XDG_CACHE_HOME=" + m.home, "TMPDIR=" + m.tmp,
	}, extra...)
}

// realEnviron is the environment of this machine without servers that happen to be there.
func realEnviron() []string {
	return slices.DeleteFunc(os.Environ(), func(e string) bool {
		return strings.HasPrefix(e, "MONGODB_URI=") || strings.HasPrefix(e, "KAFKA_BROKERS=")
	})
}

// read returns a file that a script has written to the home directory.
func (m *machine) read(name string) string {
	m.t.Helper()
	data, err := os.ReadFile(filepath.Join(m.home, name))
	if err != nil {
		m.t.Fatal(err)
	}
	return string(data)
}

// pid returns the process number that a script has written to a file.
func (m *machine) pid(name string) int {
	m.t.Helper()
	pid, err := strconv.Atoi(strings.TrimSpace(m.read(name)))
	if err != nil {
		m.t.Fatal(err)
	}
	return pid
}

// leftovers are the temporary files that remain.
func (m *machine) leftovers() []string {
	entries, err := os.ReadDir(m.tmp)
	if err != nil {
		m.t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// program is a running pulse.
type program struct {
	t      testing.TB
	cmd    *exec.Cmd
	out    *output // what it and its command write, standard output and error together
	waited chan struct{}
}

func (m *machine) pulse(args ...string) *program { return m.start(m.environ(), m.self, args...) }

func (m *machine) start(env []string, path string, args ...string) *program {
	m.t.Helper()
	p := &program{t: m.t, cmd: exec.Command(path, args...), out: newOutput(), waited: make(chan struct{})}
	p.cmd.Env = env
	p.cmd.Stdin = strings.NewReader("some input")
	p.cmd.Stdout, p.cmd.Stderr = p.out, p.out
	if err := p.cmd.Start(); err != nil {
		m.t.Fatal(err)
	}
	go func() { _ = p.cmd.Wait(); p.out.end(); close(p.waited) }()
	m.t.Cleanup(func() { _ = p.cmd.Process.Kill(); <-p.waited })
	return p
}

// wait returns the exit status.
func (p *program) wait() int {
	p.t.Helper()
	select {
	case <-p.waited:
		return p.cmd.ProcessState.ExitCode()
	case <-time.After(patience):
		p.t.Fatalf("pulse does not end; its output:\n%s", p.out)
		return 0
	}
}

func (p *program) signal(sig syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(sig); err != nil {
		p.t.Fatal(err)
	}
}

// await returns when the text has been written.
func (p *program) await(text string) {
	p.t.Helper()
	if !p.out.await(text, patience) {
		p.t.Fatalf("no %q in the output:\n%s", text, p.out)
	}
}

// output collects what is written and can be waited on.
type output struct {
	mu    sync.Mutex
	news  *sync.Cond
	buf   bytes.Buffer
	ended bool
}

func newOutput() *output {
	o := &output{}
	o.news = sync.NewCond(&o.mu)
	return o
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.news.Broadcast()
	return o.buf.Write(p)
}

func (o *output) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ended = true
	o.news.Broadcast()
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

func (o *output) await(text string, limit time.Duration) bool {
	timer := time.AfterFunc(limit, o.end)
	defer timer.Stop()
	o.mu.Lock()
	defer o.mu.Unlock()
	for !strings.Contains(o.buf.String(), text) {
		if o.ended {
			return false
		}
		o.news.Wait()
	}
	return true
}

// witness sees helpers begin and end: each holds a connection to it for as long as it lives.
type witness struct {
	t    testing.TB
	l    net.Listener
	born chan life
}

// life is one helper process.
type life struct {
	name string
	over chan struct{} // closed when the process is gone
}

func newWitness(t testing.TB) *witness {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &witness{t: t, l: l, born: make(chan life, 100)}
	var lives sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	lives.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			lives.Go(func() {
				defer conn.Close()
				stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
				defer stop()
				in := bufio.NewReader(conn)
				name, err := in.ReadString('\n')
				if err != nil {
					return
				}
				over := make(chan struct{})
				w.born <- life{name: strings.TrimSpace(name), over: over}
				_, _ = io.Copy(io.Discard, in)
				close(over)
			})
		}
	})
	t.Cleanup(func() { cancel(); _ = l.Close(); lives.Wait() })
	return w
}

func (w *witness) addr() string { return w.l.Addr().String() }

// expect returns the lives of helpers with these names, in this order.
func (w *witness) expect(names ...string) []life {
	w.t.Helper()
	found := make([]life, len(names))
	for range names {
		select {
		case l := <-w.born:
			known := false
			for i, name := range names {
				if name == l.name && found[i].over == nil {
					found[i], known = l, true
					break
				}
			}
			if !known {
				w.t.Fatalf("unexpected helper %q; expected %q", l.name, names)
			}
		case <-time.After(patience):
			w.t.Fatalf("helpers %q did not all start", names)
		}
	}
	return found
}

// gone says whether the process has ended already.
func (l life) gone() bool {
	select {
	case <-l.over:
		return true
	default:
		return false
	}
}

// awaitEnd waits for the end of the process.
func (l life) awaitEnd(t testing.TB) {
	t.Helper()
	select {
	case <-l.over:
	case <-time.After(patience):
		t.Fatalf("%s still runs", l.name)
	}
}
