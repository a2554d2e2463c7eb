package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"

	"github.com/orionjs/orion-go/echoes"
	"github.com/orionjs/orion-go/examples/migration/orders"
)

// serve is a replica: it handles orders until ctx ends.
func serve(ctx context.Context, s servers, at step, name string, out io.Writer) error {
	book, err := orders.OpenBook(ctx, s.database())
	if err != nil {
		return err
	}
	app, err := start(ctx, s.config(at), &orders.Orders{Book: book, Replica: name})
	if err != nil {
		return err
	}
	fmt.Fprintln(out, ready)
	// The end of the input is the end of the demo, whatever has ended that.
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		defer cancel()
		_, _ = io.Copy(io.Discard, os.Stdin)
	}()
	<-ctx.Done()
	if err := stop(app); err != nil {
		// What could not be committed in time, as while the group sorts itself out after a death, comes again; the
		// book takes each order once.
		fmt.Fprintln(os.Stderr, "replica: closing:", err)
	}
	return nil
}

// ready is the line of a replica that has started.
const ready = "ready"

// start starts an app. With no services it can only publish.
func start(ctx context.Context, cfg echoes.Config, services ...echoes.Service) (*echoes.App, error) {
	app, err := echoes.New(cfg, services...)
	if err != nil {
		return nil, err
	}
	return app, app.Start(ctx)
}

// stop lets running handlers finish; other replicas go on with the rest.
func stop(app *echoes.App) error {
	ctx, cancel := context.WithTimeout(context.Background(), shutdownTimeout)
	defer cancel()
	return app.Close(ctx)
}

// replica is a running one, seen from the demo.
type replica struct {
	cmd   *exec.Cmd
	stdin io.Closer
}

// launch starts this program as a replica and returns when it handles orders.
func launch(ctx context.Context, s servers, at step, name string) (*replica, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self, "-replica", name, "-step", at.name, "-group", s.group)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	r := &replica{cmd: cmd, stdin: stdin}
	undo := context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() })
	defer undo()
	if lines := bufio.NewScanner(stdout); !lines.Scan() || lines.Text() != ready {
		_ = r.kill()
		return nil, errors.Join(ctx.Err(), fmt.Errorf("replica %s did not start at step %s", name, at.name))
	}
	return r, nil
}

// terminate asks for the end, as a deployment does, and waits for it.
func (r *replica) terminate() error {
	if err := r.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	return r.cmd.Wait()
}

// kill is a crash.
func (r *replica) kill() error {
	err := r.cmd.Process.Kill()
	_ = r.cmd.Wait() // it says that it was killed
	_ = r.stdin.Close()
	return err
}
