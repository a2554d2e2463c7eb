package pulse_test

import (
	"context"
	"slices"
	"testing"

	"github.com/matryer/is"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/orionjs/orion-go/pulse"
	"github.com/orionjs/orion-go/pulse/pulsetest"
)

// busy is a client of the cell that has begun one invocation, which waits, and has more to do.
type busy struct {
	*suite
	c       *pulse.Client
	sub     *pulse.Subscription
	begun   pulsetest.Recorder[int]
	release chan struct{}
	total   int
}

// busy subscribes one client, with one invocation at a time, to a backlog that takes several.
func (s *suite) busy(t *testing.T) *busy {
	t.Helper()
	b := &busy{suite: s, c: s.clients[0], release: make(chan struct{}), total: 2*max(s.batch, 1) + 1}
	publishMany(t, orderedTopic, b.c, b.total)
	b.sub = s.attach(t, orderedTopic, b.c, func(ctx context.Context, es []*pulse.Event[order]) error {
		b.begun.Add(numbered(es)...)
		select {
		case <-b.release:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}, pulse.OffsetReset(pulse.Earliest), pulse.MaxConcurrency(1))
	b.begun.Wait(t, 1)
	eventually(t, 3, deliveriesOf(s.db), bson.D{}) // the leader has seen the backlog
	return b
}

// rest checks that what had not begun is as if it had never been claimed, and that another client then does
// it, each event as a first attempt. It returns the numbers of what it did.
func (b *busy) rest(t *testing.T, c *pulse.Client, begun int) {
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
	is.Equal(waiting, b.total-begun)
	b.attach(t, orderedTopic, c, func(_ context.Context, es []*pulse.Event[order]) error {
		if es[0].Attempt == 1 {
			first.Add(numbered(es)...)
		} else {
			again.Add(numbered(es)...)
		}
		return nil
	}, pulse.OffsetReset(pulse.Earliest), pulse.MaxConcurrency(1))
	b.ended(t, "success", 3)
	is.Equal(again.Len(), 0)
	is.Equal(first.Len(), b.total-begun)
	eachOnce(t, append(slices.Clone(b.begun.Values()[:begun]), first.Values()...), b.total)
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
		b.rest(t, b.next(t), 0)
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
