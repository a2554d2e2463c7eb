package admin_test

import (
	"errors"
	"testing"
	"time"

	"github.com/matryer/is"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/orionjs/orion-go/pulse"
	"github.com/orionjs/orion-go/pulse/admin"
	"github.com/orionjs/orion-go/pulse/pulsetest"
)

// What ended is counted with its events, whatever the format, and the retry that waits longest says since when.
func TestThroughput_4_4_CountsWhatEnded(t *testing.T) {
	each(t, []kind{version1, version2, batches}, func(t *testing.T, k kind, db *mongo.Database) {
		is := is.New(t)
		a, _ := k.stage(t, db)
		got, err := a.Throughput(t.Context(), admin.ThroughputQuery{Since: time.Now().Add(-time.Hour)})
		is.NoErr(err)
		var succeeded, failed, events int
		for _, f := range got.Slices {
			is.Equal(f.Group, group)
			is.Equal(f.Topic, orders.Name())
			is.Equal(f.Start, f.Start.Truncate(10*time.Second))
			succeeded, failed, events = succeeded+f.Succeeded, failed+f.Failed, events+f.Events
		}
		is.Equal([]int{succeeded, failed, events}, []int{1, 1, k.events(2)})
		is.Equal(got.Groups, map[string]bool{group: true})
		is.True(got.From.Before(got.Now))

		sub := theSubscription(t, a)
		is.True(time.Since(sub.Backlog.OldestRetry) < time.Hour)
	})
}

// A group that keeps nothing cannot be counted, and the answer tells.
func TestThroughput_4_4_WithoutHistoryRetention(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	db := pulsetest.Database(t)
	cfg := config(db)
	cfg.HistoryRetention = pulse.NoTTL
	c := start(t, cfg)
	handled := make(chan struct{}, 1)
	version2.subscribe(t, c, func(call) error { handled <- struct{}{}; return nil })
	publish(t, c, 1)
	<-handled
	got, err := open(t, db).Throughput(t.Context(), admin.ThroughputQuery{})
	is.NoErr(err)
	is.Equal(len(got.Slices), 0)
	is.Equal(len(got.Groups), 0)

	_, err = open(t, db).Throughput(t.Context(), admin.ThroughputQuery{Slice: time.Millisecond})
	var wrong *admin.QueryError
	is.True(errors.As(err, &wrong))
}
