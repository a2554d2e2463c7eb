//go:build unix

package devserver

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"
)

// guardTimeout is the time that an orphaned command gets to end.
const guardTimeout = 5 * time.Second

// guard is a small process that outlives a killed pulse dev for a moment. It holds the reading end of a
// pipe whose writing end only pulse dev has; when that closes without the guard having been released, it
// ends the command's process group.
type guard struct {
	cmd  *exec.Cmd
	pipe *os.File
}

func startGuard() (*guard, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.Close() }()
	// No standard output: whoever waits for the end of ours must not have to wait for the guard.
	cmd := exec.Command(self, "guard")
	cmd.Stdin = r
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		_ = w.Close()
		return nil, err
	}
	return &guard{cmd: cmd, pipe: w}, nil
}

// protect names the process group to end when pulse dev is killed.
func (g *guard) protect(pgid int) { _, _ = fmt.Fprintln(g.pipe, pgid) }

// release ends the guard, before it can take the closing of the pipe for our death.
func (g *guard) release() {
	_ = g.cmd.Process.Kill()
	_ = g.cmd.Wait()
	_ = g.pipe.Close()
}

// Guard is the guard's side: it reads the number of a process group, waits for the end of the input and
// ends that group.
func Guard(in io.Reader) error {
	lines := bufio.NewScanner(in)
	pgid := 0
	for lines.Scan() {
		n, err := strconv.Atoi(lines.Text())
		if err != nil || n <= 1 {
			return fmt.Errorf("guard: %q is no process group: this command is for pulse dev itself", lines.Text())
		}
		pgid = n
	}
	if pgid != 0 {
		endGroup(pgid, guardTimeout)
	}
	return lines.Err()
}
