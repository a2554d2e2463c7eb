package wakeup

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/matryer/is"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestQueue_3_4_SignalsAreCoalescedAndNoneIsLost(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	q := NewQueue()
	ctx := t.Context()
	take := func() string {
		topic, ok := q.Take(ctx)
		is.True(ok)
		return topic
	}
	q.Add("a")
	q.Add("b")
	q.Add("a") // once
	is.Equal(take(), "a")
	q.Add("a") // while it is looked at: once more, but not by another worker
	q.Add("a")
	is.Equal(take(), "b")
	ended, cancel := context.WithCancel(ctx)
	cancel()
	_, ok := q.Take(ended)
	is.True(!ok)
	q.Done("b")
	q.Done("a")
	is.Equal(take(), "a")
	q.Done("a")
	_, ok = q.Take(ended)
	is.True(!ok)
}

// Workers never look at one topic together, and each signal is followed by a look that begins after it.
func TestQueue_3_4_ManyWorkers(t *testing.T) {
	t.Parallel()
	q := NewQueue()
	const topics, signals = 5, 2000
	var busy [topics]atomic.Bool
	var published, seen [topics]atomic.Int64
	ctx, cancel := context.WithCancel(t.Context())
	var workers, publishers sync.WaitGroup
	for range 4 {
		workers.Go(func() {
			for {
				topic, ok := q.Take(ctx)
				if !ok {
					return
				}
				var i int
				_, _ = fmt.Sscan(topic, &i)
				if busy[i].Swap(true) {
					t.Errorf("two look at topic %d", i)
				}
				seen[i].Store(published[i].Load())
				busy[i].Store(false)
				q.Done(topic)
			}
		})
	}
	for range 3 {
		publishers.Go(func() {
			for range signals {
				i := rand.IntN(topics)
				published[i].Add(1)
				q.Add(fmt.Sprint(i))
			}
		})
	}
	publishers.Wait()
	for i := range topics { // everything was seen once the queue is empty
		for seen[i].Load() != published[i].Load() && t.Context().Err() == nil {
			runtime.Gosched()
		}
	}
	cancel()
	workers.Wait()
}
