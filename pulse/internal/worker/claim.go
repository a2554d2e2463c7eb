package worker

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/orionjs/orion-go/pulse/internal/backoff"
	"github.com/orionjs/orion-go/pulse/internal/clock"
	"github.com/orionjs/orion-go/pulse/internal/store"
)

// Bounds of one look for candidates: many pages in one answer, so that replicas can start at different
// ones, but no more event IDs than this.
const (
	pagesPerLook    = 16
	minCandidates   = 64
	maxCandidates   = 2048
	maxCandidateIDs = 20_000
)

// claimLoop claims whenever it is woken, until nothing more can be claimed.
func (p *Pool) claimLoop(ctx context.Context) {
	failures := backoff.NewExponential(50*time.Millisecond, 5*time.Second)
	for {
		progress, err := p.claimRound(ctx)
		if err != nil && ctx.Err() == nil {
			p.Report(err)
			if clock.Sleep(ctx, failures.Next()) != nil {
				return
			}
			continue
		}
		failures.Reset()
		if progress {
			continue
		}
		select {
		case <-p.claims:
		case <-ctx.Done():
			return
		}
	}
}

// claimRound gives each lane that has room its turn.
func (p *Pool) claimRound(ctx context.Context) (progress bool, err error) {
	p.mu.Lock()
	lanes := make([]*lane, 0, len(p.lanes))
	first := rand.IntN(max(len(p.lanes), 1))
	for i := range p.lanes {
		lanes = append(lanes, p.lanes[(first+i)%len(p.lanes)])
	}
	p.mu.Unlock()
	for _, l := range lanes {
		if ctx.Err() != nil {
			return false, ctx.Err()
		}
		claimed, err := p.claimLane(ctx, l)
		if err != nil {
			return false, err
		}
		progress = progress || claimed
	}
	return progress, nil
}

// ahead is how many more deliveries the lane may claim before slots are free for them: none while its
// buffer is more than half full, so that claims stay large. p.mu is held.
func (p *Pool) ahead(l *lane) int {
	share := p.share(l)
	buffered := len(l.buffer) + l.births.ahead
	if 2*buffered > share {
		return 0
	}
	return share - buffered
}

// share is the size of the lane's buffer: what its pace allows, in competition with the other lanes
// that have work. p.mu is held.
func (p *Pool) share(l *lane) int {
	if l.inOrder() || l.receiver.Policy().Retries() == 0 {
		return 0
	}
	share := l.pace.share(p.limit(l))
	busy := 0
	for _, other := range p.lanes {
		if other == l || other.busy() {
			busy++
		}
	}
	return min(share, (aheadFactor*p.Workers+busy-1)/max(busy, 1), l.allowance()+len(l.buffer))
}

// claimLane claims what the lane has room for, from both formats. The reserved slots are for either of them: only
// at the end it is known which are not needed. A format without work that gave them back would let lanes whose
// work is all of the other format pass them round for ever, each with none when its claim has its turn.
func (p *Pool) claimLane(ctx context.Context, l *lane) (progress bool, err error) {
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.unreserve(l, l.needy())
		p.dispatch()
	}()
	for _, format := range store.Formats {
		claim := p.claimSource
		if format == store.V1 && l.inOrder() {
			claim = p.claimInOrder
		}
		claimed, err := claim(ctx, l, l.sources[format])
		if err != nil {
			return false, err
		}
		progress = progress || claimed
	}
	return progress, nil
}

// claimSource looks for candidates of one format if none are left, and claims what the lane has room for.
func (p *Pool) claimSource(ctx context.Context, l *lane, src *source) (progress bool, err error) {
	p.mu.Lock()
	ahead, share := p.ahead(l), p.share(l)
	look := src.ready && len(src.candidates) == 0 && (ahead > 0 || share == 0) && l.allowance() > 0 && !l.resting()
	if look {
		src.ready = false // whoever wakes the lane from now on saw something that the look may miss
	}
	p.mu.Unlock()
	if look {
		if err := p.lookForCandidates(ctx, l, src, max(share, p.limit(l))); err != nil {
			p.Wake(l.receiver.Topic, src.format)
			return false, err
		}
	}
	picked := p.pick(l, src)
	if len(picked) == 0 {
		return false, nil
	}
	won, token, deadline, err := p.claim(ctx, picked)
	if p.Observer != nil {
		p.observeClaim(l, len(picked), len(won))
	}
	p.admit(ctx, l, src, won, token, deadline)
	if err != nil {
		p.doubtClaim(l, src.format, picked, won, token)
		p.Wake(l.receiver.Topic, src.format)
		return false, err
	}
	p.learn(l, src, len(picked), len(won))
	return len(won) > 0, nil
}

func (p *Pool) lookForCandidates(ctx context.Context, l *lane, src *source, page int) error {
	limit := min(max(pagesPerLook*page, minCandidates), maxCandidates)
	if s := l.receiver.Settings(); s.Batch() {
		limit = min(limit, max(page, maxCandidateIDs/max(s.BatchSize, 1)))
	}
	due, malformed, more, err := p.Store.Candidates(ctx, p.Group, l.receiver.Topic, src.format, limit)
	if err != nil {
		return err
	}
	if p.mend(ctx, malformed) > 0 {
		more = true // they took the place of others, or can be claimed now
	}
	if src.contended && len(due) > page {
		// Other replicas read the same list: start at another page than they do, and keep the order.
		start := rand.IntN((len(due)+page-1)/page) * page
		due = append(append(make([]store.Candidate, 0, len(due)), due[start:]...), due[:start]...)
	}
	src.contended = false
	p.mu.Lock()
	defer p.mu.Unlock()
	src.candidates = due
	src.ready = src.ready || more
	p.countNeedy(l, src)
	p.dispatch()
	return nil
}

// mend makes deliveries that nobody can claim claimable, or ends them, and returns how many; else a page of
// them would hide all others for ever. One that cannot be mended must not hold up the others either.
func (p *Pool) mend(ctx context.Context, malformed []store.Malformed) (mended int) {
	for _, m := range malformed {
		switch done, err := p.Store.Mend(ctx, m, p.HistoryRetention); {
		case ctx.Err() != nil:
			return mended
		case err != nil:
			p.Report(err)
		case done:
			mended++
			p.Report(m.Err())
		}
	}
	return mended
}

// countNeedy counts the candidates that wait for a slot; p.mu is held.
func (p *Pool) countNeedy(l *lane, src *source) {
	src.needy = 0
	share, policy := p.share(l), l.receiver.Policy()
	for _, c := range src.candidates {
		if share == 0 || !mayClaimAhead(c, policy) {
			src.needy++
		}
	}
}

// pick takes from the candidates those that there is room for: first attempts for the buffer, any for
// the reserved slots.
func (p *Pool) pick(l *lane, src *source) []store.Candidate {
	p.mu.Lock()
	defer p.mu.Unlock()
	ahead, slots, policy := p.ahead(l), l.reserved, l.receiver.Policy()
	if l.resting() {
		ahead, slots, src.candidates = 0, 0, nil
	}
	var picked []store.Candidate
	rest := src.candidates[:0:0]
	for _, c := range src.candidates {
		switch {
		case ahead > 0 && mayClaimAhead(c, policy):
			ahead--
			picked = append(picked, c)
		case slots > 0:
			slots--
			picked = append(picked, c)
		default:
			rest = append(rest, c)
		}
	}
	src.candidates = rest
	close(l.picked)
	l.picked = make(chan struct{})
	if len(picked) == 0 {
		// Handlers may have become too slow to claim ahead for since the candidates were read: then these
		// need slots now, and nobody else would ask for them.
		p.countNeedy(l, src)
		p.dispatch()
	}
	return picked
}

// unreserve gives the lane's reserved slots back but for so many; p.mu is held.
func (p *Pool) unreserve(l *lane, keep int) {
	if extra := l.reserved - keep; extra > 0 {
		p.slots -= extra
		l.reserved -= extra
	}
}

// claim claims the candidates under a fresh token. When the answer is lost, the claim may have been
// stored: it is looked up until that is known or the lease would be over, for a claim that nobody knows
// of costs an attempt. For the same reason the end of the pool does not interrupt the command: the server
// might carry out what it was asked for after a look-up that found nothing.
func (p *Pool) claim(ctx context.Context, picked []store.Candidate) (won []store.Candidate, token string, deadline time.Time, err error) {
	token = uuid.NewString()
	deadline = clock.Now().Add(p.trust())
	won, err = p.Store.Claim(context.WithoutCancel(ctx), picked, p.Owner, token, p.Lease)
	if err != nil {
		won = p.lookUp(ctx, picked, token, deadline)
	}
	return won, token, deadline, err
}

// lookUp asks which claims of a token are stored, until that is known or the lease would be over.
func (p *Pool) lookUp(ctx context.Context, picked []store.Candidate, token string, deadline time.Time) []store.Candidate {
	pause := backoff.NewExponential(50*time.Millisecond, time.Second)
	for clock.Until(deadline) > 0 {
		if won, err := p.Store.Claimed(context.WithoutCancel(ctx), picked, token); err == nil {
			return won
		}
		if clock.Sleep(ctx, pause.Next()) != nil {
			break
		}
	}
	return nil
}

// trust is how long a lease is relied on without the database: a little less than it lasts.
func (p *Pool) trust() time.Duration { return p.Lease - p.Lease/10 }

// learn adapts to what a claim met.
func (p *Pool) learn(l *lane, src *source, picked, won int) {
	if won == picked {
		src.misses = 0
		return
	}
	src.contended = true
	if won > 0 {
		src.misses = 0
		return
	}
	// Nothing at all: the list is stale. Read a new one, but not at once if that happens again and
	// again, as with deliveries that look claimable and are not.
	p.mu.Lock()
	src.candidates = nil
	p.mu.Unlock()
	src.misses++
	pause := clock.Jitter(backoff.Delay(time.Millisecond, 2, min(src.misses, 10)), 1)
	topic := l.receiver.Topic
	clock.AfterFunc(pause, func() { p.Wake(topic, src.format) })
}

// admit takes won claims into the lane: they are held, their events are read, and they start on the
// reserved slots or wait in the buffer for one.
func (p *Pool) admit(ctx context.Context, l *lane, src *source, won []store.Candidate, token string, deadline time.Time) {
	tasks := p.holdClaims(l, won, token, deadline)
	err := p.load(ctx, tasks)
	p.mu.Lock()
	defer p.mu.Unlock()
	n := p.place(ctx, l, tasks, l.reserved, err)
	p.slots -= n
	l.reserved -= n
	p.countNeedy(l, src)
	p.dispatch()
}

// holdClaims makes tasks of won claims, whose leases are renewed from now on.
func (p *Pool) holdClaims(l *lane, won []store.Candidate, token string, deadline time.Time) []*task {
	tasks := make([]*task, len(won))
	for i, c := range won {
		tasks[i] = p.newTask(l, c, token, deadline)
	}
	p.hold(tasks)
	return tasks
}

// place starts tasks on so many slots that are kept for them, and puts the others into the buffer. It returns how
// many it started. With an error, of reading their events, all are handed back. p.mu is held.
func (p *Pool) place(ctx context.Context, l *lane, tasks []*task, slots int, err error) (begun int) {
	if err != nil && ctx.Err() == nil {
		go p.Report(fmt.Errorf("pulse: topic %s: %d claimed deliveries are handed back unrun: %w", l.receiver.Topic, len(tasks), err))
	}
	// Reading the events may have taken longer than the leases last: what was lost meanwhile must not start.
	tasks = slices.DeleteFunc(tasks, p.loseOverdue)
	if err != nil || l.resting() || p.closing {
		p.handBack(tasks)
		return 0
	}
	// What may not wait comes first: at most as many as slots were reserved when they were picked.
	policy := l.receiver.Policy()
	slices.SortStableFunc(tasks, func(a, b *task) int {
		return boolInt(mayClaimAhead(a.Candidate, policy)) - boolInt(mayClaimAhead(b.Candidate, policy))
	})
	begun = min(slots, len(tasks))
	for _, t := range tasks[:begun] {
		p.start(t)
	}
	l.buffer = append(l.buffer, tasks[begun:]...)
	return begun
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}
