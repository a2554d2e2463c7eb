package child

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/orionjs/orion-go/pulse/internal/clock"
)

// Process is a started child. Done is closed after it has been waited for.
type Process struct {
	Done   <-chan struct{}
	Handle *os.Process

	err error // valid when Done is closed
}

// StartLogged is Start with the output of cmd appended to the file logPath.
func StartLogged(cmd *exec.Cmd, deathSignal syscall.Signal, logPath string) (*Process, error) {
	log, err := os.OpenFile(logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }()
	cmd.Stdout, cmd.Stderr = log, log
	return Start(cmd, deathSignal)
}

// Start starts cmd in a process group of its own, which keeps the terminal's Ctrl-C away from it. On Linux
// the kernel sends it deathSignal when this process ends without having stopped it.
//
// The goroutine that starts it stays on its thread until the child is gone: Linux sends that signal when the
// thread that started the child ends, not the process.
func Start(cmd *exec.Cmd, deathSignal syscall.Signal) (*Process, error) {
	ownGroup(cmd, deathSignal)
	done := make(chan struct{})
	p := &Process{Done: done}
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		p.Handle = cmd.Process
		started <- err
		if err == nil {
			p.err = cmd.Wait()
			close(done)
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// Wait waits for the end and returns what exec.Cmd.Wait has returned.
func (p *Process) Wait() error {
	<-p.Done
	return p.err
}

// Ended says whether the process is gone.
func (p *Process) Ended() bool {
	select {
	case <-p.Done:
		return true
	default:
		return false
	}
}

// Stop asks the process to end and uses kill after the timeout. It returns when the process is gone.
func (p *Process) Stop(timeout time.Duration, kill func(*Process)) {
	if p.Ended() {
		return
	}
	terminate(p.Handle)
	select {
	case <-p.Done:
	case <-clock.After(timeout):
		p.Kill(kill)
	}
}

// Kill uses the given way to end the process and waits for that. A process that has ended is left alone:
// its number may belong to somebody else by now.
func (p *Process) Kill(kill func(*Process)) {
	if !p.Ended() {
		kill(p)
		<-p.Done
	}
}

// TailLines is how much of a log goes into an error.
const TailLines = 8

// Tail returns the last n lines of a file, without those that are empty.
func Tail(path string, n int) string {
	const window = 64 << 10
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }()
	if info, err := f.Stat(); err == nil && info.Size() > window {
		_, _ = f.Seek(-window, io.SeekEnd)
	}
	data, _ := io.ReadAll(f)
	var lines []string
	for line := range bytes.Lines(data) {
		if s := strings.TrimSpace(string(line)); s != "" {
			lines = append(lines, s)
		}
	}
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
