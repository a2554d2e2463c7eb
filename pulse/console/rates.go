package console

import (
	"context"
	"maps"
	"time"

	"github.com/orionjs/orion-go/pulse/admin"
	"github.com/orionjs/orion-go/pulse/internal/clock"
)

const (
	// slice is how finely rates are told, window how far they reach back.
	slice      = 10 * time.Second
	window     = 10 * time.Minute
	sliceCount = int(window / slice)
	// recent is what the current rate is the mean of.
	recent = time.Minute
	// finishedLimit bounds the deliveries that one look counts: at more than a thousand a second only the newest.
	finishedLimit = 20_000
)

// subscriptionKey names a subscription.
type subscriptionKey struct{ group, topic string }

// tally counts what ended.
type tally struct{ succeeded, failed, events int }

func (t tally) plus(o tally) tally {
	return tally{t.succeeded + o.succeeded, t.failed + o.failed, t.events + o.events}
}

// period is one slice of time. Its counts are of a part of it when the slice has not passed, or had too many.
type period struct {
	covered time.Duration
	tallies map[subscriptionKey]tally
}

// rates knows what ended in the last minutes, by slice of the server's time. It is not changed once it is made.
type rates struct {
	now     time.Time // the server's
	groups  map[string]bool
	periods map[int64]period
}

// refresh counts what has ended since, and takes the rest from what is known. The slice before the last is counted
// again: an end becomes visible a little after its time.
func (r *rates) refresh(ctx context.Context, a *admin.Admin) (*rates, error) {
	since := clock.Now().Add(-window)
	if r != nil && r.now.Add(-slice).After(since) {
		since = r.now.Add(-slice)
	}
	got, err := a.Throughput(ctx, admin.ThroughputQuery{Slice: slice, Limit: finishedLimit, Since: since})
	if err != nil {
		return nil, err
	}
	return r.merge(got), nil
}

func (r *rates) merge(got admin.Throughput) *rates {
	next := &rates{now: got.Now, groups: got.Groups, periods: map[int64]period{}}
	if r != nil {
		maps.Copy(next.periods, r.periods)
	}
	first, last := numberOf(got.Now.Add(-window)), numberOf(got.Now)
	maps.DeleteFunc(next.periods, func(number int64, _ period) bool { return number <= first })
	counted := map[int64]map[subscriptionKey]tally{}
	for number := max(first+1, numberOf(got.From)); number <= last; number++ {
		begin, end := time.UnixMilli(number*slice.Milliseconds()), time.UnixMilli((number+1)*slice.Milliseconds())
		if got.From.After(begin) {
			begin = got.From
		}
		if got.Now.Before(end) {
			end = got.Now
		}
		if covered := end.Sub(begin); covered >= next.periods[number].covered { // else more of it is known
			counted[number] = map[subscriptionKey]tally{}
			next.periods[number] = period{covered: covered, tallies: counted[number]}
		}
	}
	for _, f := range got.Slices {
		if tallies, ok := counted[numberOf(f.Start)]; ok {
			key := subscriptionKey{f.Group, f.Topic}
			tallies[key] = tallies[key].plus(tally{f.Succeeded, f.Failed, f.Events})
		}
	}
	return next
}

// numberOf numbers the slices since the Unix epoch.
func numberOf(t time.Time) int64 { return t.UnixMilli() / slice.Milliseconds() }

// rate is what is shown of what has ended, of a subscription or of many.
type rate struct {
	// Known tells that it can be counted.
	Known bool
	// PerSecond is in events, the mean of the last minute.
	PerSecond float64
	// Succeeded and Failed are the deliveries of the whole window.
	Succeeded, Failed int
	// Line has the events a second of each slice, OK and Bad the deliveries a second, the oldest first.
	Line, OK, Bad []float64
}

// Finished is how many deliveries ended.
func (r rate) Finished() int { return r.Succeeded + r.Failed }

// ErrorShare is how many of them failed, from 0 to 1.
func (r rate) ErrorShare() float64 { return float64(r.Failed) / float64(max(1, r.Finished())) }

// Spark draws the events a second.
func (r rate) Spark() spark { return drawSpark(r.Line) }

// Bars draws the deliveries a second.
func (r rate) Bars() []bar { return drawBars(r.OK, r.Bad) }

// of sums up subscriptions.
func (r *rates) of(keys ...subscriptionKey) rate {
	out := rate{Line: make([]float64, sliceCount), OK: make([]float64, sliceCount), Bad: make([]float64, sliceCount)}
	for _, key := range keys {
		out.Known = out.Known || r.groups[key.group]
	}
	last := numberOf(r.now)
	var events, covered float64
	for i := range sliceCount {
		p := r.periods[last-int64(sliceCount-1-i)]
		var sum tally
		for _, key := range keys {
			sum = sum.plus(p.tallies[key])
		}
		out.Succeeded += sum.succeeded
		out.Failed += sum.failed
		seconds := p.covered.Seconds()
		if seconds > 0 && i >= sliceCount-int(recent/slice) {
			events, covered = events+float64(sum.events), covered+seconds
		}
		if seconds < 3 { // a moment says little of ten seconds
			if i == sliceCount-1 && i > 0 {
				out.Line[i], out.OK[i], out.Bad[i] = out.Line[i-1], out.OK[i-1], out.Bad[i-1]
			}
			continue
		}
		out.Line[i], out.OK[i], out.Bad[i] = float64(sum.events)/seconds, float64(sum.succeeded)/seconds, float64(sum.failed)/seconds
	}
	if covered > 0 {
		out.PerSecond = events / covered
	}
	return out
}
