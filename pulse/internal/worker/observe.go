package worker

import (
	"context"
	"time"

	"github.com/orionjs/orion-go/pulse/internal/delivery"
	"github.com/orionjs/orion-go/pulse/internal/store"
	"github.com/orionjs/orion-go/pulse/observe"
)

// The observer is called by these, which nobody calls without one: what they make of a task costs nothing then.

// observe tells of an attempt that begins, and returns the handler's context and what is to be told its end.
func (p *Pool) observe(t *task, startedAt time.Time) (context.Context, func(*observe.Failure)) {
	events := make([]observe.Event, len(t.events))
	for i, e := range t.events {
		events[i] = observe.Event{ID: e.ID, Headers: e.Headers, PublishedAt: e.CreatedAt}
		if e.NotBefore.After(e.CreatedAt) {
			events[i].PublishedAt = e.NotBefore
		}
	}
	return p.Observer.Attempt(t.ctx, observe.Attempt{
		System: observe.Pulse, Group: p.Group, Topic: t.lane.receiver.Topic, Delivery: t.deliveryID(), Number: t.attempt(),
		Batch: t.lane.receiver.Batch, Events: events, StartedAt: startedAt,
	})
}

// observeSettled tells of a stored outcome.
func (p *Pool) observeSettled(s store.Settlement) {
	code := ""
	if s.Failure != nil {
		code = s.Failure.Code
	}
	p.Observer.Settled(observe.Settled{
		System: observe.Pulse, Group: s.ConsumerGroup, Topic: s.Topic, Attempt: s.Attempt, Outcome: delivery.Observed(s.Verdict), Code: code,
	})
}

// observeClaim tells of a claim.
func (p *Pool) observeClaim(l *lane, asked, won int) {
	p.Observer.Claimed(observe.Claimed{Group: p.Group, Topic: l.receiver.Topic, Asked: asked, Won: won})
}

// observeRecovered tells of an attempt of an order whose worker was lost. One that was only claimed ahead is as it
// was, and no attempt.
func (p *Pool) observeRecovered(topic string, h store.Head, verdict delivery.Verdict) {
	if h.Started {
		p.observeSettled(store.Settlement{ConsumerGroup: p.Group, Topic: topic, Attempt: h.Attempts + 1, Verdict: verdict, Failure: delivery.WorkerLost()})
	}
}
