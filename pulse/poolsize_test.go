package pulse_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/orionjs/orion-go/pulse"
	"github.com/orionjs/orion-go/pulse/pulsetest"
)

// The fewest connections with which everything works: one waits for the change stream.
func TestPoolSize_TwoConnectionsAreEnough(t *testing.T) {
	is := is.New(t) // not beside others: with two connections commands wait for each other, and a busy server is too slow
	db := pulsetest.Database(t)
	mc := pulsetest.Client(t, func(o *options.ClientOptions) { o.SetMaxPoolSize(2) })
	c, err := pulse.New(t.Context(), mc, fast(db))
	is.NoErr(err)
	t.Cleanup(func() { is.NoErr(c.Close(context.Background())) })
	const n = 40
	var runs pulsetest.Recorder[string]
	handle := func(_ context.Context, e *pulse.Event[int]) error {
		runs.Add(e.Topic)
		return nil
	}
	inOrder, single, batch := pulse.NewTopic[int]("in order"), pulse.NewTopic[int]("single"), pulse.NewTopic[int]("batch")
	is.NoErr(second(inOrder.Subscribe(t.Context(), c, handle)))
	is.NoErr(second(single.Subscribe(t.Context(), c, handle, unordered()...)))
	is.NoErr(second(batch.SubscribeBatch(t.Context(), c, 7, func(ctx context.Context, events []*pulse.Event[int]) error {
		for _, e := range events {
			_ = handle(ctx, e)
		}
		return nil
	})))
	began := time.Now()
	for i := range n {
		for _, topic := range []pulse.Topic[int]{inOrder, single, batch} {
			is.NoErr(second(topic.Publish(t.Context(), c, i)))
		}
	}
	runs.Wait(t, 3*n)
	t.Logf("%d events in %v", 3*n, time.Since(began))
}

// With one, the change stream lets nothing else through. Connect sees it and refuses; a mongo.Client of the user's does
// not tell, and the error of what finds no connection says what to do.
func TestPoolSize_OneConnection(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	db := pulsetest.Database(t)
	separator := "?"
	if strings.Contains(pulsetest.URI(t), "?") {
		separator = "&"
	}
	uri := pulsetest.URI(t) + separator + "maxPoolSize=1"
	const refused = "maxPoolSize=1 in the MongoDB URI: must be at least 2, since the change stream holds one connection; leave it out for the driver's 100, or set DisableChangeStreams"
	config := fast(db)
	_, err := pulse.Connect(t.Context(), uri, config)
	is.Equal(problemsOf(t, err), []string{refused})
	is.Equal(problemsOf(t, config.Validate(uri)), []string{refused})
	config.DisableChangeStreams = true
	c, err := pulse.Connect(t.Context(), uri, config) // polling alone needs no more
	is.NoErr(err)
	var runs pulsetest.Recorder[int]
	topic := pulse.NewTopic[int]("t")
	is.NoErr(second(topic.Subscribe(t.Context(), c, func(_ context.Context, e *pulse.Event[int]) error {
		runs.Add(e.Data)
		return nil
	})))
	is.NoErr(second(topic.Publish(t.Context(), c, 1)))
	runs.Wait(t, 1)
	is.NoErr(c.Close(t.Context()))

	mc := pulsetest.Client(t, func(o *options.ClientOptions) { o.SetMaxPoolSize(1) })
	busy, err := mc.Database(db.Name()).Watch(t.Context(), []any{}, options.ChangeStream().SetMaxAwaitTime(time.Minute))
	is.NoErr(err)
	waiting, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		busy.Next(waiting)
	}()
	t.Cleanup(func() {
		stop()
		<-ended
		_ = busy.Close(context.Background())
	})
	pulsetest.Eventually(t, "the only connection is busy", func(ctx context.Context) error {
		soon, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
		defer cancel()
		_, err := pulse.New(soon, mc, fast(db))
		if err == nil || !strings.Contains(err.Error(), "no connection of the mongo.Client was free: raise its maxPoolSize; Pulse uses about WorkerCount + 12") {
			return fmt.Errorf("got %w", errors.Join(err, errors.New("no advice")))
		}
		return nil
	})
}
