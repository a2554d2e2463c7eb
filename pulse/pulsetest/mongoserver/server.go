package mongoserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/orionjs/orion-go/pulse/pulsetest/internal/child"
)

const (
	// startTimeout bounds the time from the launch of a server to its first answer. Servers need about a
	// second; the rest is for busy machines.
	startTimeout = 60 * time.Second
	// stopTimeout bounds an orderly shutdown (which flushes the storage); after it the server is killed.
	stopTimeout = 30 * time.Second
	// portTries is how often Start picks another free port when a stranger took the last one meanwhile.
	portTries = 5
	// workDirPrefix starts the names of the temporary directories, so that leftovers are recognized.
	workDirPrefix = "pulse-mongoserver-"
)

// Options say what kind of server Start brings up. The zero value is a replica set of one member on a free
// port with temporary storage.
type Options struct {
	// Port to listen on, at 127.0.0.1. 0, the default, takes a free one.
	Port int
	// StoragePath is a directory that keeps the data; it is created if missing and stays after Stop. Only
	// one server at a time can use it (a file beside it, with .lock at the end of its name, guards that).
	// Empty, the default, is a temporary directory that Stop removes.
	StoragePath string
	// Standalone leaves the replica set away: no change streams, no transactions.
	Standalone bool
	// SyncOnCommit makes every acknowledged write survive Kill. mongod does that by itself for majority
	// writes; secantusd-rs, without it, loses its last writes when killed.
	SyncOnCommit bool
	// Args are handed to the server's command line as they are, after those that Start chooses. Which exist
	// depends on the server: see [Server.Name].
	Args []string
	// Query is what connection strings to the server need beside its address, as in "tls=true&tlsCAFile=ca.pem"
	// for a server that Args make use encryption. URI contains it.
	Query string
	// Progress receives lines for people: what is built, pulled or waited for. nil discards them.
	Progress io.Writer
}

// Server is a running server. Its methods may be called from several goroutines.
type Server struct {
	opts    Options
	backend backend
	port    int
	uri     string
	dir     *child.Dir

	mu      sync.Mutex     // serializes Stop, Kill and Restart
	proc    *child.Process // the current or last one
	stopped bool
}

// ErrStopped is returned by Restart after Stop: the storage is gone; start a new server.
var ErrStopped = errors.New("the server has been stopped for good: start a new one")

// Start brings up a server and returns once it answers as a primary (or as a standalone). ctx bounds the
// start alone; the server runs until Stop. The error says in one sentence what is missing and how to
// provide it.
func Start(ctx context.Context, opts Options) (*Server, error) {
	if opts.Progress == nil {
		opts.Progress = io.Discard
	}
	if err := child.CheckPort(opts.Port); err != nil {
		return nil, err
	}
	b, err := findBackend(ctx, opts.Progress)
	if err != nil {
		return nil, err
	}
	dir, err := child.NewDir(workDirPrefix, opts.StoragePath)
	if err != nil {
		return nil, err
	}
	// An explicit, empty configuration file keeps settings that lie around in the working directory out.
	if err := os.WriteFile(dir.ConfigPath(), nil, 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("write the configuration: %w", err), dir.Remove())
	}
	s := &Server{opts: opts, backend: b, dir: dir, port: opts.Port}
	for try := 1; ; try++ {
		if opts.Port == 0 {
			if s.port, err = child.FreePort(); err != nil {
				break
			}
		}
		if err = s.launch(ctx); err == nil {
			return s, nil
		}
		if !errors.Is(err, child.ErrPortTaken) || opts.Port != 0 || try == portTries {
			break
		}
	}
	return nil, errors.Join(err, s.Stop())
}

// URI returns the connection string. It stays the same over Kill and Restart.
func (s *Server) URI() string { return s.uri }

// Port returns the port the server listens on, at 127.0.0.1.
func (s *Server) Port() int { return s.port }

// Name tells which server it is: mongod, docker, podman or secantusd-rs.
func (s *Server) Name() string { return s.backend.name() }

// Exited returns a channel that is closed when the server's present process has ended, for whatever
// reason. After Restart there is a new channel.
func (s *Server) Exited() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.proc.Done
}

// LogTail returns the last lines that the server has written to its log.
func (s *Server) LogTail() string { return child.Tail(s.dir.LogPath(), child.TailLines) }

// Stop ends the server in an orderly way, kills it after 30 seconds, and removes its temporary storage.
// Stopping twice is no error.
func (s *Server) Stop() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return nil
	}
	s.stopped = true
	if s.proc != nil {
		s.proc.Stop(stopTimeout, s.backend.kill)
	}
	s.backend.remove()
	if err := s.dir.Remove(); err != nil {
		return fmt.Errorf("remove the storage of the stopped server: %w", err)
	}
	return nil
}

// Kill ends the server at once, as a crash would, and returns when its process is gone. The storage stays
// for Restart.
func (s *Server) Kill() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return ErrStopped
	}
	s.proc.Kill(s.backend.kill)
	return nil
}

// Restart starts the server again with the same port and storage and returns once it answers. A server
// that still runs is stopped in an orderly way first. ctx bounds the whole.
func (s *Server) Restart(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return ErrStopped
	}
	s.proc.Stop(stopTimeout, s.backend.kill)
	return s.launch(ctx)
}

// launch starts the process and waits until it serves. On failure the process is gone again.
func (s *Server) launch(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	cmd := s.backend.command(run{
		port: s.port, dataDir: s.dir.Data, configPath: s.dir.ConfigPath(), ownStorage: s.opts.StoragePath != "",
		standalone: s.opts.Standalone, syncOnCommit: s.opts.SyncOnCommit, args: s.opts.Args,
	})
	// The signal for the death of this process is SIGTERM: a container runtime's client hands it on to the
	// container, and every server obeys it.
	proc, err := child.StartLogged(cmd, syscall.SIGTERM, s.dir.LogPath())
	if err != nil {
		return fmt.Errorf("start %s: %w", s.backend.name(), err)
	}
	s.proc = proc
	initiate := s.backend.initiates() && !s.opts.Standalone
	uri, err := awaitReady(ctx, proc, s.port, s.opts.Query, initiate)
	if err != nil {
		proc.Kill(s.backend.kill)
		lines := child.Tail(s.dir.LogPath(), child.TailLines)
		if child.MentionsTakenPort(lines) {
			return fmt.Errorf("%w", child.PortTakenError(s.port))
		}
		if lines == "" {
			lines = "(it wrote nothing)"
		}
		return fmt.Errorf("%s on port %d did not come up: %w; its last output:\n%s", s.backend.name(), s.port, err, lines)
	}
	if s.uri == "" { // a restart finds the same one, and URI reads it without the lock
		s.uri = uri
	}
	return nil
}
