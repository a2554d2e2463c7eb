//go:build unix

package child

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/matryer/is"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestProcess_StopKillsWhatDoesNotEnd(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	log := filepath.Join(t.TempDir(), "log")
	p, err := StartLogged(exec.Command("sh", "-c", "trap '' TERM; echo ready; while :; do sleep 1; done"), syscall.SIGKILL, log)
	is.NoErr(err)
	is.NoErr(waitFor(t, func() bool { return Tail(log, 1) == "ready" }))
	is.True(!p.Ended())
	killed := false
	p.Stop(time.Millisecond, func(p *Process) { killed = true; KillGroup(p.Handle) })
	is.True(killed)
	is.True(p.Ended())
	is.True(p.Wait() != nil)
	p.Stop(time.Hour, func(*Process) { t.Error("a process that has ended is left alone") })
	p.Kill(func(*Process) { t.Error("a process that has ended is left alone") })
}

// waitFor looks until it holds.
func waitFor(t *testing.T, holds func() bool) error {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for !holds() {
		if err := Pause(ctx, &Process{Done: make(chan struct{})}); err != nil {
			return err
		}
	}
	return nil
}

func TestDir_SweepsWhatKilledProcessesLeft(t *testing.T) {
	is := is.New(t)
	t.Setenv("TMPDIR", t.TempDir())
	used, err := NewDir("server-", "")
	is.NoErr(err)
	left, err := NewDir("server-", "")
	is.NoErr(err)
	left.unlock() // as the end of its process does
	other, err := NewDir("other-", "")
	is.NoErr(err)
	other.unlock()

	next, err := NewDir("server-", "")
	is.NoErr(err)
	exists := func(d *Dir) bool { _, err := os.Stat(d.Data); return err == nil }
	is.True(exists(used))
	is.True(!exists(left))
	is.True(exists(other)) // of another kind of server
	is.NoErr(errors.Join(used.Remove(), next.Remove()))
	is.True(!exists(used))
}

func TestDir_LeavesTheCallersStorage(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	storage := filepath.Join(t.TempDir(), "data")
	d, err := NewDir("child-test-", storage)
	is.NoErr(err)
	is.Equal(d.Data, storage)
	_, err = NewDir("child-test-", storage)
	is.True(err != nil)
	is.True(strings.Contains(err.Error(), "is in use by another server"))
	is.NoErr(d.Remove())
	_, err = os.Stat(storage)
	is.NoErr(err)
	again, err := NewDir("child-test-", storage)
	is.NoErr(err)
	is.NoErr(again.Remove())
}

func TestAwaitLock_WaitsForTheHolder(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	path := filepath.Join(t.TempDir(), "lock")
	unlock, err := Lock(path)
	is.NoErr(err)
	_, err = Lock(path)
	is.True(errors.Is(err, ErrLocked))

	ctx, cancel := context.WithCancel(t.Context())
	told := told{t: t, cancel: cancel}
	_, err = AwaitLock(ctx, path, "making it", &told)
	is.True(errors.Is(err, context.Canceled))
	is.Equal(told.text, "another process is making it: waiting for it\n")

	unlock()
	unlock, err = AwaitLock(t.Context(), path, "making it", &told)
	is.NoErr(err)
	unlock()
}

// told takes the one line that AwaitLock says, and ends the waiting.
type told struct {
	t      *testing.T
	cancel func()
	text   string
}

func (w *told) Write(p []byte) (int, error) {
	w.text += string(p)
	w.cancel()
	return len(p), nil
}

func TestPorts(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	l, err := net.Listen("tcp", Addr(0))
	is.NoErr(err)
	defer l.Close()
	port := l.Addr().(*net.TCPAddr).Port
	is.True(errors.Is(CheckPort(port), ErrPortTaken))
	is.NoErr(CheckPort(0))
	is.True(CheckPort(70000) != nil)
	is.True(MentionsTakenPort("bind: Address already in use"))
	running := &Process{Done: make(chan struct{})}
	is.NoErr(AwaitListening(t.Context(), running, port))
	free, err := FreePort()
	is.NoErr(err)
	ended := make(chan struct{})
	close(ended)
	is.True(errors.Is(AwaitListening(t.Context(), &Process{Done: ended}, free), ErrEnded))
}
