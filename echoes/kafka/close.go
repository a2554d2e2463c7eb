package kafka

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/orionjs/orion-go/echoes"
)

// What closing may take after the caller's context has ended.
const (
	// cancelGrace is for handlers to notice that their context has ended.
	cancelGrace = 5 * time.Second
	// goodbyeTimeout is for the last commit, for leaving the group, and for
	// events that are still being published, each.
	goodbyeTimeout = 3 * time.Second
)

// close ends the connection once, for all callers. The least patient of them
// decides how long handlers may take.
func (conn *connection) close(ctx context.Context) error {
	conn.once.Do(func() {
		go func() {
			defer close(conn.closed)
			conn.err = conn.end()
		}()
	})
	select {
	case <-conn.closed:
	case <-ctx.Done():
		conn.urge.Do(func() { close(conn.hurry) })
		<-conn.closed
	}
	return conn.err
}

// shut ends a connection on which nothing has started.
func (conn *connection) shut() {
	conn.cancel()
	conn.client.Close()
}

func (conn *connection) end() error {
	var errs []error
	if conn.consumer != nil {
		errs = append(errs, conn.consumer.stop())
	}
	bounded := func(f func(context.Context) error) error {
		ctx, cancel := context.WithTimeout(context.Background(), goodbyeTimeout)
		defer cancel()
		return f(ctx)
	}
	if err := bounded(conn.client.Flush); err != nil {
		errs = append(errs, fmt.Errorf("events are still being published: %w", err))
	}
	if conn.consumer != nil {
		err := bounded(conn.client.LeaveGroupContext)
		switch {
		case errors.Is(err, context.DeadlineExceeded):
			// Another member has died, and the brokers hold this one's answer back until that one's session has
			// ended. What was handled is committed already: the group only notices later that we are gone.
			conn.link.Logger.Warn("kafka: closed without leaving the group, which notices it when the session ends", "group", conn.consumer.group)
		case err != nil && !errors.Is(err, context.Canceled):
			errs = append(errs, fmt.Errorf("leave the group: %w", err))
		}
	}
	conn.shut()
	return errors.Join(errs...)
}

// stop ends consuming: running handlers finish, or are cancelled when nobody
// waits any longer, and what they finished is committed.
func (c *consumer) stop() error {
	c.mu.Lock()
	c.closing = true
	held := make([]*partition, 0, len(c.partitions))
	for _, p := range c.partitions {
		held = append(held, p)
	}
	c.mu.Unlock()
	c.endPolling()
	left := release(held, c.conn.hurry, cancelGrace, echoes.ErrClosed)
	close(c.abandon) // a revocation that waits for the same handlers gives up too
	c.mu.Lock()
	clear(c.partitions) // and the one that leaving the group brings finds nothing
	c.mu.Unlock()
	var errs []error
	if left > 0 {
		errs = append(errs, fmt.Errorf("%d handlers have not returned %v after their context ended; their events are delivered again", left, cancelGrace))
	}
	if err := c.commitLast(); err != nil {
		errs = append(errs, fmt.Errorf("commit the last offsets, whose events are delivered again: %w", err))
	}
	return errors.Join(errs...)
}

// release gives partitions up: they take no further event, and the running
// handlers finish. When patience ends before they have, their contexts end with
// the cause, and after grace what they do counts no more. It returns how many
// handlers that leaves behind.
func release(held []*partition, patience <-chan struct{}, grace time.Duration, cause error) (left int) {
	for _, p := range held {
		p.stopTaking()
	}
	if !allDone(held, patience) {
		for _, p := range held {
			p.cancel(cause)
		}
		over, cancel := context.WithTimeout(context.Background(), grace)
		defer cancel()
		allDone(held, over.Done())
	}
	for _, p := range held {
		if p.fence() {
			left++
		}
	}
	return left
}

// allDone waits for the partitions to end, and reports whether they did before
// giveUp was closed.
func allDone(held []*partition, giveUp <-chan struct{}) bool {
	for _, p := range held {
		select {
		case <-p.done:
			continue
		default:
		}
		select {
		case <-p.done:
		case <-giveUp:
			return false
		}
	}
	return true
}
