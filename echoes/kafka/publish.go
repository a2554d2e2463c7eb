package kafka

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/orionjs/orion-go/echoes"
)

// Publish is Carrier.Publish. Kafka knows no IDs: a second event with one is
// stored like any other.
func (c *carrier) Publish(ctx context.Context, out echoes.Outgoing) (echoes.EventRef, error) {
	results, err := c.publish(ctx, []echoes.Outgoing{out}, false)
	if err != nil {
		return echoes.EventRef{}, err
	}
	return results[0].EventRef, nil
}

// PublishMany is Carrier.PublishMany. The events are on their way together, and
// those of one key are stored in their order.
func (c *carrier) PublishMany(ctx context.Context, outs []echoes.Outgoing) ([]echoes.Published, error) {
	return c.publish(ctx, outs, true)
}

func (c *carrier) publish(ctx context.Context, outs []echoes.Outgoing, batch bool) ([]echoes.Published, error) {
	conn := c.current()
	switch {
	case conn == nil:
		return nil, echoes.ErrClosed
	case conn.link.Observer != nil:
		return conn.sendObserved(ctx, outs, batch)
	default:
		return conn.send(ctx, outs)
	}
}

// send sends events and waits for the brokers' answers.
func (conn *connection) send(ctx context.Context, outs []echoes.Outgoing) ([]echoes.Published, error) {
	records := make([]*kgo.Record, len(outs))
	ids := make([]string, len(outs))
	var bad []error
	for i, out := range outs {
		if out.ID == "" {
			id, err := uuid.NewV7()
			if err != nil {
				return nil, fmt.Errorf("make an event ID: %w", err)
			}
			out.ID = id.String()
		}
		rec, err := newRecord(out)
		if err == nil && recordSize(rec) > conn.maxPublish {
			err = fmt.Errorf("the event has %d bytes, more than the %d that Kafka takes: keep the data elsewhere and publish where it is, or raise the brokers' message.max.bytes and kgo.ProducerBatchMaxBytes", recordSize(rec), conn.maxPublish)
		}
		if err != nil {
			bad = append(bad, &echoes.InvalidEventError{Topic: out.Topic, Index: i, Err: err})
		}
		records[i], ids[i] = rec, out.ID
	}
	if len(bad) > 0 {
		return nil, errors.Join(bad...)
	}
	// Promises are called in any order and, after ctx, by nobody who waits.
	type outcome struct {
		i   int
		err error
	}
	done := make(chan outcome, len(records))
	for i, rec := range records {
		conn.client.Produce(ctx, rec, func(_ *kgo.Record, err error) { done <- outcome{i, err} })
	}
	results := make([]echoes.Published, len(records))
	for i := range results {
		results[i].EventRef = echoes.EventRef{ID: ids[i], Topic: outs[i].Topic}
		results[i].Err = errUnknown
	}
	for range records {
		select {
		case o := <-done:
			results[o.i].Err = publishError(outs[o.i].Topic, o.i, o.err)
			if o.err == nil {
				results[o.i].CreatedAt = records[o.i].Timestamp.UTC().Truncate(time.Millisecond)
			}
			continue
		case <-ctx.Done():
		}
		break
	}
	for i := range results {
		if results[i].Err == errUnknown {
			results[i].Err = fmt.Errorf("%w: %w", errUnknown, context.Cause(ctx))
		}
	}
	for _, r := range results {
		if r.Err != nil {
			return results, r.Err
		}
	}
	return results, nil
}

var errUnknown = errors.New("no answer from the brokers, the event may be stored or not")

// publishError says what a failed produce means.
func publishError(topic string, index int, err error) error {
	switch {
	case errors.Is(err, kgo.ErrClientClosed):
		return echoes.ErrClosed
	case errors.Is(err, kerr.MessageTooLarge), errors.Is(err, kerr.InvalidTopicException), errors.Is(err, kerr.InvalidRecord):
		return &echoes.InvalidEventError{Topic: topic, Index: index, Err: fmt.Errorf("the brokers refuse it: %w", err)}
	case errors.Is(err, kerr.UnknownTopicOrPartition):
		return fmt.Errorf("the topic does not exist, and the brokers do not create it: create it: %w", err)
	}
	return err
}

// retryRoom is what a record grows by when it is published again.
const retryRoom = maxErrorText + 1024

// recordSize is the size of a record alone in its batch, rounded up.
func recordSize(rec *kgo.Record) int {
	const overhead, perHeader = 100, 10
	n := overhead + len(rec.Key) + len(rec.Value)
	for _, h := range rec.Headers {
		n += perHeader + len(h.Key) + len(h.Value)
	}
	return n
}
