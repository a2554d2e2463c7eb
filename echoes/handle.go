package echoes

import (
	"context"
	"fmt"
	"strings"
	"sync"
)

// handlerKey marks the contexts of an App's handlers.
type handlerKey struct{ app *App }

// inHandler reports whether ctx comes from one of a's handlers.
func (a *App) inHandler(ctx context.Context) bool { return ctx.Value(handlerKey{a}) != nil }

// handler returns what a carrier calls for an attempt of r. Everything that
// belongs around the handlers of all listeners and transports goes here.
func (a *App) handler(r Receiver) func(context.Context, []Message) error {
	skip := r.kind == KindBatch && equals(r.InForce.OnInvalid, invalidSkip)
	zeroCopy := equals(r.InForce.ZeroCopy, true)
	return func(ctx context.Context, ms []Message) error {
		ctx = context.WithValue(ctx, handlerKey{a}, true)
		if r.kind == KindEvent {
			ctx = withEvent(ctx, ms[0].Event)
		}
		var invalid []*DecodeError
		err := a.around(r, ms, func(ctx context.Context) error {
			how := decoding{zeroCopy: zeroCopy}
			if skip {
				invalid = nil // middleware may run the handler again
				how.invalid = func(e *DecodeError) { invalid = append(invalid, e) }
			}
			return r.handle(ctx, ms, how)
		})(ctx)
		// Only a batch that succeeds is without its invalid items for good.
		if err == nil && len(invalid) > 0 {
			a.skip(&InvalidItemsError{Topic: r.topic, Method: r.method, Position: r.position, Total: len(ms), Items: invalid})
		}
		return err
	}
}

// Handle runs the handler of a topic once with these messages, as a transport does for an attempt: through the
// middleware and the generated decoder, with the context of the event. It returns what the transport would
// record, and a panic of the handler passes through. It needs no Start and no transport, and retries nothing:
// package echoestest makes tests of it. A topic without a listener, no message, or more messages than the
// listener takes are errors.
func (a *App) Handle(ctx context.Context, topic string, ms []Message) error {
	for _, l := range a.listeners {
		if l.topic != topic {
			continue
		}
		if l.handle == nil || len(ms) < 1 || len(ms) > l.size {
			return fmt.Errorf("echoes: handle %d messages of topic %s: its listener takes 1 to %d; with none at all, run echoesgen again", len(ms), topic, l.size)
		}
		c := &check{cfg: a.cfg, defaults: settingsOf(a.cfg.Defaults)}
		return a.handler(Receiver{Listener: l, InForce: c.merge(l)})(ctx, ms)
	}
	topics := make([]string, len(a.listeners))
	for i, l := range a.listeners {
		topics[i] = l.topic
	}
	return fmt.Errorf("echoes: no listener handles topic %s; there are listeners for: %s", name(topic), strings.Join(topics, ", "))
}

func (a *App) skip(e *InvalidItemsError) {
	a.skipped.add(e.Topic, len(e.Items))
	ids := make([]string, len(e.Items))
	for i, item := range e.Items {
		ids[i] = item.EventID
	}
	a.cfg.Logger.Warn("echoes: undecodable items were left out of a batch",
		"topic", e.Topic, "listener", e.Position, "count", len(e.Items), "total", e.Total, "events", ids, "error", e.Items[0].Error())
	a.report(e)
}

// report hands an error to the user, whose code must not fail the handler that
// just succeeded.
func (a *App) report(err error) {
	if a.cfg.OnError == nil {
		return
	}
	if problem := a.onError.Call(func() { a.cfg.OnError(err) }); problem != nil {
		a.cfg.Logger.Error("echoes: Config.OnError failed", "error", problem)
	}
}

// SkippedItems returns how many items of the topic OnInvalid("skip") has left
// out of batches that succeeded, since New.
func (a *App) SkippedItems(topic string) int { return a.skipped.get(topic) }

// counts counts by name.
type counts struct {
	mu sync.Mutex
	n  map[string]int
}

func (c *counts) add(name string, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n == nil {
		c.n = map[string]int{}
	}
	c.n[name] += n
}

func (c *counts) get(name string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n[name]
}
