package mongoserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/orionjs/orion-go/pulse/pulsetest/internal/child"
)

const (
	image = "mongo:8"
	// probeTimeout is how long a container runtime's daemon may take to answer before it counts as absent.
	probeTimeout = 3 * time.Second
)

// run is one launch of a server.
type run struct {
	port                     int
	dataDir, configPath      string
	ownStorage               bool // dataDir belongs to the caller and has to keep the data
	standalone, syncOnCommit bool
	args                     []string
}

// backend is one kind of server. One value belongs to one Server.
type backend interface {
	name() string
	command(run) *exec.Cmd
	initiates() bool     // whether its replica set has to be initiated
	kill(*child.Process) // at once, like a crash; the process ends soon after
	remove()             // what is left when the server is not to come back
}

// findBackend returns the first kind of server that this machine has, building one if it has none.
func findBackend(ctx context.Context, progress io.Writer) (backend, error) {
	if path, err := exec.LookPath("mongod"); err == nil {
		return &local{path: path, mongod: true}, nil
	}
	for _, runtime := range []string{"docker", "podman"} {
		path, err := exec.LookPath(runtime)
		if err != nil || !daemonAnswers(ctx, path) {
			continue
		}
		c := &container{runtime: runtime, path: path}
		c.sweep(ctx)
		return c, c.pull(ctx, progress)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	path, err := findSecantus(ctx, progress)
	if err != nil {
		return nil, err
	}
	return &local{path: path}, nil
}

// local is a server that runs as a child process: mongod or secantusd-rs.
type local struct {
	path   string
	mongod bool
}

func (l *local) name() string {
	if l.mongod {
		return "mongod"
	}
	return "secantusd-rs"
}

func (l *local) command(r run) *exec.Cmd {
	var args []string
	if l.mongod {
		args = append(mongodArgs(r), "--bind_ip", "127.0.0.1", "--dbpath", r.dataDir)
	} else {
		args = []string{"--config", r.configPath, "--host", "127.0.0.1", "--port", strconv.Itoa(r.port), "--storage-path", r.dataDir, "--enable-test-commands"}
		if r.standalone {
			args = append(args, "--standalone")
		}
		if r.syncOnCommit {
			args = append(args, "--sync-on-commit")
		}
	}
	return exec.Command(l.path, append(args, r.args...)...)
}

func mongodArgs(r run) []string {
	args := []string{"--port", strconv.Itoa(r.port), "--setParameter", "enableTestCommands=1"}
	if !r.standalone {
		args = append(args, "--replSet", replicaSet)
	}
	return args
}

func (l *local) initiates() bool       { return l.mongod }
func (l *local) kill(p *child.Process) { child.KillGroup(p.Handle) }
func (l *local) remove()               {}

// container is mongod in a container. The runtime's client runs in the foreground: it hands signals on, so
// the container ends with it. The container itself stays for a restart until remove.
type container struct {
	runtime, path string
	id            string // the container's name, once it exists
}

// containerPrefix starts the containers' names; the owner's process number follows.
const containerPrefix = "pulse-mongoserver-"

var containerCount atomic.Int64

// daemonAnswers tells a runtime from a client without a daemon.
func daemonAnswers(ctx context.Context, path string) bool {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	return exec.CommandContext(ctx, path, "ps", "--quiet").Run() == nil
}

func (c *container) name() string    { return c.runtime }
func (c *container) initiates() bool { return true }

func (c *container) command(r run) *exec.Cmd {
	if c.id != "" {
		return exec.Command(c.path, "start", "--attach", c.id)
	}
	c.id = fmt.Sprintf("%s%d-%d", containerPrefix, os.Getpid(), containerCount.Add(1))
	// The same port inside and outside: the member of a replica set must find itself under the address
	// that clients use.
	args := []string{"run", "--name", c.id, "--publish", fmt.Sprintf("127.0.0.1:%d:%d", r.port, r.port)}
	if r.ownStorage {
		args = append(args, "--volume", r.dataDir+":/data/db")
	}
	args = append(args, image, "mongod", "--bind_ip_all")
	args = append(args, mongodArgs(r)...)
	return exec.Command(c.path, append(args, r.args...)...)
}

func (c *container) kill(p *child.Process) {
	if c.id == "" || c.control("kill", c.id) != nil {
		child.KillGroup(p.Handle)
	}
}

func (c *container) remove() {
	if c.id != "" {
		_ = c.control("rm", "--force", "--volumes", c.id)
		c.id = ""
	}
}

// control runs a short command of the runtime. It has a deadline of its own, because it also has to work
// while the caller's context is ending.
func (c *container) control(args ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	return exec.CommandContext(ctx, c.path, args...).Run()
}

// pull fetches the image unless it is there; that takes as long as it takes.
func (c *container) pull(ctx context.Context, progress io.Writer) error {
	if c.control("image", "inspect", image) == nil {
		return nil
	}
	say(progress, "%s pulls the image %s (once)", c.runtime, image)
	cmd := exec.CommandContext(ctx, c.path, "pull", image)
	cmd.Stdout, cmd.Stderr = progress, progress
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s pull %s failed (%w): pull it by hand, or set MONGODB_URI, or put mongod on PATH", c.runtime, image, errors.Join(err, ctx.Err()))
	}
	return nil
}

// sweep removes containers whose owner was killed.
func (c *container) sweep(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	out, err := exec.CommandContext(ctx, c.path, "ps", "--all", "--filter", "name="+containerPrefix, "--format", "{{.Names}}").Output()
	if err != nil {
		return
	}
	for name := range strings.FieldsSeq(string(out)) {
		owner, _, _ := strings.Cut(strings.TrimPrefix(name, containerPrefix), "-")
		if pid, err := strconv.Atoi(owner); err == nil && !child.Alive(pid) {
			_ = c.control("rm", "--force", "--volumes", name)
		}
	}
}

func say(w io.Writer, format string, args ...any) { _, _ = fmt.Fprintf(w, format+"\n", args...) }
