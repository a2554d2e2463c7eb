package mongoserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"
)

const (
	// startTimeout bounds the time from the launch of a server to its first answer. Servers need about a
	// second; the rest is for busy machines.
	startTimeout = 60 * time.Second
	// stopTimeout bounds an orderly shutdown (which flushes the storage); after it the server is killed.
	stopTimeout = 30 * time.Second
	// portTries is how often Start picks another free port when a stranger took the last one meanwhile.
	portTries = 5
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
	// Progress receives lines for people: what is built, pulled or waited for. nil discards them.
	Progress io.Writer
}

// Server is a running server. Its methods may be called from several goroutines.
type Server struct {
	opts    Options
	backend backend
	port    int
	uri     string
	dir     *workDir

	mu      sync.Mutex // serializes Stop, Kill and Restart
	proc    *process   // the current or last one
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
	if err := checkPort(opts.Port); err != nil {
		return nil, err
	}
	b, err := findBackend(ctx, opts.Progress)
	if err != nil {
		return nil, err
	}
	dir, err := newWorkDir(opts.StoragePath)
	if err != nil {
		return nil, err
	}
	s := &Server{opts: opts, backend: b, dir: dir, port: opts.Port}
	for try := 1; ; try++ {
		if opts.Port == 0 {
			if s.port, err = freePort(); err != nil {
				break
			}
		}
		if err = s.launch(ctx); err == nil {
			return s, nil
		}
		if !errors.Is(err, errPortTaken) || opts.Port != 0 || try == portTries {
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
	return s.proc.done
}

// LogTail returns the last lines that the server has written to its log.
func (s *Server) LogTail() string { return tail(s.dir.logPath(), tailLines) }

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
		s.proc.stop(stopTimeout, s.backend.kill)
	}
	s.backend.remove()
	if err := s.dir.remove(); err != nil {
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
	s.proc.kill(s.backend.kill)
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
	s.proc.stop(stopTimeout, s.backend.kill)
	return s.launch(ctx)
}

// launch starts the process and waits until it serves. On failure the process is gone again.
func (s *Server) launch(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	cmd := s.backend.command(run{
		port: s.port, dataDir: s.dir.data, configPath: s.dir.configPath(), ownStorage: s.opts.StoragePath != "",
		standalone: s.opts.Standalone, syncOnCommit: s.opts.SyncOnCommit, args: s.opts.Args,
	})
	proc, err := startProcess(cmd, s.dir.logPath())
	if err != nil {
		return fmt.Errorf("start %s: %w", s.backend.name(), err)
	}
	s.proc = proc
	initiate := s.backend.initiates() && !s.opts.Standalone
	uri, err := awaitReady(ctx, proc, s.port, initiate)
	if err != nil {
		proc.kill(s.backend.kill)
		lines := tail(s.dir.logPath(), tailLines)
		if mentionsTakenPort(lines) {
			return fmt.Errorf("%w", portTakenError(s.port))
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

// workDir is what belongs to one server on the disk: its log, its lock and, unless the caller has a place
// of their own for it, its data.
type workDir struct {
	path, data  string
	unlock      func()
	releaseData func() // of a storage path that is the caller's; nil otherwise
}

// workDirPrefix starts the names of the temporary directories, so that leftovers are recognized.
const workDirPrefix = "pulse-mongoserver-"

func newWorkDir(storage string) (*workDir, error) {
	sweepWorkDirs()
	d := &workDir{}
	for {
		path, err := os.MkdirTemp("", workDirPrefix+strconv.Itoa(os.Getpid())+"-")
		if err != nil {
			return nil, fmt.Errorf("make a temporary directory: %w", err)
		}
		unlock, err := lockFile(filepath.Join(path, "lock"))
		if errors.Is(err, errLocked) || errors.Is(err, os.ErrNotExist) {
			// The sweep of another process saw the directory before it was locked and takes it for a
			// leftover: leave it to that one.
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("lock a temporary directory: %w", err)
		}
		if _, err := os.Stat(filepath.Join(path, "lock")); err != nil {
			unlock() // swept between the two steps
			continue
		}
		d.path, d.unlock = path, unlock
		break
	}
	d.data = filepath.Join(d.path, "data")
	if storage != "" {
		abs, err := filepath.Abs(storage)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("storage path %q: %w", storage, err), d.remove())
		}
		d.data = abs
	}
	if err := os.MkdirAll(d.data, 0o700); err != nil {
		return nil, errors.Join(fmt.Errorf("make the storage directory: %w", err), d.remove())
	}
	if storage != "" {
		release, err := lockFile(d.data + ".lock")
		if errors.Is(err, errLocked) {
			return nil, errors.Join(fmt.Errorf("the storage %s is in use by another server: stop that one, or choose another place", d.data), d.remove())
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("lock the storage: %w", err), d.remove())
		}
		d.releaseData = release
	}
	// An explicit, empty configuration file keeps settings that lie around in the working directory out.
	if err := os.WriteFile(d.configPath(), nil, 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("write the configuration: %w", err), d.remove())
	}
	return d, nil
}

func (d *workDir) logPath() string    { return filepath.Join(d.path, "server.log") }
func (d *workDir) configPath() string { return filepath.Join(d.path, "server.toml") }

func (d *workDir) remove() error {
	err := os.RemoveAll(d.path)
	d.unlock()
	if d.releaseData != nil {
		d.releaseData()
	}
	return err
}

// sweepWorkDirs removes what servers of killed processes left behind: directories whose lock nobody holds.
// It is tidying alone, so errors do not matter.
func sweepWorkDirs() {
	paths, _ := filepath.Glob(filepath.Join(os.TempDir(), workDirPrefix+"*"))
	for _, path := range paths {
		lock := filepath.Join(path, "lock")
		if _, err := os.Stat(lock); err != nil {
			continue // just being made
		}
		if unlock, err := lockFile(lock); err == nil {
			_ = os.RemoveAll(path)
			unlock()
		}
	}
}
