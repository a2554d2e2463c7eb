package kafka

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/orionjs/orion-go/internal/hostile"
	"github.com/orionjs/orion-go/pulse"
	"github.com/orionjs/orion-go/pulse/observe"
)

// The pause between two tries to store an outcome.
const (
	firstPause = 250 * time.Millisecond
	lastPause  = 30 * time.Second
)

// settle stores the outcome of an attempt and then marks the record. It returns
// false when there is nothing to store any more, or when it could not be stored:
// then the record is delivered again and nothing behind it may run.
func (p *partition) settle(rec *kgo.Record, err error) bool {
	log := p.consumer.conn.link.Logger.With("group", p.consumer.group, "topic", rec.Topic, "partition", rec.Partition, "offset", rec.Offset, "event", eventID(rec), "attempt", retriesOf(rec)+1)
	outcome := observe.Success
	if err != nil {
		if cause := context.Cause(p.ctx); cause != nil {
			// Not a failure of the handler's own making: the attempt does not count.
			if errors.Is(cause, ErrPartitionLost) {
				p.observeLost(rec)
			}
			log.Info("kafka: a cancelled handler has returned, its event is delivered again", "cause", cause, "error", errorText(err))
			return false
		}
		next := p.plan(rec, err)
		if d, ok := pulse.RetryAfterOf(err); ok && next.Topic == rec.Topic {
			p.pause(min(d, MaxRetryAfter))
		}
		if !p.store(next, rec) {
			return false
		}
		if next.Topic == rec.Topic {
			outcome = observe.Retry
			log.Warn("kafka: a handler failed, its event was published again", "error", errorText(err))
		} else {
			outcome = observe.Error
			p.consumer.conn.report(fmt.Errorf("kafka: topic %s: event %s failed after %d attempts and is in %s now: %w", rec.Topic, eventID(rec), retriesOf(rec)+1, next.Topic, err))
		}
	}
	if p.mark(rec) {
		p.observeSettled(rec, outcome, err)
		return true
	}
	p.consumer.conn.report(fmt.Errorf("%w: topic %s, event %s, attempt %d: the handler has returned too late", ErrPartitionLost, rec.Topic, eventID(rec), retriesOf(rec)+1))
	p.observeLost(rec)
	return false
}

// plan decides where a failed event goes on (spec 7.7).
func (p *partition) plan(rec *kgo.Record, err error) *kgo.Record {
	topic := rec.Topic
	if retriesOf(rec) >= p.receiver.maxRetries || pulse.IsPermanent(err) {
		topic = deadLetter + topic
	}
	return nextLife(rec, topic, errorText(err))
}

// pause waits before a retry, with the partition in hand but not a place among
// those that run. When the partition is given up, the retry is stored at once.
func (p *partition) pause(d time.Duration) {
	ctx, cancel := context.WithTimeout(p.ctx, d)
	defer cancel()
	select {
	case <-ctx.Done():
	case <-p.stop:
	}
}

// wait waits for d, and reports false when ctx ends before.
func wait(ctx context.Context, d time.Duration) bool {
	pause, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	<-pause.Done()
	return ctx.Err() == nil
}

// store publishes the next life of a record until Kafka has acknowledged it. It
// returns false when the partition is given up before.
func (p *partition) store(next, rec *kgo.Record) bool {
	shrink := []func(next, rec *kgo.Record){withoutValue, withoutHeaders}
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		err := p.produce(next)
		switch {
		case err == nil:
			return true
		case p.ctx.Err() != nil:
			return false
		case errors.Is(err, kerr.MessageTooLarge) && len(shrink) > 0:
			// It was written by a client with another limit, and fits no more with
			// what it grew by.
			shrink[0](next, rec)
			shrink = shrink[1:]
			continue
		}
		p.consumer.conn.report(fmt.Errorf("kafka: topic %s, partition %d waits: event %s cannot be stored in %s, which is tried again: %w",
			rec.Topic, rec.Partition, eventID(rec), next.Topic, publishError(next.Topic, 0, err)))
		if !wait(p.ctx, pause) {
			return false
		}
	}
}

// produce waits for the acknowledgement, or for the end of p.ctx, after which the
// record may be stored or not.
func (p *partition) produce(rec *kgo.Record) error {
	acknowledged := make(chan error, 1)
	again := *rec // the client writes into the record
	p.consumer.client.Produce(p.ctx, &again, func(_ *kgo.Record, err error) { acknowledged <- err })
	select {
	case err := <-acknowledged:
		return err
	case <-p.ctx.Done():
		return context.Cause(p.ctx)
	}
}

// errorText returns the text of an error, which may be anybody's, cut for a
// header.
func errorText(err error) string {
	text := strings.ToValidUTF8(hostile.Text(err), "\ufffd")
	if len(text) <= maxErrorText {
		return text
	}
	text = text[:maxErrorText]
	for !utf8.ValidString(text) {
		text = text[:len(text)-1]
	}
	return text
}
