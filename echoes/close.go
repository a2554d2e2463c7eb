package echoes

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// closeFromHandler bounds how long running handlers may take after one of them
// closed the App, unless another Close is less patient.
const closeFromHandler = time.Minute

// closing is the one way to the end of an App that all calls of Close share.
type closing struct {
	ctx    context.Context
	cancel context.CancelFunc
	done   chan struct{}
	err    error // set before done is closed
}

// Close ends the App: no event is taken any more, running handlers finish,
// bounded by ctx, and are cancelled then, their outcomes are stored, and the
// connections that the App opened are closed. A delivery whose handler was
// cancelled is handed back. When several goroutines call it, the least patient
// context counts.
//
// It is idempotent, may be called during Start, which then returns ErrClosed,
// and by a handler: with the handler's context it only begins and returns nil,
// and the App is closed when the handlers have returned. A closed App cannot be
// started again.
func (a *App) Close(ctx context.Context) error {
	fromHandler := a.inHandler(ctx)
	c := a.beginClose(fromHandler)
	if fromHandler {
		return nil
	}
	select {
	case <-c.done:
	case <-ctx.Done():
		c.cancel()
		<-c.done // soon: carriers bound what they do after their context
	}
	return c.err
}

// beginClose starts closing unless that was done before. It does not derive
// from a caller's context, since callers differ in patience and a handler's
// context would end with its handler.
func (a *App) beginClose(fromHandler bool) *closing {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closing != nil {
		return a.closing
	}
	c := &closing{done: make(chan struct{})}
	if fromHandler {
		c.ctx, c.cancel = context.WithTimeout(context.Background(), closeFromHandler)
	} else {
		c.ctx, c.cancel = context.WithCancel(context.Background())
	}
	a.closing = c
	if a.state == stateStarting {
		a.abort(ErrClosed)
	}
	a.state = stateClosed
	settled := a.settled
	go func() {
		defer close(c.done)
		defer c.cancel()
		c.err = errors.Join(a.closeCarriers(c.ctx), waitFor(c.ctx, settled))
		if c.err != nil && fromHandler {
			a.cfg.Logger.Warn("echoes: closing on a handler's request", "error", c.err)
		}
	}()
	return c
}

// waitFor waits until the running Start, if there is one, has returned.
func waitFor(ctx context.Context, settled <-chan struct{}) error {
	if settled == nil {
		return nil
	}
	select {
	case <-settled:
		return nil
	case <-ctx.Done():
	}
	select {
	case <-settled: // it had, long ago
		return nil
	default:
		return fmt.Errorf("echoes: close: the running start has not ended: %w", context.Cause(ctx))
	}
}

// closeCarriers closes what is open, all at once: each may wait for handlers.
func (a *App) closeCarriers(ctx context.Context) error {
	a.mu.Lock()
	open := append([]Carrier(nil), a.open...)
	a.mu.Unlock()
	errs := make([]error, len(open))
	var wg sync.WaitGroup
	for i, carrier := range open {
		wg.Go(func() {
			if err := carrier.Close(ctx); err != nil {
				errs[i] = fmt.Errorf("echoes: close %s: %w", carrier.Name(), err)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}
