package worker

import (
	"math"
	"time"

	"github.com/orionjs/orion-go/pulse/internal/clock"
)

// A lane with a rate limit (receiver.Rate) spends a token for each handler that begins. It asks for no slot, and
// claims nothing, beyond the tokens that are there: a claim that waited for a token would keep the event from other
// replicas, and a slot from other lanes.

// rateGrain is the shortest wait for tokens. At high rates several come together.
const rateGrain = 5 * time.Millisecond

// maxRefill is the longest wait for a token, after which the lane is looked at again.
const maxRefill = time.Minute

// allowance is how many more handlers of the lane the rate limit lets claim or begin, beside those that are claimed
// or have a slot already. p.mu is held.
func (l *lane) allowance() int {
	if l.receiver.Rate == nil {
		return math.MaxInt32 // unlimited
	}
	tokens := math.Floor(l.receiver.Rate.TokensAt(clock.Now()))
	return max(0, int(tokens)-len(l.buffer)-l.reserved-l.births.slots-l.births.ahead)
}

// mayBegin tells whether there is a token for a handler to begin; p.mu is held.
func (l *lane) mayBegin() bool {
	return l.receiver.Rate == nil || l.receiver.Rate.TokensAt(clock.Now()) >= 1
}

// spend takes the token of a handler that begins; p.mu is held.
func (l *lane) spend() {
	if l.receiver.Rate != nil {
		l.receiver.Rate.ReserveN(clock.Now(), 1)
	}
}

// awaitTokens has the lanes looked at again that have work and no token, as soon as they have one; p.mu is held.
func (p *Pool) awaitTokens() {
	for _, l := range p.lanes {
		if p.closing || l.mayBegin() || l.refill != nil || !l.busy() {
			continue
		}
		l.refill = clock.AfterFunc(l.untilToken(), func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			l.refill = nil
			if !l.removed && !p.closing {
				p.dispatch()
				p.wakeClaims()
			}
		})
	}
}

// untilToken is how long it takes until a lane without a token has one, or as many as come in one grain; p.mu is held.
func (l *lane) untilToken() time.Duration {
	limiter := l.receiver.Rate
	perSecond := float64(limiter.Limit())
	wanted := min(max(1, math.Floor(perSecond*rateGrain.Seconds())), float64(limiter.Burst()))
	seconds := (wanted - limiter.TokensAt(clock.Now())) / perSecond
	return time.Duration(min(max(seconds, rateGrain.Seconds()/5), maxRefill.Seconds()) * float64(time.Second))
}
