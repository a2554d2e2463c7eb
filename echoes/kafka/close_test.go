package kafka_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/matryer/is"

	"github.com/orionjs/orion-go/echoes"
	"github.com/orionjs/orion-go/echoes/kafka"
	"github.com/orionjs/orion-go/pulse/pulsetest"
)

// Close under load waits for the running handlers and commits exactly what is
// done: the next member goes on behind it.
func TestKafka_7_7_CloseUnderLoadCommitsWhatIsDone(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := newSetup(t)
	const partitions, total = 4, 2000
	topic := s.topic(t, partitions)
	s.fill(t, topic, partitions, 0, total)
	w := newWatch(partitions)
	enough := make(chan struct{})
	var n atomic.Int32
	m := s.join(t, s.config(), on(topic, w.handler("first", func(int) {
		if n.Add(1) == 300 {
			close(enough)
		}
	})))
	<-enough
	is.NoErr(m.Close(t.Context()))
	done := w.count()
	committed, err := s.committed(t.Context(), topic)
	is.NoErr(err)
	is.Equal(int(committed), done)
	is.True(done < total) // it was under load

	s.join(t, s.config(), on(topic, w.handler("second", func(int) {})))
	s.waitCommitted(t, topic, total)
	w.mu.Lock()
	defer w.mu.Unlock()
	for n := range total {
		is.Equal(w.handled[n], 1)
	}
	is.Equal(w.clashes, nil)
}

// When the context of Close ends, handlers are cancelled with a cause. What they
// fail with then is not theirs: the event comes again, its attempt uncounted.
// What one has finished counts.
func TestKafka_7_7_CloseCancelsByItsContext(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := newSetup(t)
	topic := s.topic(t, 2)
	s.fill(t, topic, 2, 0, 2)
	started := make(chan struct{}, 2)
	var mu sync.Mutex
	causes := map[int]error{}
	m := s.join(t, s.config(), on(topic, func(ctx context.Context, o echoes.Item[order]) error {
		started <- struct{}{}
		<-ctx.Done()
		mu.Lock()
		defer mu.Unlock()
		causes[o.Params.N] = context.Cause(ctx)
		if o.Params.N == 1 {
			return nil
		}
		return ctx.Err()
	}))
	<-started
	<-started
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	is.NoErr(m.Close(ctx))
	is.True(errors.Is(causes[0], echoes.ErrClosed))
	is.True(errors.Is(causes[1], echoes.ErrClosed))
	s.waitCommitted(t, topic, 1)

	var again pulsetest.Recorder[echoes.Item[order]]
	s.join(t, s.config(), on(topic, func(_ context.Context, o echoes.Item[order]) error {
		again.Add(o)
		return nil
	}))
	got := again.Wait(t, 1)[0]
	is.Equal(got.Params.N, 0)
	is.Equal(got.Attempt, 1)
	s.waitCommitted(t, topic, 2)
}

// A handler that ignores its context does not hold Close for ever.
func TestKafka_7_7_CloseLeavesStubbornHandlersBehind(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := newSetup(t)
	topic := s.topic(t, 1)
	s.fill(t, topic, 1, 0, 1)
	started, let, over := make(chan struct{}), make(chan struct{}), make(chan struct{})
	m := newMember(t, echoes.Config{Kafka: kafka.New(s.config())}, on(topic, func(context.Context, echoes.Item[order]) error {
		close(started)
		<-let
		defer close(over)
		return errTest
	}))
	is.NoErr(m.Start(t.Context()))
	<-started
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := m.Close(ctx)
	is.True(err != nil)
	is.Equal(err.Error(), "echoes: close kafka: 1 handlers have not returned 5s after their context ended; their events are delivered again")
	close(let)
	<-over
	committed, err := s.committed(t.Context(), topic)
	is.NoErr(err)
	is.Equal(committed, int64(0))
}

// A handler may close the App and publish while it closes; after Close nothing
// can be published.
func TestKafka_7_7_PublishAroundClose(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := newSetup(t)
	topic, next := s.topic(t, 1), s.topic(t, 1)
	s.fill(t, topic, 1, 0, 1)
	var m *member
	ready, done := make(chan struct{}), make(chan error, 1)
	m = s.join(t, s.config(), on(topic, func(ctx context.Context, _ echoes.Item[order]) error {
		<-ready
		err := m.Close(ctx)
		if err == nil {
			_, err = m.Publish(ctx, next, map[string]int{"n": 7})
		}
		done <- err
		return err
	}))
	close(ready)
	err := <-done
	is.True(err == nil || errors.Is(err, echoes.ErrClosed)) // App.Publish may say that it is closing
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	is.NoErr(m.Close(ctx))
	_, err = m.Publish(t.Context(), next, 1)
	is.True(errors.Is(err, echoes.ErrClosed))
	_, err = m.PublishMany(t.Context(), next, []echoes.Draft[any]{{Params: 1}})
	is.True(errors.Is(err, echoes.ErrClosed))
}

// A failed start leaves nothing open and may be repeated, with the same carrier.
func TestKafka_7_5_StartAfterAFailedStart(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := newSetup(t)
	topic := s.topic(t, 1)
	s.fill(t, topic, 1, 0, 1)
	var seen pulsetest.Recorder[int]
	m := newMember(t, echoes.Config{Kafka: kafka.New(s.config())}, on(topic, func(_ context.Context, o echoes.Item[order]) error {
		seen.Add(o.Params.N)
		return nil
	}))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	is.True(errors.Is(m.Start(ctx), context.Canceled))
	is.NoErr(m.Start(t.Context()))
	seen.Wait(t, 1)
	ctx, cancel = context.WithTimeout(t.Context(), patience)
	defer cancel()
	is.NoErr(m.Close(ctx))
}

// A handler whose group was joined later sees what was published before: this is
// how a listener of a topic that does not exist yet begins.
func TestKafka_7_7_TopicThatAppearsLater(t *testing.T) {
	t.Parallel()
	s := newSetup(t)
	topic := "t-later-" + s.group
	var seen pulsetest.Recorder[int]
	s.join(t, s.config(), on(topic, func(_ context.Context, o echoes.Item[order]) error {
		seen.Add(o.Params.N)
		return nil
	}))
	pub := s.join(t, s.config())
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if _, err := pub.Publish(ctx, topic, map[string]int{"n": 5}); err != nil {
		t.Fatal(err)
	}
	seen.Wait(t, 1)
}
