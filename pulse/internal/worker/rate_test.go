package worker

import (
	"testing"
	"time"

	"github.com/matryer/is"
	"golang.org/x/time/rate"
)

// limited is a lane that has tokens for so many handlers, and gets no more in the time of a test.
func limited(p *Pool, topic string, tokens int, pace time.Duration) *lane {
	l := addLane(p, topic, 8, 3, pace)
	l.receiver.Rate = rate.NewLimiter(1e-6, tokens)
	return l
}

func TestRate_AsksForNoMoreSlotsThanThereAreTokens(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	p := newPool(t, 8)
	slow, quick := limited(p, "slow", 2, 0), addLane(p, "quick", 8, 3, 0)
	defer p.disarm(slow)
	for _, l := range []*lane{slow, quick} {
		l.v2().candidates = candidates(20, 0)
		p.countNeedy(l, l.v2())
	}
	p.dispatch()
	is.Equal(slow.reserved, 2)
	is.Equal(quick.reserved, 6) // all the others
	is.True(slow.refill == nil) // it has what it can use

	slow.spend()
	slow.spend()
	p.unreserve(slow, 0)
	p.dispatch()
	is.Equal(slow.reserved, 0)
	is.Equal(quick.reserved, 8)
	is.True(slow.refill != nil) // it waits for a token, and for nothing else
	is.True(quick.refill == nil)
}

func TestRate_ClaimsAheadNoMoreThanThereAreTokens(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	p := newPool(t, 4)
	l := limited(p, "t", 3, time.Microsecond) // handlers so fast that 32 would be claimed ahead
	is.Equal(p.share(l), 3)
	is.Equal(p.ahead(l), 3)
	l.buffer = make([]*task, 2)
	is.Equal(l.allowance(), 1)
	is.Equal(p.ahead(l), 0) // its buffer is more than half full
	l.buffer = nil
	l.reserved = 3
	is.Equal(p.ahead(l), 0)
	is.Equal(p.window(l), 1)
}

func TestRate_WaitsForATokenNeitherTooShortNorTooLong(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		perSecond   float64
		burst       int
		least, most time.Duration
	}{
		{1e-9, 1, maxRefill, maxRefill},
		{10, 1, 90 * time.Millisecond, 100 * time.Millisecond},
		{10, 50, 90 * time.Millisecond, 100 * time.Millisecond},
		{10_000, 1, time.Millisecond, time.Millisecond}, // more would be lost
		{10_000, 1000, 3 * time.Millisecond, rateGrain}, // fifty at once
	} {
		l := &lane{receiver: addLane(newPool(t, 1), "t", 1, 0, 0).receiver}
		l.receiver.Rate = rate.NewLimiter(rate.Limit(c.perSecond), c.burst)
		l.receiver.Rate.ReserveN(time.Now(), c.burst)
		got := l.untilToken()
		if got < c.least || got > c.most {
			t.Errorf("%g a second, burst %d: %v, want %v to %v", c.perSecond, c.burst, got, c.least, c.most)
		}
	}
}
