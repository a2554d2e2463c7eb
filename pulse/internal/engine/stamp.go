package engine

import (
	"context"
	"sync"
	"time"

	"github.com/orionjs/orion-go/pulse/internal/backoff"
	"github.com/orionjs/orion-go/pulse/internal/clock"
)

// Events of transactions are stamped after the commit by whoever notices it first (spec 3.5a): the client
// that published them looks several times, soon and then less often; a change stream tells of each commit,
// whereupon the publisher stamps at once and the others after a pause, unless they hear before that it is
// done; and each client's poll finds the rest.
const (
	stampSoon   = 5 * time.Millisecond // between a publish and the first look for its commit
	stampTries  = 5                    // looks, each after four times the pause before; polls see later commits
	stampOthers = 50 * time.Millisecond
	stampJitter = 3
	stampKnown  = 10_000 // events that are remembered
)

// stamps decides when to look for events that wait to be stamped.
type stamps struct {
	timer *dueTimer

	mu    sync.Mutex
	ids   map[string]bool // not stamped as far as is known; true for those published here
	tries int             // looks since the last publish
	asked bool            // to look whatever is known
	ever  bool            // something was published in a transaction, or for a later time
}

func newStamps() *stamps { return &stamps{timer: newDueTimer(), ids: map[string]bool{}} }

// ask has a look taken after the pause.
func (s *stamps) ask(wait time.Duration) {
	s.mu.Lock()
	s.asked = true
	s.mu.Unlock()
	s.timer.at(wait)
}

// published remembers events that were stored in a transaction, whose commit nobody tells.
func (s *stamps) published(ids []string) {
	s.mu.Lock()
	for _, id := range ids {
		if len(s.ids) < stampKnown {
			s.ids[id] = true
		}
	}
	s.tries, s.asked, s.ever = 0, true, true
	s.mu.Unlock()
	s.timer.at(stampSoon)
}

// committed acts on the news that an event was committed.
func (s *stamps) committed(id string) {
	s.mu.Lock()
	own := s.ids[id]
	if !own && len(s.ids) < stampKnown {
		s.ids[id] = false
	}
	s.mu.Unlock()
	if own {
		s.ask(0)
	} else {
		s.timer.at(clock.Jitter(stampOthers, stampJitter))
	}
}

// forget drops events that have been stamped.
func (s *stamps) forget(ids ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range ids {
		delete(s.ids, id)
	}
}

// used tells whether this client publishes in transactions.
func (s *stamps) used() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ever
}

// wanted tells whether there is something to look for.
func (s *stamps) wanted() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	wanted := s.asked || len(s.ids) > 0
	s.asked = false
	return wanted
}

// again plans the next look for what is still not stamped: rolled back, open, or stamped by others.
func (s *stamps) again() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.ids) == 0 {
		return
	}
	if s.tries++; s.tries >= stampTries {
		clear(s.ids)
		return
	}
	s.timer.at(backoff.Delay(stampSoon, 4, s.tries+1))
}

// Published tells of events that were stored in a caller's transaction, which is not committed yet.
func (e *Engine) Published(ids []string) { e.stamps.published(ids) }

// reportOnce reports an error that comes again and again, the first time.
func (e *Engine) reportOnce(err error) {
	e.mu.Lock()
	known := e.reported[err.Error()]
	if len(e.reported) < stampKnown {
		e.reported[err.Error()] = true
	}
	e.mu.Unlock()
	if !known {
		e.Report(err)
	}
}

// stampLoop stamps when there may be something to stamp.
func (e *Engine) stampLoop(ctx context.Context) {
	failures := backoff.NewExponential(50*time.Millisecond, 5*time.Second)
	for {
		select {
		case <-e.stamps.timer.fired:
		case <-e.later.timer.fired:
			e.stampDue(ctx)
			continue
		case <-ctx.Done():
			return
		}
		if !e.stamps.wanted() {
			continue
		}
		stamped, err := e.Store.Stamp(ctx)
		if err != nil {
			if ctx.Err() == nil {
				e.Report(err)
				e.stamps.ask(failures.Next())
			}
			continue
		}
		failures.Reset()
		for _, refused := range stamped.Refused {
			e.reportOnce(refused)
		}
		for _, topic := range stamped.Topics {
			e.leader.Look(topic)
		}
		if stamped.More {
			e.stamps.ask(0)
		}
		if !stamped.Next.IsZero() { // of what was put off
			e.publishAt(stamped.Next)
		}
		e.stamps.forget(stamped.IDs...)
		e.stamps.again()
	}
}
