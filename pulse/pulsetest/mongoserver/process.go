package mongoserver

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"github.com/orionjs/orion-go/pulse/internal/clock"
)

// tailLines is how much of a log goes into an error.
const tailLines = 8

// process is a started child. done is closed after it has been waited for; err is valid then.
type process struct {
	cmd  *exec.Cmd
	done chan struct{}
	err  error
}

// startProcess starts cmd, which ends with this process, with its output appended to the file logPath.
//
// The goroutine that starts it stays on its thread until the child is gone: Linux sends the parent-death
// signal when the thread that started the child ends, not the process.
func startProcess(cmd *exec.Cmd, logPath string) (*process, error) {
	log, err := os.OpenFile(logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }()
	cmd.Stdout, cmd.Stderr = log, log
	return startAttached(cmd)
}

func startAttached(cmd *exec.Cmd) (*process, error) {
	ownGroup(cmd)
	p := &process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			p.err = cmd.Wait()
			close(p.done)
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// stop asks the process to end and uses kill after the timeout. It returns when the process is gone.
func (p *process) stop(timeout time.Duration, kill func(*process)) {
	if p.ended() {
		return
	}
	terminate(p.cmd.Process)
	select {
	case <-p.done:
	case <-clock.After(timeout):
		p.kill(kill)
	}
}

// kill uses the given way to end the process and waits for that. A process that has ended is left alone:
// its number may belong to somebody else by now.
func (p *process) kill(kill func(*process)) {
	if !p.ended() {
		kill(p)
		<-p.done
	}
}

// tail returns the last n lines of a file, without those that are empty.
func tail(path string, n int) string {
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
