package observe

import (
	"context"
	"fmt"

	"github.com/orionjs/orion-go/internal/hostile"
)

// Guard returns an observer of which no method panics: a panic of o goes to report, which may be called by several
// goroutines at once, and the call is as if o were [Nothing]. The same holds where o returns nil. A nil o is returned
// as it is. Clients and transports put it around Config.Observer.
func Guard(o Observer, report func(error)) Observer {
	if o == nil {
		return nil
	}
	return &guard{o, report}
}

type guard struct {
	to     Observer
	report func(error)
}

// call runs f, and tells of its panic.
func (g *guard) call(method string, f func()) {
	defer func() {
		if r := recover(); r != nil {
			g.report(fmt.Errorf("the observer's %s panicked: %s", method, hostile.Print(r)))
		}
	}()
	f()
}

func (g *guard) Publish(ctx context.Context, p Publish) (context.Context, Publishing) {
	within, publishing := Nothing{}.Publish(ctx, p)
	g.call("Publish", func() {
		if c, p := g.to.Publish(ctx, p); c != nil && p != nil {
			within, publishing = c, guardedPublishing{p, g}
		}
	})
	return within, publishing
}

func (g *guard) Attempt(ctx context.Context, a Attempt) (context.Context, func(*Failure)) {
	within, ended := Nothing{}.Attempt(ctx, a)
	g.call("Attempt", func() {
		if c, end := g.to.Attempt(ctx, a); c != nil && end != nil {
			within, ended = c, func(f *Failure) { g.call("Attempt, at its end,", func() { end(f) }) }
		}
	})
	return within, ended
}

func (g *guard) Settled(s Settled)     { g.call("Settled", func() { g.to.Settled(s) }) }
func (g *guard) LeaseLost(l LeaseLost) { g.call("LeaseLost", func() { g.to.LeaseLost(l) }) }
func (g *guard) Claimed(c Claimed)     { g.call("Claimed", func() { g.to.Claimed(c) }) }
func (g *guard) Woken(w Woken)         { g.call("Woken", func() { g.to.Woken(w) }) }

func (g *guard) Backlog(read func(context.Context) ([]Backlog, error)) (stop func()) {
	stop = func() {}
	g.call("Backlog", func() {
		if s := g.to.Backlog(read); s != nil {
			stop = func() { g.call("Backlog, at its end,", s) }
		}
	})
	return stop
}

type guardedPublishing struct {
	Publishing
	by *guard
}

func (p guardedPublishing) Headers(given map[string]string) (headers map[string]string) {
	headers = given
	p.by.call("Headers", func() { headers = p.Publishing.Headers(given) })
	return headers
}

func (p guardedPublishing) End(s Sent) { p.by.call("End", func() { p.Publishing.End(s) }) }
