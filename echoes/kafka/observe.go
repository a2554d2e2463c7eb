package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/orionjs/orion-go/echoes"
	"github.com/orionjs/orion-go/internal/hostile"
	"github.com/orionjs/orion-go/pulse/observe"
)

// errPanicked is what an observer is told when sending does not return.
var errPanicked = errors.New("kafka: the encoding of the params panicked")

// sendObserved is send, with the observer told and its headers added.
func (conn *connection) sendObserved(ctx context.Context, outs []echoes.Outgoing, batch bool) (results []echoes.Published, err error) {
	ctx, publishing := conn.link.Observer.Publish(ctx, observe.Publish{System: observe.Kafka, Topic: outs[0].Topic, Batch: batch, Events: len(outs)})
	sent := observe.Sent{Failed: len(outs), Err: errPanicked}
	defer func() { publishing.End(sent) }()
	outs = slices.Clone(outs)
	for i := range outs {
		outs[i].Headers = publishing.Headers(outs[i].Headers)
	}
	results, err = conn.send(ctx, outs)
	sent.Err = err
	for _, r := range results {
		if r.Err == nil {
			sent.Failed--
		}
	}
	if !batch && len(results) == 1 {
		sent.ID = results[0].ID
	}
	return results, err
}

// observe tells of an attempt that begins, and returns the handler's context and what is to be told its end.
func (p *partition) observe(rec *kgo.Record, e echoes.EventContext) (context.Context, func(*observe.Failure)) {
	return p.consumer.conn.link.Observer.Attempt(p.ctx, observe.Attempt{
		System: observe.Kafka, Group: p.consumer.group, Topic: rec.Topic, Number: e.Attempt,
		Events:    []observe.Event{{ID: e.EventID, Headers: e.Headers, PublishedAt: e.CreatedAt}},
		Partition: strconv.Itoa(int(rec.Partition)), Offset: rec.Offset,
	})
}

// observeSettled tells of a stored outcome.
func (p *partition) observeSettled(rec *kgo.Record, outcome observe.Outcome, err error) {
	if o := p.consumer.conn.link.Observer; o != nil {
		o.Settled(observe.Settled{System: observe.Kafka, Group: p.consumer.group, Topic: rec.Topic, Attempt: retriesOf(rec) + 1, Outcome: outcome, Code: codeOf(err)})
	}
}

// observeLost tells of an attempt whose partition is another's.
func (p *partition) observeLost(rec *kgo.Record) {
	if o := p.consumer.conn.link.Observer; o != nil {
		o.LeaseLost(observe.LeaseLost{System: observe.Kafka, Group: p.consumer.group, Topic: rec.Topic, Attempt: retriesOf(rec) + 1})
	}
}

func failureOf(err error) *observe.Failure {
	if err == nil {
		return nil
	}
	return &observe.Failure{Code: codeOf(err), Name: fmt.Sprintf("%T", err), Message: errorText(err)}
}

// codeOf gives an error the code that Pulse would store it under.
func codeOf(err error) string {
	if err == nil {
		return ""
	}
	if _, ok := hostile.As[*echoes.DecodeError](err); ok {
		return "decode_error"
	}
	return "handler_error"
}
