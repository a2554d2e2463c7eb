package observe_test

import (
	"context"
	"errors"
	"testing"

	"github.com/matryer/is"

	"github.com/orionjs/orion-go/pulse/observe"
)

// careless panics in all methods, or where late is set in what they return.
type careless struct{ late bool }

func (c careless) fail() {
	if !c.late {
		panic("careless")
	}
}

func (c careless) Publish(ctx context.Context, _ observe.Publish) (context.Context, observe.Publishing) {
	c.fail()
	return ctx, c
}
func (careless) Headers(map[string]string) map[string]string { panic("careless") }
func (careless) End(observe.Sent)                            { panic("careless") }
func (c careless) Attempt(ctx context.Context, _ observe.Attempt) (context.Context, func(*observe.Failure)) {
	c.fail()
	return ctx, func(*observe.Failure) { panic("careless") }
}
func (careless) Settled(observe.Settled)     { panic("careless") }
func (careless) LeaseLost(observe.LeaseLost) { panic("careless") }
func (careless) Claimed(observe.Claimed)     { panic("careless") }
func (careless) Woken(observe.Woken)         { panic("careless") }
func (c careless) Backlog(func(context.Context) ([]observe.Backlog, error)) (stop func()) {
	c.fail()
	return func() { panic("careless") }
}

// empty returns nil wherever it can.
type empty struct{ observe.Nothing }

func (empty) Publish(context.Context, observe.Publish) (context.Context, observe.Publishing) {
	return nil, nil
}

func (empty) Attempt(context.Context, observe.Attempt) (context.Context, func(*observe.Failure)) {
	return nil, nil
}

func (empty) Backlog(func(context.Context) ([]observe.Backlog, error)) (stop func()) { return nil }

func TestGuard_NoMethodPanics(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		observer observe.Observer
		reports  int
	}{"at once": {careless{}, 7}, "later": {careless{late: true}, 8}, "nil": {empty{}, 0}, "sound": {observe.Nothing{}, 0}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			var reports []error
			o := observe.Guard(test.observer, func(err error) { reports = append(reports, err) })
			ctx, publishing := o.Publish(t.Context(), observe.Publish{})
			is.True(ctx != nil)
			given := map[string]string{"a": "b"}
			is.Equal(publishing.Headers(given), given)
			publishing.End(observe.Sent{})
			ctx, ended := o.Attempt(t.Context(), observe.Attempt{})
			is.True(ctx != nil)
			ended(nil)
			o.Settled(observe.Settled{})
			o.LeaseLost(observe.LeaseLost{})
			o.Claimed(observe.Claimed{})
			o.Woken(observe.Woken{})
			o.Backlog(nil)()
			is.Equal(len(reports), test.reports)
		})
	}
	is := is.New(t)
	is.True(observe.Guard(nil, nil) == nil)
	var reports []error
	observe.Guard(careless{}, func(err error) { reports = append(reports, err) }).Woken(observe.Woken{})
	is.Equal(errors.Join(reports...).Error(), "the observer's Woken panicked: careless")
}
