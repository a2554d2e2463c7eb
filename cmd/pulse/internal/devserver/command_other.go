//go:build !unix

package devserver

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"time"
)

var endSignals = []os.Signal{os.Interrupt}

// command is the running command. Without process groups only the command itself can be ended; Ctrl-C
// reaches it, like us, from the console.
type command struct {
	cmd    *exec.Cmd
	done   chan struct{}
	status int
}

func startCommand(cfg Config, env []string) (*command, error) {
	cmd := exec.Command(cfg.Command[0], cfg.Command[1:]...)
	cmd.Env = env
	cmd.Stdin, cmd.Stdout, cmd.Stderr = cfg.Stdin, cfg.Stdout, cfg.Stderr
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	c := &command{cmd: cmd, done: make(chan struct{})}
	go func() {
		_ = cmd.Wait()
		c.status = cmd.ProcessState.ExitCode()
		close(c.done)
	}()
	return c, nil
}

func (c *command) signal(os.Signal) {}

func (c *command) kill() { _ = c.cmd.Process.Kill() }

func (c *command) finish(time.Duration) {}

// Guard has no meaning on this system.
func Guard(io.Reader) error {
	return errors.New("guard: this command is for pulse dev itself, on Unix systems")
}

func adoptOrphans() {}

func endWithGoRun() {}
