// Package devserver runs a command with the services it needs, for `pulse dev`.
//
// Everything that pulse dev starts ends with it. The services and the command have process groups of their
// own: a Ctrl-C in the terminal reaches the command alone (see command_unix.go), and the services are
// stopped after it has ended. Killing pulse dev itself leaves nothing behind either: the kernel ends the
// services (on Linux), and a guard process ends the command's group.
package devserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Exit statuses of pulse dev itself, the same as those of env and timeout.
const (
	exitFailed        = 125
	exitNotExecutable = 126
	exitNotFound      = 127
	exitSignal        = 128 // plus the signal's number
)

// Config says what Run does.
type Config struct {
	// Port of the MongoDB server. 0 takes a free one.
	Port int
	// Keep keeps the servers' data in the user's cache directory.
	Keep bool
	// Kafka brings up a Kafka broker, too.
	Kafka bool
	// ServerArgs go to the MongoDB server's command line.
	ServerArgs []string
	// StopTimeout is the time between the wish that the command ends and its being killed.
	StopTimeout time.Duration
	// Command and its arguments. Empty: the services stay up until a signal.
	Command []string
	// Stdin and Stdout are the command's. Stderr is too, and takes what pulse dev has to say.
	Stdin, Stdout, Stderr *os.File
}

// service is something the command needs. Each kind is one implementation, and servicesFor chooses among them.
type service interface {
	// start returns when the service is ready, with the environment variables that lead to it.
	start(ctx context.Context) (env []string, err error)
	// exited is closed when the service ends by itself; nil if it was not started here.
	exited() <-chan struct{}
	// describe is one line for people; logTail is what it wrote last.
	describe() string
	logTail() string
	stop() error
}

func servicesFor(cfg Config) []service {
	services := []service{newMongo(cfg)}
	if cfg.Kafka {
		services = append(services, newKafka(cfg))
	}
	return services
}

// Run does all of `pulse dev` and returns the exit status.
func Run(cfg Config) int {
	endWithGoRun()
	adoptOrphans()
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, endSignals...)
	// A reader of our output that goes away must not keep us from stopping what we started.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)

	r := &runner{cfg: cfg, signals: signals}
	status := r.run()
	if err := r.stopServices(); err != nil {
		r.say("%v", err)
		if status == 0 {
			status = exitFailed
		}
	}
	return status
}

type runner struct {
	cfg      Config
	signals  chan os.Signal
	services []service // the started ones
	env      []string
}

func (r *runner) run() int {
	if len(r.cfg.Command) > 0 {
		// Found out before minutes go into services that nobody will use.
		if _, err := exec.LookPath(r.cfg.Command[0]); err != nil {
			return r.cannotRun(err)
		}
	}
	if sig, err := r.startServices(); sig != nil {
		r.say("stopped by %v while starting", sig)
		return exitSignal + int(sig.(syscall.Signal))
	} else if err != nil {
		r.say("%v", err)
		return exitFailed
	}
	if len(r.cfg.Command) == 0 {
		return r.stayUp()
	}
	return r.runCommand()
}

// startServices returns the signal that interrupted it, if one did.
func (r *runner) startServices() (os.Signal, error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	done := make(chan error, 1)
	go func() {
		for _, s := range servicesFor(r.cfg) {
			env, err := s.start(ctx)
			if err != nil {
				done <- err
				return
			}
			r.services = append(r.services, s)
			r.env = append(r.env, env...)
			r.say("%s", s.describe())
		}
		done <- nil
	}()
	select {
	case err := <-done:
		return nil, err
	case sig := <-r.signals:
		cancel()
		<-done
		return sig, nil
	}
}

func (r *runner) stopServices() error {
	var errs []error
	for i := len(r.services) - 1; i >= 0; i-- {
		errs = append(errs, r.services[i].stop())
	}
	return errors.Join(errs...)
}

// stayUp serves until somebody wants the end, which is what this mode is for and so no failure.
func (r *runner) stayUp() int {
	ended := r.serviceEnded()
	if ended == nil {
		// The settings are the user's own and may hold a password: they are not repeated.
		r.say("there is nothing to start")
		return 0
	}
	for _, e := range r.env {
		name, value, _ := strings.Cut(e, "=")
		_, _ = fmt.Fprintf(r.cfg.Stdout, "export %s='%s'\n", name, value)
	}
	r.say("use it in another terminal with what is printed above; Ctrl-C stops it")
	select {
	case <-r.signals:
		r.say("stopping")
		return 0
	case s := <-ended:
		r.reportEnded(s)
		return exitFailed
	}
}

// runCommand runs the command to its end. A wish to end, by signal or because a service is lost, gives it
// StopTimeout to do so by itself.
func (r *runner) runCommand() int {
	cmd, err := startCommand(r.cfg, append(os.Environ(), r.env...))
	if err != nil {
		return r.cannotRun(err)
	}
	defer cmd.finish(r.cfg.StopTimeout)
	ended, lost := r.serviceEnded(), false
	deadline, cancel := context.Background(), context.CancelFunc(func() {})
	defer func() { cancel() }()
	var asked wishes
	startDeadline := func() {
		if _, set := deadline.Deadline(); !set {
			deadline, cancel = context.WithTimeout(deadline, r.cfg.StopTimeout)
		}
	}
	for {
		select {
		case <-cmd.done:
			if lost {
				return exitFailed
			}
			return cmd.status
		case sig := <-r.signals:
			if asked.isNew(sig) {
				cmd.signal(sig)
			}
			startDeadline()
		case s := <-ended:
			r.reportEnded(s)
			ended, lost = nil, true
			cmd.signal(syscall.SIGTERM)
			startDeadline()
		case <-deadline.Done():
			r.say("%s did not end within %s: killing it", r.cfg.Command[0], r.cfg.StopTimeout)
			cmd.kill()
			<-cmd.done
			return cmd.status
		}
	}
}

// signalBurst is the time in which the same signal from several senders counts as one.
const signalBurst = 300 * time.Millisecond

// wishes tells one wish to end from another. Many programs take the second signal for a wish to end without
// shutting down, so one must not become two: the kernel repeats the SIGTERM of endWithGoRun for each thread
// of the parent, and `go tool` hands us the Ctrl-C that we have got from the terminal ourselves.
type wishes struct {
	seen  []os.Signal
	burst *time.Timer
}

// isNew says whether the command has to hear of the signal. Only Ctrl-C means something when it comes again,
// and nobody types it twice within a burst.
func (w *wishes) isNew(sig os.Signal) bool {
	inBurst := w.burst != nil && w.burst.Stop()
	w.burst = time.NewTimer(signalBurst)
	repeated := slices.Contains(w.seen, sig)
	w.seen = append(w.seen, sig)
	return !repeated || sig == os.Interrupt && !inBurst
}

// serviceEnded returns a channel with the first service that ends by itself, or nil when none was started
// here. The goroutines end with the services, at the latest when those are stopped.
func (r *runner) serviceEnded() <-chan service {
	ended := make(chan service, len(r.services))
	watched := false
	for _, s := range r.services {
		if exited := s.exited(); exited != nil {
			watched = true
			go func() { <-exited; ended <- s }()
		}
	}
	if !watched {
		return nil
	}
	return ended
}

func (r *runner) reportEnded(s service) {
	r.say("a service ended by itself: %s; its last output:\n%s", s.describe(), s.logTail())
}

func (r *runner) cannotRun(err error) int {
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist) {
		r.say("the command %q was not found: check its name and PATH", r.cfg.Command[0])
		return exitNotFound
	}
	r.say("the command %q cannot be run: %v", r.cfg.Command[0], err)
	return exitNotExecutable
}

func (r *runner) say(format string, args ...any) { say(r.cfg.Stderr, format, args...) }

// say writes one line of pulse dev itself, told apart from the command's output by its beginning.
func say(w io.Writer, format string, args ...any) {
	_, _ = fmt.Fprintf(w, "pulse dev: %s\n", fmt.Sprintf(format, args...))
}
