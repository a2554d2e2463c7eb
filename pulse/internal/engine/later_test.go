package engine

import (
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/matryer/is"

	"github.com/orionjs/orion-go/pulse/internal/clock"
	"github.com/orionjs/orion-go/pulse/internal/store"
	"github.com/orionjs/orion-go/pulse/pulsetest"
)

// While a change stream tells of new events for later, few polls ask for the next one: the first after the stream
// began, which did not show what was there before, and then about each tenth. Without a stream all do.
func TestPoll_9_1_AsksSeldomForWhatAStreamTells(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	commands := pulsetest.NewCommandMonitor()
	db := pulsetest.Database(t)
	e := New(Config{
		Store: store.New(pulsetest.Client(t, commands.Watch).Database(db.Name()), "p"), Group: "billing", Owner: "go:test",
		Workers: 1, Poll: time.Hour, Lease: time.Minute, DiscoveryLease: time.Minute, Streams: true,
		Report: func(err error) { t.Error(err) }, Answered: func() {}, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	e.stamps.ever = true // it publishes, or a poll asks for nothing at all
	asks := func(polls int) (asked int) {
		t.Helper()
		for range polls {
			commands.Reset()
			is.NoErr(e.poll(t.Context()))
			asked += commands.Count("find") // the news are an aggregation
		}
		return asked
	}
	is.Equal(asks(3), 3) // no stream
	e.reopened()
	is.Equal(asks(5), 1)
	e.later.asked = clock.Now().Add(-laterEvery * e.Poll)
	is.Equal(asks(5), 1)
	e.reopened() // there was a hole
	is.Equal(asks(5), 1)
	e.ended()
	is.Equal(asks(3), 3)
}
