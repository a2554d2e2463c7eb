package engine

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/orionjs/orion-go/pulse/internal/backoff"
	"github.com/orionjs/orion-go/pulse/internal/clock"
)

// Events that are published for a later time are stamped when they are due by whoever comes first (spec 9.1). A
// client knows no more of them than when the next one is due, and that only if no poll would find it in time: its
// own publishing, the change stream, each round of stamping and the polls tell it: every poll without a change
// stream, about each tenth with one. One that has published such events is there at the moment, the others a little
// later, when it did not come.
const (
	laterPause  = 20 * time.Millisecond // the least time between two rounds
	laterOthers = 50 * time.Millisecond
	laterJitter = 3

	// In polls: how far apart those are that ask for the next event while a change stream tells of new ones, and how
	// far ahead they look, which is to the one after the next.
	laterEvery   = 10
	laterHorizon = laterEvery + 2

	// After how long a client looks again that found an event due before the server did. The pause grows: one that
	// somebody has changed by hand may never be stamped.
	earlyPause = 50 * time.Millisecond
)

// later decides when to look for events that are due.
type later struct {
	timer    *dueTimer
	own      *atomic.Bool              // this client has published such events
	stream   atomic.Pointer[time.Time] // since when a change stream tells of new ones; nil: none does
	asked    time.Time                 // when a poll asked last; of the poll loop alone
	failures *backoff.Exponential      // of the stamp loop alone, like early
	early    *backoff.Exponential      // rounds in which something due was not stamped
}

func newLater() later {
	return later{
		timer: newDueTimer(), own: new(atomic.Bool),
		failures: backoff.NewExponential(50*time.Millisecond, 5*time.Second), early: backoff.NewExponential(earlyPause, time.Minute),
	}
}

// horizon is how far ahead a client has to know when events are due.
func (e *Engine) horizon() time.Duration { return laterHorizon*e.Poll + time.Second }

// askForLater is the share of a poll.
func (e *Engine) askForLater(ctx context.Context) error {
	began := e.later.stream.Load()
	if began != nil && began.Before(e.later.asked) && clock.Since(e.later.asked) < laterEvery*e.Poll {
		return nil
	}
	asked := clock.Now() // before the question: a stream that begins meanwhile has it put again
	due, err := e.Store.NextDue(ctx, e.horizon())
	if err != nil {
		return err
	}
	e.later.asked = asked
	if !due.IsZero() {
		e.publishAt(due)
	}
	return nil
}

// publishAt has a look taken when events are due.
func (e *Engine) publishAt(due time.Time) {
	wait := due.Sub(e.Store.Now())
	if wait > e.horizon() {
		return // a poll finds it in time
	}
	if wait = max(wait, 0); !e.later.own.Load() {
		wait += clock.Jitter(laterOthers, laterJitter)
	}
	e.later.timer.at(wait)
}

// Scheduled tells of an event that was published for a later time, perhaps in a transaction that is not committed yet.
func (e *Engine) Scheduled(due time.Time) {
	e.later.own.Store(true)
	e.stamps.mu.Lock()
	e.stamps.ever = true
	e.stamps.mu.Unlock()
	e.publishAt(due)
}

// stampDue takes a look.
func (e *Engine) stampDue(ctx context.Context) {
	stamped, err := e.Store.StampDue(ctx, e.horizon())
	if err != nil {
		if ctx.Err() == nil {
			e.Report(err)
			e.later.timer.at(e.later.failures.Next())
		}
		return
	}
	e.later.failures.Reset()
	for _, refused := range stamped.Refused {
		e.reportOnce(refused)
	}
	for _, topic := range stamped.Topics {
		e.leader.Look(topic)
	}
	next := stamped.Next
	if !stamped.Early {
		e.later.early.Reset()
	} else if again := e.Store.Now().Add(e.later.early.Next()); next.IsZero() || again.Before(next) {
		next = again
	}
	if !next.IsZero() {
		if soonest := e.Store.Now().Add(laterPause); next.Before(soonest) {
			next = soonest
		}
		e.publishAt(next)
	}
}
