package pulse_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/matryer/is"

	"github.com/orionjs/orion-go/pulse"
	"github.com/orionjs/orion-go/pulse/pulsetest"
)

// What idle replicas cost does not grow with their topics: at most two commands a second for each, with the
// default settings, however many there are.
func TestIdle_3_4_FiftyReplicasOfTwentyTopics(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	db := pulsetest.Database(t)
	const clients, topics = 50, 20
	commands := pulsetest.NewCommandMonitor()
	mc := pulsetest.Client(t, commands.Watch)
	config := fast(db)
	config.PollInterval = 0 // the default
	config.ManualStart = true
	all := make([]*pulse.Client, clients)
	var starts sync.WaitGroup
	for i := range all {
		all[i] = startOver(t, mc, config)
		for n := range topics {
			topic := pulse.NewTopic[order](fmt.Sprint("topic ", n))
			is.NoErr(second(topic.Subscribe(t.Context(), all[i], func(context.Context, *pulse.Event[order]) error { return nil }, unordered()...)))
		}
		starts.Go(func() {
			if err := all[i].Start(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	starts.Wait()
	quiet(t, commands)
	commands.Reset()
	begun := time.Now()
	<-time.After(10 * time.Second) // a rate needs its time; a slow machine only lowers it
	n, took := commands.Count(), time.Since(begun)
	t.Log(commands, "in", took)
	is.True(float64(n) <= 2*clients*took.Seconds())
}

// quiet waits until what a start causes has settled down.
func quiet(t *testing.T, commands *pulsetest.CommandMonitor) {
	t.Helper()
	last, calm := commands.Count(), 0
	pulsetest.Eventually(t, "the start is over", func(context.Context) error {
		<-time.After(time.Second)
		now := commands.Count()
		defer func() { last = now }()
		if calm++; now-last > 150 {
			calm = 0
		}
		if calm < 3 { // one calm second may be a busy machine's
			return fmt.Errorf("%d commands in the last second", now-last)
		}
		return nil
	})
}
