package wakeup

import (
	"context"
	"sync"
)

// Queue holds the topics that deserve a look, each at most once. A topic that was taken is not handed
// out again before Done; one that is added meanwhile is looked at once more after that. So several
// workers never look at one topic together, and no signal is lost between a look and its end.
type Queue struct {
	mu     sync.Mutex
	order  []string
	queued map[string]bool
	taken  map[string]bool
	wake   chan struct{}
}

// NewQueue returns an empty queue.
func NewQueue() *Queue {
	return &Queue{queued: map[string]bool{}, taken: map[string]bool{}, wake: make(chan struct{}, 1)}
}

// Add asks for a look at the topic.
func (q *Queue) Add(topic string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.queued[topic] {
		return
	}
	q.queued[topic] = true
	if !q.taken[topic] {
		q.order = append(q.order, topic)
		q.signal()
	}
}

// Take waits for a topic and takes it; ok is false when the context has ended.
func (q *Queue) Take(ctx context.Context) (topic string, ok bool) {
	for {
		if topic, ok = q.next(); ok || ctx.Err() != nil {
			return topic, ok
		}
		select {
		case <-q.wake:
		case <-ctx.Done():
		}
	}
}

func (q *Queue) next() (string, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.order) == 0 {
		return "", false
	}
	topic := q.order[0]
	q.order = q.order[1:]
	delete(q.queued, topic)
	q.taken[topic] = true
	if len(q.order) > 0 {
		q.signal() // for the next worker
	}
	return topic, true
}

// Done ends the look at a topic that was taken.
func (q *Queue) Done(topic string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.taken, topic)
	if q.queued[topic] {
		q.order = append(q.order, topic)
		q.signal()
	}
}

func (q *Queue) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}
