package kafka

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/orionjs/orion-go/echoes"
)

// pollRecords bounds the records that one poll hands out.
const pollRecords = 1000

// topicPartition names a partition.
type topicPartition struct {
	topic     string
	partition int32
}

// consumer distributes the records of a group's member over its partitions.
//
// Records are polled and put into their partition's queue under the lock polling.
// A rebalance takes that lock to remove partitions: a record that was polled
// before a partition moved can then not end up in the queue of its next
// assignment, behind which its predecessors would come again. Waiting for the
// handlers of moved partitions happens outside the lock, so that the others go
// on.
type consumer struct {
	conn      *connection
	client    *kgo.Client
	group     string
	receivers map[string]*receiver
	slots     chan struct{}
	// handover is how long a handler may take when its partition moves.
	handover time.Duration
	abandon  chan struct{} // closed when Close has stopped waiting for handlers

	polling sync.Mutex
	waiting atomic.Int32                       // those who want polling
	wake    atomic.Pointer[context.CancelFunc] // ends the running poll

	mu         sync.Mutex
	partitions map[topicPartition]*partition
	last       map[topicPartition]<-chan struct{} // the end of each one's last assignment here
	closing    bool
	stopPoll   context.CancelFunc // nil before start
	polled     chan struct{}      // closed when polling has ended
}

// receiver is a listener with the bound of its own.
type receiver struct {
	echoes.Receiver
	slots      chan struct{} // nil without MaxConcurrency
	maxRetries int
}

func newConsumer(cfg Config, conn *connection) *consumer {
	c := &consumer{
		conn: conn, group: cfg.ConsumerGroup, receivers: map[string]*receiver{}, slots: make(chan struct{}, cfg.concurrency()),
		abandon: make(chan struct{}), partitions: map[topicPartition]*partition{}, last: map[topicPartition]<-chan struct{}{},
	}
	for _, r := range conn.link.Receivers {
		own := &receiver{Receiver: r, maxRetries: defaultMaxRetries}
		if n := r.InForce.MaxConcurrency; n != nil {
			own.slots = make(chan struct{}, *n)
		}
		if n := r.InForce.MaxRetries; n != nil {
			own.maxRetries = *n
		}
		c.receivers[r.Topic()] = own
	}
	return c
}

func (c *consumer) attach(client *kgo.Client) {
	c.client = client
	rebalance, _ := client.OptValue(kgo.RebalanceTimeout).(time.Duration)
	c.handover = rebalance / 2
}

// start joins the group.
func (c *consumer) start() {
	ctx, cancel := context.WithCancel(context.Background())
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closing {
		cancel()
		return
	}
	c.stopPoll, c.polled = cancel, make(chan struct{})
	c.client.AddConsumeTopics(topicsOf(c.conn.link.Receivers)...)
	go c.poll(ctx)
}

func (c *consumer) endPolling() {
	c.mu.Lock()
	stop, polled := c.stopPoll, c.polled
	c.mu.Unlock()
	if stop != nil {
		stop()
		<-polled
	}
}

func (c *consumer) poll(ctx context.Context) {
	defer close(c.polled)
	for ctx.Err() == nil && c.pollOnce(ctx) {
	}
}

// pollOnce returns false when the client is closed.
func (c *consumer) pollOnce(ctx context.Context) bool {
	c.polling.Lock()
	defer c.polling.Unlock()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c.wake.Store(&cancel)
	// Who wants the lock announces it first and then cancels what is in wake.
	// Either that is this cancel, or the announcement is seen here.
	if c.waiting.Load() > 0 {
		cancel()
	}
	fetches := c.client.PollRecords(ctx, pollRecords)
	if fetches.IsClientClosed() {
		return false
	}
	fetches.EachError(c.fetchError)
	fetches.EachPartition(func(f kgo.FetchTopicPartition) {
		if len(f.Records) == 0 {
			return
		}
		c.mu.Lock()
		p := c.partitions[topicPartition{f.Topic, f.Partition}]
		c.mu.Unlock()
		if p != nil { // else it was lost meanwhile
			p.add(f.Records)
		}
	})
	return true
}

func (c *consumer) fetchError(topic string, partition int32, err error) {
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, kgo.ErrClientClosed):
	case topic == "":
		c.conn.report(fmt.Errorf("kafka: group %s: %w", c.group, err))
	default:
		c.conn.report(fmt.Errorf("kafka: topic %s, partition %d: fetch: %w", topic, partition, err))
	}
}

// assigned is called before anything of the new partitions is fetched.
func (c *consumer) assigned(_ context.Context, _ *kgo.Client, assigned map[string][]int32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closing {
		return
	}
	for topic, numbers := range assigned {
		r := c.receivers[topic]
		if r == nil {
			continue
		}
		for _, n := range numbers {
			key := topicPartition{topic, n}
			p := newPartition(c, r, key)
			c.partitions[key] = p
			go p.run(c.last[key])
			c.last[key] = p.done
		}
	}
}

// revoked is called when partitions move to other members, and before leaving
// the group. They move when it returns.
func (c *consumer) revoked(_ context.Context, _ *kgo.Client, moving map[string][]int32) {
	held := c.detach(moving)
	if len(held) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), c.handover)
	defer cancel()
	impatient := make(chan struct{})
	go func() {
		defer close(impatient)
		select {
		case <-ctx.Done():
		case <-c.abandon:
		}
	}()
	if left := release(held, impatient, c.handover/4, ErrPartitionLost); left > 0 {
		c.conn.report(fmt.Errorf("%w: %d handlers have not returned after their context ended", ErrPartitionLost, left))
	}
	commit, done := context.WithTimeout(context.Background(), goodbyeTimeout)
	defer done()
	if err := c.client.CommitMarkedOffsets(commit); err != nil {
		c.conn.report(fmt.Errorf("kafka: group %s: commit the offsets of partitions that move, whose last events are delivered again: %w", c.group, err))
	}
}

// lost is called when Kafka has taken the partitions away, long ago maybe.
func (c *consumer) lost(_ context.Context, _ *kgo.Client, gone map[string][]int32) {
	for _, p := range c.detach(gone) {
		p.stopTaking()
		p.cancel(ErrPartitionLost)
		p.fence()
	}
}

// detach removes partitions, between two polls.
func (c *consumer) detach(topics map[string][]int32) []*partition {
	if len(topics) == 0 {
		return nil
	}
	c.waiting.Add(1)
	if wake := c.wake.Load(); wake != nil {
		(*wake)()
	}
	c.polling.Lock()
	defer c.polling.Unlock()
	c.waiting.Add(-1)
	c.mu.Lock()
	defer c.mu.Unlock()
	var held []*partition
	for topic, numbers := range topics {
		for _, n := range numbers {
			key := topicPartition{topic, n}
			if p := c.partitions[key]; p != nil {
				held = append(held, p)
				delete(c.partitions, key)
			}
		}
	}
	return held
}

// committed is called after each commit of the interval.
func (c *consumer) committed(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, resp *kmsg.OffsetCommitResponse, err error) {
	if err == nil && resp != nil {
		for _, topic := range resp.Topics {
			for _, p := range topic.Partitions {
				err = errors.Join(err, kerr.ErrorForCode(p.ErrorCode))
			}
		}
	}
	switch {
	case err == nil, errors.Is(err, context.Canceled), errors.Is(err, kgo.ErrClientClosed):
	case errors.Is(err, kerr.RebalanceInProgress): // the next one commits it
	default:
		c.conn.link.Logger.Warn("kafka: a commit failed and is repeated", "group", c.group, "error", err)
	}
}
