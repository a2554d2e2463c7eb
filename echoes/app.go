package echoes

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/orionjs/orion-go/internal/hostile"
	"github.com/orionjs/orion-go/pulse"
)

// ErrClosed is returned by an App after Close. It is pulse.ErrClosed, so one
// check serves both.
var ErrClosed = pulse.ErrClosed

// InvalidEventError is returned, wrapped, by Publish and PublishMany for an
// event that can never be stored: a bad topic, ID or header, params that cannot
// be encoded, or too many bytes. Nothing was stored, and trying again does not
// help. It is pulse.InvalidEventError, so one check serves both.
type InvalidEventError = pulse.InvalidEventError

var (
	// ErrStarted is returned by Start when the App is running or starting.
	ErrStarted = errors.New("echoes: the app has been started already")
	// ErrNotStarted is returned by Publish before Start.
	ErrNotStarted = errors.New("echoes: the app has not been started: call Start before Publish")
)

// undoTimeout bounds how long a failed Start takes to close what it opened.
const undoTimeout = 15 * time.Second

// App runs services: it connects the transports, hands events to the services'
// listeners and publishes. Its methods may be called concurrently.
type App struct {
	cfg       Config
	services  []Service
	byService [][]Listener
	listeners []Listener
	pulse     Carrier // nil when not configured
	skipped   counts
	onError   hostile.Callback

	mu      sync.Mutex
	state   state
	abort   context.CancelCauseFunc // ends the running Start
	settled chan struct{}           // closed when the running Start has returned
	open    []Carrier               // connected or connecting, in the order of Start
	ready   bool                    // all of open are connected
	closing *closing                // made by the first Close
}

type state int

const (
	stateNew state = iota // also after a failed start
	stateStarting
	stateRunning
	stateClosed
)

// New makes an App of services, which may be none: then it only publishes.
// Nothing is connected and the configuration is not judged yet: Start does
// that, and Check. New itself fails only when a service's EchoesListeners
// panics.
func New(cfg Config, services ...Service) (*App, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	a := &App{cfg: cfg, services: services, byService: make([][]Listener, len(services))}
	for i, s := range services {
		if isNil(s) || nilInside(s) != "" {
			continue // reported by the start-up check
		}
		listeners, err := listenersOf(s)
		if err != nil {
			return nil, err
		}
		a.byService[i] = listeners
		a.listeners = append(a.listeners, listeners...)
	}
	if cfg.Pulse != nil {
		a.pulse = newPulseCarrier(*cfg.Pulse)
	}
	return a, nil
}

func listenersOf(s Service) (listeners []Listener, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("echoes: EchoesListeners of %T panicked: %s", s, hostile.Print(r))
		}
	}()
	return s.EchoesListeners(), nil
}

// Listeners returns the listeners of all services, in their order.
func (a *App) Listeners() []Listener { return append([]Listener(nil), a.listeners...) }

// Check does the start-up check of Start, without starting and without any I/O.
// It returns a *StartupError with every problem, or nil. A test of a service
// can call it to find wrong annotations and configurations.
func (a *App) Check() error {
	_, err := a.plan()
	return err
}

// plan is what Start is going to do.
type plan struct {
	carriers  []Carrier // Pulse first
	receivers map[Carrier][]Receiver
}

// plan checks everything that needs no I/O and decides who receives what.
func (a *App) plan() (plan, error) {
	c := &check{cfg: a.cfg, defaults: settingsOf(a.cfg.Defaults)}
	c.routes(a.listeners)
	c.serviceDefaults()
	c.middleware()
	c.services(a.services, a.byService)
	c.topics(a.services, a.byService)

	p := plan{receivers: map[Carrier][]Receiver{}}
	use := map[string]bool{}
	add := func(selection string, r *Receiver) {
		for _, name := range []string{transportPulse, transportKafka} {
			carrier := a.carrier(name)
			if carrier == nil || selection != name && selection != transportBoth {
				continue
			}
			use[name] = true
			if r != nil {
				p.receivers[carrier] = append(p.receivers[carrier], *r)
			}
		}
	}
	for _, l := range a.listeners {
		r := Receiver{Listener: l, InForce: c.listener(l)}
		r.Handle = a.handler(r)
		add(a.cfg.source(l), &r)
	}
	add(a.cfg.publishTo(), nil)
	for _, name := range []string{transportPulse, transportKafka} {
		if use[name] {
			carrier := a.carrier(name)
			p.carriers = append(p.carriers, carrier)
			c.problems = append(c.problems, carrier.Check(p.receivers[carrier])...)
		}
	}
	if len(c.problems) > 0 {
		return plan{}, &StartupError{Problems: c.problems}
	}
	return p, nil
}

// carrier returns a configured transport, else nil.
func (a *App) carrier(name string) Carrier {
	if name == transportKafka {
		return a.cfg.Kafka
	}
	return a.pulse
}

// Start checks the configuration and all listeners, connects the transports
// that are used, and lets handlers run. ctx bounds the start only. A
// *StartupError lists everything that is wrong at once (spec 7.6).
//
// After an error nothing is left open and Start may be called again. Start
// returns ErrStarted when the App runs or starts, and ErrClosed after Close or
// when Close interrupted it.
func (a *App) Start(ctx context.Context) error {
	ctx, abort := context.WithCancelCause(ctx)
	defer abort(nil)
	settled := make(chan struct{})
	defer close(settled)

	a.mu.Lock()
	switch a.state {
	case stateStarting, stateRunning:
		a.mu.Unlock()
		return ErrStarted
	case stateClosed:
		a.mu.Unlock()
		return ErrClosed
	case stateNew:
	}
	a.state, a.abort, a.settled = stateStarting, abort, settled
	a.mu.Unlock()

	err := a.start(ctx)
	if a.finishStart(err) {
		return err
	}
	// Undo. Close may be at it already and waits for us; a carrier's Close may
	// be called twice.
	undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTimeout)
	defer cancel()
	undone := a.closeCarriers(undo)

	a.mu.Lock()
	defer a.mu.Unlock()
	if a.state == stateClosed {
		return ErrClosed
	}
	a.state, a.open, a.ready = stateNew, nil, false
	if undone != nil {
		a.cfg.Logger.Warn("echoes: closing after a failed start", "error", undone)
	}
	return err
}

// finishStart settles a start that succeeded, and reports false when it has to
// be undone: it failed, or Close was called meanwhile.
func (a *App) finishStart(err error) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err != nil || a.state == stateClosed {
		return false
	}
	a.state = stateRunning
	return true
}

func (a *App) start(ctx context.Context) error {
	p, err := a.plan()
	if err != nil {
		return err
	}
	// All connect before the first starts, so that nothing is handled when one
	// of them cannot connect.
	var problems, other []Problem
	var errs []error
	fail := func(err error) {
		var startup *StartupError
		if errors.As(err, &startup) {
			problems = append(problems, startup.Problems...)
		} else {
			other = append(other, Problem{Text: err.Error()})
		}
		errs = append(errs, err)
	}
	for _, carrier := range p.carriers {
		if !a.opening(carrier) {
			return ErrClosed
		}
		link := Link{Receivers: p.receivers[carrier], Logger: a.cfg.Logger, Observer: a.cfg.Observer, OnError: a.cfg.OnError}
		if err := carrier.Connect(ctx, link); err != nil {
			fail(fmt.Errorf("echoes: connect %s: %w", carrier.Name(), err))
		}
	}
	if len(errs) == 0 {
		if !a.setReady() {
			return ErrClosed
		}
		for _, carrier := range p.carriers {
			if err := carrier.Start(ctx); err != nil {
				fail(fmt.Errorf("echoes: start %s: %w", carrier.Name(), err))
				break
			}
		}
	}
	switch {
	case len(problems) > 0:
		return &StartupError{Problems: append(problems, other...), Err: errors.Join(errs...)}
	case len(errs) == 1:
		return errs[0]
	default:
		return errors.Join(errs...)
	}
}

// opening registers a carrier before it connects, so that Close finds it. It
// reports false when Close was called.
func (a *App) opening(carrier Carrier) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.state == stateClosed {
		return false
	}
	a.open = append(a.open, carrier)
	return true
}

// setReady allows publishing, which handlers may do before Start has returned.
// It reports false when Close was called.
func (a *App) setReady() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ready = a.state != stateClosed
	return a.ready
}
