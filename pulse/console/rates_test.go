package console

import (
	"testing"
	"time"

	"github.com/matryer/is"

	"github.com/orionjs/orion-go/pulse/admin"
)

var key = subscriptionKey{"billing", "invoice.created"}

func finishedAt(at time.Time, succeeded, failed, events int) admin.Finished {
	return admin.Finished{Group: key.group, Topic: key.topic, Start: at, Succeeded: succeeded, Failed: failed, Events: events}
}

// The rate is the mean of the last minute, the share of errors and the line are of ten minutes, and a look counts the
// slices that it saw anew, not twice.
func TestRates_MergeLooks(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	start := time.Unix(1_800_000_000, 0) // begins a slice
	groups := map[string]bool{key.group: true}
	first := (*rates)(nil).merge(admin.Throughput{
		Now: start.Add(15 * time.Second), From: start.Add(-window), Groups: groups,
		Slices: []admin.Finished{finishedAt(start.Add(-5*time.Minute), 90, 10, 100), finishedAt(start, 50, 0, 50), finishedAt(start.Add(slice), 10, 0, 10)},
	})
	got := first.of(key)
	is.True(got.Known)
	is.Equal([]int{got.Succeeded, got.Failed}, []int{150, 10})
	is.Equal(got.ErrorShare(), 0.0625)
	is.Equal(got.Line[sliceCount-1], 2.0) // ten in the five seconds of the slice that have passed
	is.Equal(got.Line[sliceCount-2], 5.0)
	is.Equal(got.PerSecond, 60.0/55)

	second := first.merge(admin.Throughput{
		Now: start.Add(22 * time.Second), From: start.Add(slice), Groups: groups,
		Slices: []admin.Finished{finishedAt(start.Add(slice), 30, 0, 30), finishedAt(start.Add(2*slice), 1, 0, 1)},
	})
	got = second.of(key)
	is.Equal(got.Succeeded, 171)
	is.Equal(got.Line[sliceCount-2], 3.0)
	is.Equal(got.Line[sliceCount-1], 3.0)  // two seconds say little: the slice before goes on
	is.Equal(first.of(key).Succeeded, 150) // who still shows the first look is not disturbed

	is.True(!second.of(subscriptionKey{"other", "invoice.created"}).Known)
	is.Equal(second.of(subscriptionKey{"billing", "other"}).Finished(), 0)
	later := second.merge(admin.Throughput{Now: start.Add(2 * window), From: start.Add(window), Groups: groups})
	is.Equal(later.of(key).Finished(), 0)
	is.Equal(len(later.periods) <= sliceCount, true)
}

// Under a load beyond the limit only the newest are counted: the rate is that of the time they cover, and a slice of
// which more is known stays.
func TestRates_CoverWhatWasRead(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	start := time.Unix(1_800_000_000, 0)
	first := (*rates)(nil).merge(admin.Throughput{
		Now: start.Add(4 * time.Second), From: start.Add(-6 * time.Second),
		Slices: []admin.Finished{finishedAt(start.Add(-slice), 12_000, 0, 12_000), finishedAt(start, 8000, 0, 8000)},
	})
	got := first.of(key)
	is.Equal(got.Line[sliceCount-1], 2000.0)
	is.Equal(got.Line[sliceCount-2], 2000.0)
	is.Equal(got.PerSecond, 2000.0)
	second := first.merge(admin.Throughput{
		Now: start.Add(9 * time.Second), From: start.Add(-time.Second),
		Slices: []admin.Finished{finishedAt(start.Add(-slice), 2000, 0, 2000), finishedAt(start, 18_000, 0, 18_000)},
	})
	is.Equal(second.of(key).Line[sliceCount-2], 2000.0)
	is.Equal(second.of(key).Succeeded, 30_000)
}
