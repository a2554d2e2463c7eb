package observe

import "context"

// Nothing is an Observer of nothing, to be embedded.
type Nothing struct{}

var _ Observer = Nothing{}

// Publish returns ctx, and does nothing.
func (Nothing) Publish(ctx context.Context, _ Publish) (context.Context, Publishing) {
	return ctx, unobserved{}
}

// Attempt returns ctx, and does nothing.
func (Nothing) Attempt(ctx context.Context, _ Attempt) (context.Context, func(*Failure)) {
	return ctx, func(*Failure) {}
}

// Settled does nothing.
func (Nothing) Settled(Settled) {}

// LeaseLost does nothing.
func (Nothing) LeaseLost(LeaseLost) {}

// Claimed does nothing.
func (Nothing) Claimed(Claimed) {}

// Woken does nothing.
func (Nothing) Woken(Woken) {}

// Backlog does nothing.
func (Nothing) Backlog(func(context.Context) ([]Backlog, error)) (stop func()) { return func() {} }

type unobserved struct{}

func (unobserved) Headers(given map[string]string) map[string]string { return given }
func (unobserved) End(Sent)                                          {}
