package kafka

import (
	"context"
	"errors"
	"runtime/debug"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/orionjs/orion-go/echoes"
	"github.com/orionjs/orion-go/internal/hostile"
	"github.com/orionjs/orion-go/pulse/observe"
)

// A queue that reaches one of these pauses the fetching of its partition until
// it is half empty.
const (
	highRecords = 512
	highBytes   = 1 << 20
)

// partition handles the records of one assigned partition, one after the other.
type partition struct {
	consumer *consumer
	receiver *receiver
	key      topicPartition

	// ctx is the handlers'. Its cause says why it ended.
	ctx    context.Context
	cancel context.CancelCauseFunc
	stop   chan struct{} // closed when no further record may start
	done   chan struct{} // closed when run has returned

	mu      sync.Mutex
	queue   []*kgo.Record
	bytes   int
	more    chan struct{} // has a token when the queue may have something
	paused  bool
	stopped bool
	fenced  bool // outcomes are not stored any more
	busy    bool // a handler runs, or its outcome is being stored
}

func newPartition(c *consumer, r *receiver, key topicPartition) *partition {
	p := &partition{consumer: c, receiver: r, key: key, stop: make(chan struct{}), done: make(chan struct{}), more: make(chan struct{}, 1)}
	p.ctx, p.cancel = context.WithCancelCause(context.Background())
	return p
}

// run handles what comes until it is stopped. A handler of the partition's
// previous assignment to this process, which went on although its context had
// ended, has to return first.
func (p *partition) run(previous <-chan struct{}) {
	defer close(p.done)
	defer p.cancel(nil)
	if previous != nil {
		select {
		case <-previous:
		case <-p.stop:
			return
		}
	}
	for {
		rec := p.next()
		if rec == nil || !p.acquire() {
			return
		}
		err := p.handle(rec)
		p.releaseSlots()
		stored := p.settle(rec, err)
		p.mu.Lock()
		p.busy = false
		p.mu.Unlock()
		if !stored {
			return
		}
	}
}

// add queues records.
func (p *partition) add(records []*kgo.Record) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped {
		return
	}
	for _, rec := range records {
		p.bytes += recordSize(rec)
	}
	p.queue = append(p.queue, records...)
	if !p.paused && (len(p.queue) >= highRecords || p.bytes >= highBytes) {
		p.paused = true
		p.consumer.client.PauseFetchPartitions(p.fetchKey())
	}
	p.signal()
}

func (p *partition) fetchKey() map[string][]int32 {
	return map[string][]int32{p.key.topic: {p.key.partition}}
}

func (p *partition) signal() {
	select {
	case p.more <- struct{}{}:
	default:
	}
}

// next waits for a record, nil when there will be none.
func (p *partition) next() *kgo.Record {
	for {
		if rec, ok := p.pop(); ok {
			return rec
		}
		select {
		case <-p.more:
		case <-p.stop:
			return nil
		}
	}
}

func (p *partition) pop() (*kgo.Record, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped {
		return nil, true
	}
	if len(p.queue) == 0 {
		return nil, false
	}
	rec := p.queue[0]
	p.queue[0] = nil
	p.queue = p.queue[1:]
	p.bytes -= recordSize(rec)
	if p.paused && len(p.queue) <= highRecords/2 && p.bytes <= highBytes/2 {
		p.resume()
	}
	return rec, true
}

func (p *partition) resume() {
	p.paused = false
	p.consumer.client.ResumeFetchPartitions(p.fetchKey())
}

// acquire waits until a handler may run, and reports whether it may: not any more
// when the partition was stopped.
func (p *partition) acquire() bool {
	own, all := p.receiver.slots, p.consumer.slots
	if own != nil && !p.take(own) {
		return false
	}
	if !p.take(all) {
		p.free(own)
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped {
		p.releaseSlots()
		return false
	}
	p.busy = true
	return true
}

func (p *partition) take(slots chan struct{}) bool {
	select {
	case slots <- struct{}{}:
		return true
	case <-p.stop:
		return false
	}
}

func (p *partition) free(slots chan struct{}) {
	if slots != nil {
		<-slots
	}
}

func (p *partition) releaseSlots() {
	p.free(p.consumer.slots)
	p.free(p.receiver.slots)
}

// stopTaking lets the running handler be the last one.
func (p *partition) stopTaking() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped {
		return
	}
	p.stopped = true
	p.queue, p.bytes = nil, 0
	close(p.stop)
	if p.paused { // a pause would outlive the assignment
		p.resume()
	}
}

// fence keeps the outcome of a handler that still runs from being stored, and
// reports whether there is one.
func (p *partition) fence() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fenced = true
	return p.busy
}

// mark makes the record's offset one to commit, unless the partition is another
// member's by now.
func (p *partition) mark(rec *kgo.Record) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fenced {
		return false
	}
	p.consumer.client.MarkCommitRecords(rec)
	return true
}

// handle runs the handler on a goroutine of its own, which it may end.
func (p *partition) handle(rec *kgo.Record) error {
	m := messageOf(rec, p.consumer.group)
	ctx := p.ctx
	var observed func(*observe.Failure)
	if p.consumer.conn.link.Observer != nil {
		ctx, observed = p.observe(rec, m.Event)
	}
	result := make(chan error, 1)
	go func() {
		returned := false
		defer func() {
			switch r := recover(); {
			case r != nil:
				p.consumer.conn.link.Logger.Error("kafka: a handler panicked", "group", p.consumer.group, "topic", rec.Topic, "event", m.Event.EventID, "attempt", m.Event.Attempt, "panic", hostile.Print(r), "stack", string(debug.Stack()))
				result <- errors.New("panic: " + hostile.Print(r))
			case !returned:
				result <- errors.New("panic: the handler called runtime.Goexit")
			}
		}()
		err := p.receiver.Handle(ctx, []echoes.Message{m})
		returned = true
		result <- err
	}()
	err := <-result
	if observed != nil {
		observed(failureOf(err))
	}
	return err
}
