package worker

import (
	"context"
	"time"

	"github.com/orionjs/orion-go/pulse/internal/clock"
	"github.com/orionjs/orion-go/pulse/internal/store"
)

// doubt is what a claim whose answer was lost may have claimed, or may still claim. The command can lie in the
// server while a look-up over another connection finds nothing, and be carried out behind it; nobody would hold
// what it claims, which would wait for the end of its lease and lose an attempt.
type doubt struct {
	lane   *lane
	format store.Format
	leases []store.Lease
	until  time.Time // on the monotonic clock: by then it was carried out, or never is
}

// doubtClaim remembers what was asked for under a token and is not known to be won.
func (p *Pool) doubtClaim(l *lane, format store.Format, picked, won []store.Candidate, token string) {
	known := make(map[string]bool, len(won))
	for _, c := range won {
		known[c.ID] = true
	}
	d := doubt{lane: l, format: format, until: clock.Now().Add(p.Lease)}
	for _, c := range picked {
		if !known[c.ID] {
			d.leases = append(d.leases, store.Lease{ID: c.ID, Token: token, Format: format})
		}
	}
	if len(d.leases) == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.doubts = append(p.doubts, d)
}

// resolveDoubts hands back what lost claims have claimed meanwhile, with the attempt not consumed. The token
// fences it: nobody else has ever used it.
func (p *Pool) resolveDoubts(ctx context.Context) error {
	p.mu.Lock()
	doubts := p.doubts
	p.doubts = nil
	p.mu.Unlock()
	var open []doubt
	var problem error
	for _, d := range doubts {
		over := clock.Until(d.until) <= 0
		if err := p.Store.HandBack(ctx, d.leases); err != nil {
			problem, over = err, false
		} else {
			p.Wake(d.lane.receiver.Topic, d.format)
		}
		if !over {
			open = append(open, d)
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.doubts = append(p.doubts, open...)
	return problem
}
