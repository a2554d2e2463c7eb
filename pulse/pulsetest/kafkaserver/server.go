package kafkaserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/orionjs/orion-go/pulse/pulsetest/internal/child"
)

const (
	// startTimeout bounds the time from the launch of a broker until it serves. It needs about three seconds;
	// the rest is for busy machines.
	startTimeout = 90 * time.Second
	// stopTimeout bounds an orderly shutdown; after it the broker is killed.
	stopTimeout = 30 * time.Second
	// portTries is how often Start picks other free ports when a stranger took one meanwhile.
	portTries = 5
	// workDirPrefix starts the names of the temporary directories, so that leftovers are recognized.
	workDirPrefix = "pulse-kafkaserver-"
	// clusterID is that of every broker; kept storage belongs to it.
	clusterID = "cHVsc2UgZGV2IGthZmthIQ"
)

// Options say what kind of broker Start brings up. The zero value is one on a free port with temporary
// storage, without encryption and authentication.
type Options struct {
	// Port to listen on, at 127.0.0.1. 0, the default, takes a free one.
	Port int
	// StoragePath is a directory that keeps the data; it is created if missing and stays after Stop. Only
	// one broker at a time can use it (a file beside it, with .lock at the end of its name, guards that).
	// Empty, the default, is a temporary directory that Stop removes.
	StoragePath string
	// Properties are further settings of the broker, as in its server.properties; they win over those that
	// Start chooses. The listener of clients has the name CLIENT: with listener.security.protocol.map =
	// "CLIENT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT" and what belongs to it, clients have to authenticate.
	Properties map[string]string
	// Client has further options for the client that waits until the broker serves, for a broker whose
	// Properties ask clients for more than an address.
	Client []kgo.Opt
	// Progress receives lines for people: what is fetched or waited for. nil discards them.
	Progress io.Writer
}

// Server is a running broker. Its methods may be called from several goroutines.
type Server struct {
	opts       Options
	java, libs string
	port       int
	dir        *child.Dir

	mu      sync.Mutex // serializes Stop, Kill and Restart
	proc    *child.Process
	stopped bool
}

// ErrStopped is returned by Restart and Kill after Stop: the storage is gone; start a new broker.
var ErrStopped = errors.New("the broker has been stopped for good: start a new one")

// Start brings up a broker and returns once it serves clients. ctx bounds the start alone; the broker runs
// until Stop. The error says in one sentence what is missing and how to provide it.
func Start(ctx context.Context, opts Options) (*Server, error) {
	if opts.Progress == nil {
		opts.Progress = io.Discard
	}
	if err := child.CheckPort(opts.Port); err != nil {
		return nil, err
	}
	java, err := findJava()
	if err != nil {
		return nil, err
	}
	libs, err := findKafka(ctx, opts.Progress)
	if err != nil {
		return nil, err
	}
	dir, err := child.NewDir(workDirPrefix, opts.StoragePath)
	if err != nil {
		return nil, err
	}
	s := &Server{opts: opts, java: java, libs: libs, dir: dir, port: opts.Port}
	for try := 1; ; try++ {
		if opts.Port == 0 {
			if s.port, err = child.FreePort(); err != nil {
				break
			}
		}
		if err = s.launch(ctx); err == nil {
			return s, nil
		}
		if opts.Port != 0 || try == portTries || !errors.Is(err, child.ErrPortTaken) {
			break
		}
	}
	return nil, errors.Join(err, s.Stop())
}

// Addr returns the address for clients, a host with a port. It stays the same over Kill and Restart.
func (s *Server) Addr() string { return child.Addr(s.port) }

// Exited returns a channel that is closed when the broker's present process has ended, for whatever reason.
// After Restart there is a new channel.
func (s *Server) Exited() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.proc.Done
}

// LogTail returns the last lines that the broker has written to its log, without stack traces.
func (s *Server) LogTail() string {
	const window = 500 // lines, enough for a few traces
	lines := strings.Split(child.Tail(s.dir.LogPath(), window), "\n")
	lines = slices.DeleteFunc(lines, func(line string) bool {
		return strings.HasPrefix(line, "at ") || strings.HasPrefix(line, "... ")
	})
	return strings.Join(lines[max(0, len(lines)-child.TailLines):], "\n")
}

// Stop ends the broker and removes its temporary storage. One with storage that stays ends in an orderly way,
// and is killed after 30 seconds. Stopping twice is no error.
func (s *Server) Stop() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return nil
	}
	s.stopped = true
	switch {
	case s.proc == nil:
	case s.opts.StoragePath == "":
		s.proc.Kill(kill)
	default:
		s.proc.Stop(stopTimeout, kill)
	}
	if err := s.dir.Remove(); err != nil {
		return fmt.Errorf("remove the storage of the stopped broker: %w", err)
	}
	return nil
}

// Kill ends the broker at once, as a crash would, and returns when its process is gone. The storage stays for
// Restart: Kafka leaves writing to the disk to the operating system, which outlives the broker.
func (s *Server) Kill() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return ErrStopped
	}
	s.proc.Kill(kill)
	return nil
}

// Restart starts the broker again with the same port and storage and returns once it serves. One that still
// runs is stopped in an orderly way first. ctx bounds the whole.
func (s *Server) Restart(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return ErrStopped
	}
	s.proc.Stop(stopTimeout, kill)
	return s.launch(ctx)
}

func kill(p *child.Process) { child.KillGroup(p.Handle) }

// launch starts the process and waits until it serves. On failure the process is gone again.
func (s *Server) launch(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for try := 1; ; try++ {
		err := s.tryLaunch(ctx)
		// The port that is taken may be the controller's, and the next try gets another one.
		if try == portTries || !errors.Is(err, child.ErrPortTaken) || child.CheckPort(s.port) != nil {
			return err
		}
	}
}

func (s *Server) tryLaunch(ctx context.Context) error {
	if err := s.configure(ctx); err != nil {
		return err
	}
	// Nothing is lost by killing it when this process dies, and an orderly shutdown could hang.
	proc, err := child.StartLogged(s.run("kafka.Kafka", s.dir.ConfigPath()), syscall.SIGKILL, s.dir.LogPath())
	if err != nil {
		return fmt.Errorf("start Kafka: %w", err)
	}
	s.proc = proc
	if err := awaitReady(ctx, proc, s.port, s.opts.Client); err != nil {
		proc.Kill(kill)
		return s.explain(err)
	}
	return nil
}

// configure writes the configuration and, the first time, formats the storage. The controller gets another
// port each time: nobody outside needs to find it.
func (s *Server) configure(ctx context.Context) error {
	controller, err := child.FreePort()
	if err != nil {
		return err
	}
	var text strings.Builder
	settings := s.settings(controller)
	for _, key := range slices.Sorted(maps.Keys(settings)) {
		_, _ = fmt.Fprintf(&text, "%s=%s\n", key, strings.ReplaceAll(settings[key], `\`, `\\`))
	}
	if err := os.WriteFile(s.dir.ConfigPath(), []byte(text.String()), 0o600); err != nil {
		return fmt.Errorf("write the configuration: %w", err)
	}
	format := s.run("kafka.tools.StorageTool", "format", "--ignore-formatted",
		"--cluster-id", clusterID, "--config", s.dir.ConfigPath())
	proc, err := child.StartLogged(format, syscall.SIGKILL, s.dir.LogPath())
	if err != nil {
		return fmt.Errorf("format the storage of Kafka: %w", err)
	}
	stopped := context.AfterFunc(ctx, func() { kill(proc) })
	defer stopped()
	if err := proc.Wait(); err != nil {
		return s.explain(fmt.Errorf("its storage cannot be formatted: %w", errors.Join(ctx.Err(), err)))
	}
	return nil
}

// settings are those of a single node that starts and stops fast.
func (s *Server) settings(controller int) map[string]string {
	client := "CLIENT://" + child.Addr(s.port)
	settings := map[string]string{
		"process.roles":                  "broker,controller",
		"node.id":                        "1",
		"controller.quorum.voters":       "1@" + child.Addr(controller),
		"listeners":                      client + ",CONTROLLER://" + child.Addr(controller),
		"advertised.listeners":           client,
		"listener.security.protocol.map": "CLIENT:PLAINTEXT,CONTROLLER:PLAINTEXT",
		"inter.broker.listener.name":     "CLIENT",
		"controller.listener.names":      "CONTROLLER",
		"log.dirs":                       s.dir.Data,
		// As many as a new topic gets by default, so that what depends on several partitions shows.
		"num.partitions": "4",
		// Kafka's own topics have fifty partitions with three replicas by default.
		"offsets.topic.num.partitions":                     "1",
		"offsets.topic.replication.factor":                 "1",
		"transaction.state.log.num.partitions":             "1",
		"transaction.state.log.replication.factor":         "1",
		"transaction.state.log.min.isr":                    "1",
		"share.coordinator.state.topic.num.partitions":     "1",
		"share.coordinator.state.topic.replication.factor": "1",
		"share.coordinator.state.topic.min.isr":            "1",
		// The first member of a group would wait for three seconds for others.
		"group.initial.rebalance.delay.ms": "0",
		// A broker that was killed cannot register again before its session has ended.
		"broker.heartbeat.interval.ms": "500",
		"broker.session.timeout.ms":    "3000",
	}
	maps.Copy(settings, s.opts.Properties)
	return settings
}

// run is a command of Kafka's in a small virtual machine that does not optimize long: it starts in half the
// time.
func (s *Server) run(args ...string) *exec.Cmd {
	return exec.Command(s.java, append([]string{
		"-Xms64m", "-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:+ExitOnOutOfMemoryError",
		"-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", s.libs + "/*",
	}, args...)...)
}

// explain adds what the broker has said.
func (s *Server) explain(cause error) error {
	lines := s.LogTail()
	switch {
	case child.MentionsTakenPort(lines):
		return fmt.Errorf("%w", child.PortTakenError(s.port))
	case strings.Contains(lines, "UnsupportedClassVersionError"):
		return fmt.Errorf("the Java of %s is too old for Kafka %s: install 17 or newer, let JAVA_HOME or PATH lead to it, or %s", s.java, kafkaVersion, otherWays)
	case lines == "":
		lines = "(it wrote nothing)"
	}
	return fmt.Errorf("the Kafka broker on port %d did not come up: %w; its last output:\n%s", s.port, cause, lines)
}
