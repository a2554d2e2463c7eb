package echoes

import "context"

// Middleware runs around the handlers of all listeners, on every transport: the
// one place for tracing, metrics, tenants or whatever concerns all of them (spec
// 7.10). It is called for each attempt, from several goroutines at once, and what
// it returns is the attempt's outcome:
//
//	func traced(ctx context.Context, call echoes.Call, next func(context.Context) error) error {
//		ctx, span := tracer.Start(ctx, call.Topic)
//		defer span.End()
//		return next(ctx)
//	}
//
// next decodes the params and runs the handler, so an error of it may be a
// *DecodeError. The context that next gets is the handler's; derive it from ctx,
// which ends when the attempt is to end. Middleware that does not call next
// decides the outcome itself: nil completes the event, which nobody has handled
// then. One that calls it twice runs the handler twice within the attempt, under
// the same lease. A panic is the handler's panic, whether next or the middleware
// panics.
type Middleware func(ctx context.Context, call Call, next func(ctx context.Context) error) error

// Call says what an attempt is about. Middleware reads it, and must not change
// it or what it refers to.
type Call struct {
	// Topic, Kind, Method and Position are the listener's.
	Topic            string
	Kind             Kind
	Method, Position string
	// Transport is "pulse" or "kafka".
	Transport string
	// Attempt counts from 1. The events of a batch share it.
	Attempt int
	// Items has the context of each event: one for KindEvent, and for KindBatch
	// all of the batch, in order, those included that cannot be decoded and
	// OnInvalid("skip") leaves out.
	Items []EventContext
}

// around puts the middleware around a run of r's handler.
func (a *App) around(r Receiver, ms []Message, run func(context.Context) error) func(context.Context) error {
	if len(a.cfg.Middleware) == 0 {
		return run
	}
	call := Call{
		Topic: r.topic, Kind: r.kind, Method: r.method, Position: r.position,
		Transport: ms[0].Event.Transport, Attempt: ms[0].Event.Attempt, Items: make([]EventContext, len(ms)),
	}
	for i := range ms {
		call.Items[i] = ms[i].Event
	}
	for i := len(a.cfg.Middleware) - 1; i >= 0; i-- {
		m, next := a.cfg.Middleware[i], run
		run = func(ctx context.Context) error { return m(ctx, call, next) }
	}
	return run
}
