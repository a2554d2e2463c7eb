package admin

import (
	"context"
	"slices"
	"time"

	"github.com/orionjs/orion-go/pulse/internal/clock"
	"github.com/orionjs/orion-go/pulse/internal/store"
)

// ThroughputQuery selects what Throughput counts.
type ThroughputQuery struct {
	// Slice is the length of the slices of time. Default 10 s.
	Slice time.Duration
	// Since is the begin of the first slice; it is moved back to a multiple of Slice. Default: the last full slice.
	Since time.Time
	// Limit bounds the deliveries that are read: the newest are. Default DefaultCountLimit.
	Limit int
}

// Throughput is how many deliveries ended, by subscription and slice of time.
type Throughput struct {
	Slices []Finished
	// From is from when on the counts are whole: Since, or later when there were more deliveries than the limit. Now is
	// the server's time at the call.
	From, Now time.Time
	// Groups are those that are counted, from the time on when their first delivery ended. A group that keeps
	// nothing that has ended (its history retention is off) cannot be.
	Groups map[string]bool
}

// Finished counts the deliveries of a subscription that ended within one slice of time.
type Finished struct {
	Group, Topic string
	// Start is the begin of the slice.
	Start time.Time
	// Succeeded and Failed are deliveries, Events the events that they carried: a batch carries many.
	Succeeded, Failed, Events int
}

// retentionInterval is how long it is good to know for how long each group keeps what has ended. That none keeps
// anything is asked again each time: the first delivery of a new database is soon to end.
const retentionInterval = time.Minute

// Throughput counts what has ended, for all subscriptions with one command. It knows the time of an end by when the
// delivery is to be deleted, and asks once a minute for how long each group keeps them: two more commands. So the first
// deliveries of a new group are counted a minute later. What is deleted as soon as it
// succeeds is not counted, nor is what Cancel has ended.
func (a *Admin) Throughput(ctx context.Context, q ThroughputQuery) (Throughput, error) {
	switch {
	case q.Slice < 0 || q.Limit < 0:
		return Throughput{}, &QueryError{"Slice and Limit must not be negative"}
	case q.Slice%time.Second != 0:
		return Throughput{}, &QueryError{"Slice must be whole seconds"}
	}
	if q.Slice == 0 {
		q.Slice = 10 * time.Second
	}
	if q.Limit == 0 {
		q.Limit = DefaultCountLimit
	}
	ctx, cancel, err := a.begin(ctx)
	if err != nil {
		return Throughput{}, err
	}
	defer cancel()
	retentions, err := a.retentions(ctx)
	if err != nil {
		return Throughput{}, err
	}
	out := Throughput{Now: a.store.Now(), Groups: map[string]bool{}}
	if q.Since.IsZero() {
		q.Since = out.Now.Add(-q.Slice)
	}
	since := time.UnixMilli(q.Since.UnixMilli() / q.Slice.Milliseconds() * q.Slice.Milliseconds()).UTC()
	finished := store.FinishedQuery{Since: since, Slice: q.Slice, Limit: q.Limit}
	for group, kept := range retentions {
		out.Groups[group] = true
		finished.Retentions = append(finished.Retentions, kept...)
	}
	slices.Sort(finished.Retentions)
	finished.Retentions = slices.Compact(finished.Retentions)
	counts, from, err := a.store.Finished(ctx, finished)
	if err != nil {
		return Throughput{}, err
	}
	out.From = from
	for _, c := range counts {
		out.Slices = append(out.Slices, Finished{
			Group: c.ConsumerGroup, Topic: c.Topic, Start: c.Start, Succeeded: c.Succeeded, Failed: c.Failed, Events: c.Events,
		})
	}
	return out, nil
}

// retentions tells for how long each group keeps what has ended.
func (a *Admin) retentions(ctx context.Context) (map[string][]time.Duration, error) {
	a.keptMu.Lock()
	defer a.keptMu.Unlock()
	if len(a.kept) > 0 && clock.Since(a.keptAt) < retentionInterval {
		return a.kept, nil
	}
	overviews, err := a.store.Overviews(ctx, "", "")
	if err != nil {
		return nil, err
	}
	subs := make([]store.Subscription, len(overviews))
	for i, o := range overviews {
		subs[i] = o.Subscription
	}
	kept, err := a.store.Retentions(ctx, subs)
	if err != nil {
		return nil, err
	}
	a.kept, a.keptAt = kept, clock.Now()
	return kept, nil
}
