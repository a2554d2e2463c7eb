//go:build unix

package devserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// endSignals are handed on to the command and, after it, end pulse dev.
var endSignals = []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT}

// groupPollPause is the pause between two looks at whether a process group still has members.
const groupPollPause = 10 * time.Millisecond

// stopPause is the time in which a stop signal to our own group takes effect, if it does.
const stopPause = 200 * time.Millisecond

// command is the running command. It leads a process group of its own, so that a signal reaches all that
// it has started (go run and go test do not hand SIGTERM on) and nobody else.
//
// From a terminal the group is also made the foreground one, as a shell does. The terminal then sends
// Ctrl-C to the command alone and exactly once: were pulse dev in the same group it could not tell that
// signal from one that only itself has got, and handing it on would make it two, which many programs take
// for a wish to end without shutting down. `go run` and make in front of us do not get it either, and stay
// until we end.
type command struct {
	pid      int
	terminal int // descriptor of the terminal whose foreground the command has, or -1
	guard    *guard

	asked bool // the group has got a signal that wishes its end; for the goroutine that uses the command

	done    chan struct{}  // closed when the command itself, not all its group, has ended
	status  int            // valid then
	endedBy syscall.Signal // the one that ended it, or 0; valid then
}

func startCommand(cfg Config, env []string) (*command, error) {
	g, err := startGuard()
	if err != nil {
		return nil, fmt.Errorf("start the guard: %w", err)
	}
	cmd := exec.Command(cfg.Command[0], cfg.Command[1:]...)
	cmd.Env = env
	cmd.Stdin, cmd.Stdout, cmd.Stderr = cfg.Stdin, cfg.Stdout, cfg.Stderr
	cmd.SysProcAttr = groupAttr()
	c := &command{terminal: -1, guard: g, done: make(chan struct{})}
	if fd := int(cfg.Stdin.Fd()); inForeground(fd) && isTerminal(int(cfg.Stdout.Fd())) {
		// A pager or tee that our output goes to shares our group and needs the terminal itself, so it is
		// handed over only when the command writes to it directly.
		c.terminal = fd
		cmd.SysProcAttr.Foreground, cmd.SysProcAttr.Ctty = true, fd
	}
	started := make(chan error, 1)
	go func() {
		// The parent-death signal belongs to this thread: it has to stay as long as the command.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		if err == nil {
			c.pid = cmd.Process.Pid
		}
		started <- err
		if err == nil {
			c.status = c.wait()
			close(c.done)
		}
	}()
	if err := <-started; err != nil {
		g.release()
		c.takeTerminalBack() // the failed child may have taken it
		return nil, err
	}
	g.protect(c.pid)
	return c, nil
}

// wait returns the exit status. It is not exec.Cmd's, because a command that the user stops with Ctrl-Z has
// to be noticed: the shell knows only our group, so we have to stop with it.
func (c *command) wait() int {
	for {
		var ws syscall.WaitStatus
		_, err := syscall.Wait4(c.pid, &ws, syscall.WUNTRACED, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return exitFailed
		case ws.Stopped():
			c.stopWithCommand(ws.StopSignal())
		case ws.Signaled():
			c.endedBy = ws.Signal()
			return exitSignal + int(ws.Signal())
		default:
			return ws.ExitStatus()
		}
	}
}

// stopWithCommand gives the terminal back to the shell by stopping our own group, and lets the command go
// on when the shell has continued us.
func (c *command) stopWithCommand(sig syscall.Signal) {
	if c.terminal < 0 {
		return // whoever stopped the command can continue it
	}
	c.takeTerminalBack()
	continued := make(chan os.Signal, 1)
	signal.Notify(continued, syscall.SIGCONT)
	defer signal.Stop(continued)
	if sig == syscall.SIGSTOP {
		sig = syscall.SIGTSTP // what a shell would see
	}
	// `go tool` hands stop signals on instead of stopping, and the shell would wait for it.
	parent := os.Getppid()
	if group, err := syscall.Getpgid(parent); err == nil && group == unix.Getpgrp() {
		_ = syscall.Kill(parent, syscall.SIGSTOP)
		defer func() { _ = syscall.Kill(parent, syscall.SIGCONT) }()
	}
	_ = syscall.Kill(0, sig)
	// The signal comes a moment after it was sent. Where no shell could continue us the kernel drops it, and
	// then the command must not stay stopped for ever either.
	timer := time.NewTimer(stopPause)
	defer timer.Stop()
	select {
	case <-continued:
	case <-timer.C:
	}
	if inForeground(c.terminal) {
		_ = unix.IoctlSetPointerInt(c.terminal, unix.TIOCSPGRP, c.pid)
	}
	_ = syscall.Kill(-c.pid, syscall.SIGCONT)
}

// signal hands a signal on to the command and all that it has started.
func (c *command) signal(sig os.Signal) {
	c.asked = true
	_ = syscall.Kill(-c.pid, sig.(syscall.Signal))
	_ = syscall.Kill(-c.pid, syscall.SIGCONT) // a stopped process sees it only then
}

func (c *command) kill() { c.signal(syscall.SIGKILL) }

// finish ends what the command left running, gives the terminal back and lets the guard go.
func (c *command) finish(timeout time.Duration) {
	c.takeTerminalBack()
	// What has got a signal already, from us or from the terminal, may be shutting down: a second one would
	// end that.
	if c.asked || slices.Contains(endSignals, os.Signal(c.endedBy)) {
		awaitGroup(c.pid, timeout)
	}
	endGroup(c.pid, timeout)
	c.guard.release()
}

func (c *command) takeTerminalBack() {
	if c.terminal < 0 {
		return
	}
	// We are in the background while the command has the terminal, and the kernel stops a background
	// process that does this, unless it ignores the signal.
	signal.Ignore(syscall.SIGTTOU)
	_ = unix.IoctlSetPointerInt(c.terminal, unix.TIOCSPGRP, unix.Getpgrp())
	signal.Reset(syscall.SIGTTOU)
}

// endGroup asks what is left of a process group to end, kills it after the timeout and returns when it is
// gone.
func endGroup(pgid int, timeout time.Duration) {
	if groupGone(pgid) {
		return
	}
	_ = syscall.Kill(-pgid, syscall.SIGTERM)
	_ = syscall.Kill(-pgid, syscall.SIGCONT)
	if awaitGroup(pgid, timeout) {
		return
	}
	_ = syscall.Kill(-pgid, syscall.SIGKILL)
	awaitGroup(pgid, timeout)
}

func awaitGroup(pgid int, timeout time.Duration) bool {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	ticker := time.NewTicker(groupPollPause)
	defer ticker.Stop()
	for !groupGone(pgid) {
		select {
		case <-ctx.Done():
			return false
		case <-ticker.C:
		}
	}
	return true
}

// groupGone reaps members that have become our children (see adoptOrphans) and says whether any is left.
func groupGone(pgid int) bool {
	for {
		pid, err := syscall.Wait4(-pgid, nil, syscall.WNOHANG, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil || pid <= 0 {
			break
		}
	}
	return syscall.Kill(-pgid, 0) != nil
}

func isTerminal(fd int) bool {
	_, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP)
	return err == nil
}

// inForeground says whether fd is our controlling terminal and our group has its foreground.
func inForeground(fd int) bool {
	group, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}
