package kafka_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/matryer/is"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/orionjs/orion-go/echoes"
	"github.com/orionjs/orion-go/echoes/kafka"
	"github.com/orionjs/orion-go/pulse/observe"
	"github.com/orionjs/orion-go/pulse/pulsetest"
)

// watch records what the members of a group do with the orders of a topic, and
// finds two handlers of one partition that run at once.
type watch struct {
	partitions int

	mu      sync.Mutex
	running map[int]string
	handled map[int]int
	order   map[int][]int // by partition, in the order of handling
	clashes []string
}

func newWatch(partitions int) *watch {
	return &watch{partitions: partitions, running: map[int]string{}, handled: map[int]int{}, order: map[int][]int{}}
}

func (w *watch) begin(member string, n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := n % w.partitions
	if other := w.running[p]; other != "" {
		w.clashes = append(w.clashes, fmt.Sprintf("partition %d: %s began %d while %s ran", p, member, n, other))
	}
	w.running[p] = member
}

func (w *watch) end(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := n % w.partitions
	w.running[p] = ""
	w.handled[n]++
	w.order[p] = append(w.order[p], n)
}

func (w *watch) handler(member string, during func(n int)) func(context.Context, echoes.Item[order]) error {
	return func(_ context.Context, o echoes.Item[order]) error {
		w.begin(member, o.Params.N)
		defer w.end(o.Params.N)
		during(o.Params.N)
		return nil
	}
}

// count returns how many different orders were handled.
func (w *watch) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.handled)
}

// Members come and go under load: nothing is lost, no partition has two handlers
// at once, and as everybody leaves in order nothing comes twice or out of order.
func TestKafka_7_7_RebalanceUnderLoad(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := newSetup(t)
	const partitions, total = 6, 3000
	topic := s.topic(t, partitions)
	w := newWatch(partitions)
	var made atomic.Int32
	join := func(name string) *member {
		return s.join(t, s.config(quick(fastSession, fastRebalance)...), on(topic, w.handler(name, func(int) { made.Add(1); time.Sleep(200 * time.Microsecond) })))
	}
	first := join("first")
	stored := 0
	more := func(n int) {
		s.fill(t, topic, partitions, stored, n)
		stored += n
	}
	until := func(n int) {
		pulsetest.Eventually(t, fmt.Sprintf("%d handled orders", n), func(context.Context) error {
			if got := w.count(); got < n {
				return fmt.Errorf("%d are", got)
			}
			return nil
		})
	}
	more(total / 4)
	until(100)
	join("second")
	more(total / 4)
	until(total / 4)
	join("third")
	more(total / 4)
	until(total / 2)
	is.NoErr(first.Close(t.Context()))
	more(total / 4)
	until(total)
	s.waitCommitted(t, topic, total)

	w.mu.Lock()
	defer w.mu.Unlock()
	is.Equal(w.clashes, nil)
	is.Equal(len(w.handled), total)
	is.Equal(int(made.Load()), total) // nobody left work behind
	for p, order := range w.order {
		for i, n := range order {
			is.Equal(n, p+i*partitions)
		}
	}
}

// A handler that takes longer than the session timeout keeps its partition, also
// while another member joins and takes others away.
func TestKafka_7_7_LongHandlerKeepsItsPartition(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := newSetup(t)
	topic, other := s.topic(t, 1), s.topic(t, 1)
	s.fill(t, topic, 1, 0, 2)
	var calls atomic.Int32
	started := make(chan struct{})
	long := func(ctx context.Context, o echoes.Item[order]) error {
		if calls.Add(1) > 1 {
			return nil
		}
		close(started)
		select {
		case <-time.After(fastSession + 2*time.Second): // what is proved is that this is long
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	m := s.join(t, s.config(quick(fastSession, fastRebalance)...), on(topic, long))
	<-started
	// A second topic in the group, and with it a rebalance.
	s.join(t, s.config(quick(fastSession, fastRebalance)...), on(other, func(context.Context, echoes.Item[order]) error { return nil }))
	s.waitCommitted(t, topic, 2)
	is.Equal(calls.Load(), int32(2)) // one each, nothing came again
	is.Equal(m.errors.Len(), 0)
}

// A handler that goes on for too long when its partition moves is cancelled with
// a cause; its offset is not committed, and the next owner handles the event.
func TestKafka_7_7_HandlerIsCancelledWhenItsPartitionMoves(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := newSetup(t)
	const partitions = 2
	topic := s.topic(t, partitions)
	s.fill(t, topic, partitions, 0, partitions)
	var mu sync.Mutex
	cancelled := map[int]error{}
	var again pulsetest.Recorder[echoes.Item[order]]
	started := make(chan struct{}, partitions)
	m := s.join(t, s.config(quick(fastSession, 2*time.Second)...), on(topic, func(ctx context.Context, o echoes.Item[order]) error {
		started <- struct{}{}
		<-ctx.Done()
		mu.Lock()
		defer mu.Unlock()
		cancelled[o.Params.N] = context.Cause(ctx)
		return ctx.Err()
	}))
	for range partitions {
		<-started
	}
	s.join(t, s.config(quick(fastSession, 2*time.Second)...), on(topic, func(_ context.Context, o echoes.Item[order]) error {
		again.Add(o)
		return nil
	}))
	got := again.Wait(t, 1)[0]
	is.Equal(got.Attempt, 1) // a cancelled attempt does not count
	mu.Lock()
	is.Equal(len(cancelled), 1) // the other partition stays where it is
	is.True(errors.Is(cancelled[got.Params.N], kafka.ErrPartitionLost))
	mu.Unlock()
	s.waitCommitted(t, topic, 1)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	is.NoErr(m.Close(ctx))
	again.Wait(t, 2)
}

// What a handler returns after its partition is gone is not stored: neither its
// success as a commit, nor its failure as a retry.
func TestKafka_7_7_LateOutcomeIsNotStored(t *testing.T) {
	t.Parallel()
	for name, outcome := range map[string]error{"success": nil, "failure": errTest} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			s := newSetup(t)
			topic := s.topic(t, 1)
			s.fill(t, topic, 1, 0, 1)
			started, let := make(chan struct{}), make(chan struct{})
			var lost losses
			m := newMember(t, echoes.Config{
				Kafka: kafka.New(s.config(append(quick(fastSession, time.Second), kgo.InstanceID("old"))...)), Observer: &lost,
			}, on(topic, func(context.Context, echoes.Item[order]) error {
				close(started)
				<-let // whatever becomes of the context
				return outcome
			}))
			is.NoErr(m.Start(t.Context()))
			<-started
			// A member of the same identity fences the first one.
			var again pulsetest.Recorder[int]
			s.join(t, s.config(append(quick(fastSession, time.Second), kgo.InstanceID("old"))...), on(topic, func(_ context.Context, o echoes.Item[order]) error {
				again.Add(o.Attempt)
				return nil
			}))
			is.Equal(again.Wait(t, 1), []int{1})
			s.waitCommitted(t, topic, 1)
			pulsetest.Eventually(t, "the first member's loss", func(context.Context) error {
				if m.errors.Len() == 0 {
					return errors.New("no error was reported")
				}
				return nil
			})
			close(let)
			m.errors.WaitFor(t, "ErrPartitionLost", func(errs []error) bool {
				for _, err := range errs {
					if errors.Is(err, kafka.ErrPartitionLost) || outcome != nil {
						return true
					}
				}
				return false
			})
			is.Equal(lost.Wait(t, 1), []observe.LeaseLost{{System: observe.Kafka, Group: s.group, Topic: topic, Attempt: 1}})
			is.NoErr(m.Close(t.Context()))
			s.put(t, record(topic, 0, "next"))
			is.Equal(string(s.read(t, topic, 2)[1].Value), "next") // no retry in between
		})
	}
}
