package pulse_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/matryer/is"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/orionjs/orion-go/pulse"
	"github.com/orionjs/orion-go/pulse/pulsetest"
)

// busy is a client of the cell that has done some quick work and waits in the middle of the next invocation. It
// has claimed ahead by then, as quick handlers let it, and even if a slow machine kept it from that, all checks
// hold.
type busy struct {
	*suite
	c       *pulse.Client
	sub     *pulse.Subscription
	begun   pulsetest.Recorder[int] // the numbers of the events
	release chan struct{}
}

// The invocations of a busy client: those that are done, the one that waits, and those to come.
const (
	busyDone = 3
	busyAll  = 8
)

// busy subscribes one client, with one invocation at a time, to a backlog.
func (s *suite) busy(t *testing.T) *busy {
	t.Helper()
	s.batch = min(s.batch, 2)
	b := &busy{suite: s, c: s.clients[0], release: make(chan struct{})}
	publishMany(t, orderedTopic, b.c, b.events(busyAll))
	var invocations atomic.Int32
	waits := make(chan struct{})
	b.sub = s.attach(t, orderedTopic, b.c, func(ctx context.Context, es []*pulse.Event[order]) error {
		b.begun.Add(numbered(es)...)
		n := invocations.Add(1)
		if n <= busyDone {
			return nil
		}
		if n == busyDone+1 {
			close(waits)
		}
		select {
		case <-b.release:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}, pulse.OffsetReset(pulse.Earliest), pulse.MaxConcurrency(1))
	await(t, "the invocation that waits", waits)
	eventually(t, busyAll, deliveriesOf(s.db), bson.D{}) // the leader has seen the backlog
	return b
}

// events is how many events that many invocations have.
func (s *suite) events(invocations int) int { return invocations * max(s.batch, 1) }

// rest checks that the first events, so many, are done, that all others wait as if they had never been claimed,
// and that the client then does these, each as a first attempt.
func (b *busy) rest(t *testing.T, c *pulse.Client, done int) {
	t.Helper()
	is := is.New(t)
	var first, again pulsetest.Recorder[int]
	waiting := 0
	for _, d := range b.all(t) {
		if d.Lookup("status").StringValue() == b.state("success") {
			is.Equal(d.Lookup("finalAttempt").AsInt64(), int64(1))
			is.Equal(d.attempts[0].Lookup("status").StringValue(), "success")
			continue
		}
		b.waiting(t, d)
		waiting += len(eventsIn(d.Raw))
	}
	is.Equal(waiting, b.events(busyAll)-done)
	b.attach(t, orderedTopic, c, func(_ context.Context, es []*pulse.Event[order]) error {
		if es[0].Attempt == 1 {
			first.Add(numbered(es)...)
		} else {
			again.Add(numbered(es)...)
		}
		return nil
	}, pulse.OffsetReset(pulse.Earliest), pulse.MaxConcurrency(1))
	b.ended(t, "success", busyAll)
	is.Equal(again.Len(), 0)
	is.Equal(first.Len(), b.events(busyAll)-done)
	eachOnce(t, append(slices.Clone(b.begun.Values()[:done]), first.Values()...), b.events(busyAll))
}

// next returns a client of the group that has done nothing yet.
func (b *busy) next(t *testing.T) *pulse.Client {
	if len(b.clients) > 1 {
		return b.clients[1]
	}
	return newClient(t, b.db, fast(b.db))
}

// Close stores what has finished, and hands back what has not begun.
func TestSuite_2_9_CloseStoresWhatHasFinished(t *testing.T) {
	everyCell(t, func(t *testing.T, is *is.I, s *suite) {
		b := s.busy(t)
		done := closing(t.Context(), b.c)
		isClosed(t, b.c)
		close(b.release)
		is.NoErr(await(t, "the end of Close", done))
		b.rest(t, b.next(t), b.begun.Len())
	})
}

// When the patience of Close ends, what runs is handed back too, its attempt not consumed.
func TestSuite_2_9_CloseHandsBackWhatItCancels(t *testing.T) {
	everyCell(t, func(t *testing.T, is *is.I, s *suite) {
		b := s.busy(t)
		is.NoErr(b.c.Close(over()))
		b.rest(t, b.next(t), b.events(busyDone))
	})
}

// Unsubscribe waits for what runs, stores it, and hands back the rest; the client goes on with the next
// Subscribe.
func TestSuite_2_9_UnsubscribeStoresAndHandsBack(t *testing.T) {
	everyCell(t, func(t *testing.T, is *is.I, s *suite) {
		b := s.busy(t)
		is.True(b.sub.Unsubscribe(over()) != nil) // one handler still runs
		is.Equal(len(b.c.Subscriptions()), 0)
		close(b.release)
		is.NoErr(b.sub.Unsubscribe(t.Context()))
		b.rest(t, b.c, b.begun.Len())
	})
}
