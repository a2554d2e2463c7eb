package pulse

import (
	"context"
	"errors"
	"slices"

	"github.com/orionjs/orion-go/pulse/observe"
)

// observed tells whether somebody watches the client.
func (c *Client) observed() bool { return c != nil && c.config.Observer != nil }

// errPanicked is what an observer is told when publishing does not return: what encodes the data is the caller's.
var errPanicked = errors.New("pulse: the encoding of the data panicked")

// publishObserved is publish, with the observer told and its headers added.
func (t Topic[T]) publishObserved(ctx context.Context, c *Client, data T, o publishOptions) (event *Event[T], err error) {
	ctx, publishing := c.config.Observer.Publish(ctx, observe.Publish{System: observe.Pulse, Topic: t.name, Events: 1})
	sent := observe.Sent{Failed: 1, Err: errPanicked}
	defer func() { publishing.End(sent) }()
	o.headers = publishing.Headers(o.headers)
	event, err = t.publish(ctx, c, data, o)
	sent.Err = err
	if event != nil {
		sent.ID = event.ID
	}
	if err == nil {
		sent.Failed = 0
	}
	return event, err
}

// publishManyObserved is publishMany, with the observer told and its headers added.
func (t Topic[T]) publishManyObserved(ctx context.Context, c *Client, messages []Message[T]) (results []Published[T], err error) {
	ctx, publishing := c.config.Observer.Publish(ctx, observe.Publish{System: observe.Pulse, Topic: t.name, Batch: true, Events: len(messages)})
	sent := observe.Sent{Failed: len(messages), Err: errPanicked}
	defer func() { publishing.End(sent) }()
	messages = slices.Clone(messages)
	for i := range messages {
		messages[i].Headers = publishing.Headers(messages[i].Headers)
	}
	results, err = t.publishMany(ctx, c, messages)
	sent.Err = err
	for _, r := range results {
		if r.Err == nil {
			sent.Failed--
		}
	}
	return results, err
}
