package echoes

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Draft is an event that PublishMany is going to publish.
type Draft[P any] struct {
	// Params are what is published.
	Params P
	// ID is the event's ID as of WithID; empty makes a new one.
	ID string
	// Key is the event's key as of WithKey.
	Key string
	// UniqueKey is the key as of UniqueKey; empty is none.
	UniqueKey string
	// NotBefore is the time as of NotBefore; zero is at once.
	NotBefore time.Time
	// Headers are what handlers find in the event's context.
	Headers map[string]string
}

// PublishMany publishes many events on a topic, to the transports that
// Config.PublishTo selects, and returns what became of each, in the order of
// drafts. Pulse stores up to 1,000 with one insert (spec 1.2).
//
// Params and IDs are as for Publish. An event that can never be stored is an
// error before anything is stored, and then there are no results. The error has an
// *InvalidEventError for each that cannot be encoded or, when all can, for each
// that the first transport refuses. Otherwise the error is nil exactly if all were
// stored, and else says how many were not; events are stored independently of each
// other.
//
// With ToBoth those that Pulse stored are sent to Kafka. The result of one that
// Kafka did not take has an error and the event's ID.
func (a *App) PublishMany(ctx context.Context, topic string, drafts []Draft[any]) ([]Published, error) {
	carriers, err := a.targets()
	if err != nil || len(drafts) == 0 {
		return nil, err
	}
	outs := make([]Outgoing, len(drafts))
	var bad []error
	for i, draft := range drafts {
		outs[i] = Outgoing{Topic: topic, ID: draft.ID, Key: draft.Key, UniqueKey: draft.UniqueKey, NotBefore: draft.NotBefore, Headers: draft.Headers}
		if err := outs[i].complete(draft.Params, carriers); err != nil {
			bad = append(bad, fmt.Errorf("event %d: %w", i, invalid(topic, i, err)))
		}
	}
	if err := refuse(topic, bad, len(drafts)); err != nil {
		return nil, err
	}
	results, err := carriers[0].PublishMany(ctx, outs)
	if len(results) == 0 {
		return nil, fmt.Errorf("echoes: publish to %s over %s: %w", topic, carriers[0].Name(), err)
	}
	if len(carriers) > 1 {
		results = relay(ctx, carriers[0], carriers[1], outs, results)
	}
	return results, summary(topic, results)
}

// relay sends the events that the first carrier has stored to the second one.
func relay(ctx context.Context, first, second Carrier, outs []Outgoing, results []Published) []Published {
	var stored []Outgoing
	var at []int
	for i, r := range results {
		if r.Err == nil {
			stored, at = append(stored, outs[i]), append(at, i)
		}
	}
	if len(stored) == 0 {
		return results
	}
	sent, err := second.PublishMany(ctx, stored)
	for i := range stored {
		reason := err
		if len(sent) > 0 {
			reason = sent[i].Err
		}
		if reason != nil {
			results[at[i]].Err = halfway(stored[i].ID, first, second, reason)
		}
	}
	return results
}

// refuse returns the error for events of which some can never be stored.
func refuse(topic string, bad []error, total int) error {
	if len(bad) == 0 {
		return nil
	}
	return fmt.Errorf("echoes: publish to %s: %d of %d events cannot be stored; nothing was stored: %w", name(topic), len(bad), total, errors.Join(bad...))
}

// summary returns the error for events of which some were not stored.
func summary(topic string, results []Published) error {
	failed, first := 0, error(nil)
	for _, r := range results {
		if r.Err != nil {
			failed++
			if first == nil {
				first = r.Err
			}
		}
	}
	if failed == 0 {
		return nil
	}
	return fmt.Errorf("echoes: publish to %s: %d of %d events were not stored, each result says why; the first: %w", topic, failed, len(results), first)
}

// PublishEncoded is App.Publish for params with a generated encoder. The publish
// function of a type with //echoes:topic calls it (spec 7.9). What the encoder
// refuses, Validate included, is an *InvalidEventError, and nothing is stored.
func PublishEncoded[P any](ctx context.Context, to Publisher, topic string, params *P, encode func(*Encoder, *P), opts ...PublishOption) (EventRef, error) {
	v, err := EncodeParams(params, encode)
	if err != nil {
		return EventRef{}, fmt.Errorf("echoes: publish to %s: %w", topic, invalid(topic, 0, err))
	}
	return to.Publish(ctx, topic, v, opts...)
}

// PublishManyEncoded is App.PublishMany for params with a generated encoder, like
// PublishEncoded.
func PublishManyEncoded[P any](ctx context.Context, to Publisher, topic string, drafts []Draft[P], encode func(*Encoder, *P)) ([]Published, error) {
	encoded := make([]Draft[any], len(drafts))
	var bad []error
	for i := range drafts {
		v, err := EncodeParams(&drafts[i].Params, encode)
		if err != nil {
			bad = append(bad, fmt.Errorf("event %d: %w", i, invalid(topic, i, err)))
		}
		d := &drafts[i]
		encoded[i] = Draft[any]{Params: v, ID: d.ID, Key: d.Key, UniqueKey: d.UniqueKey, NotBefore: d.NotBefore, Headers: d.Headers}
	}
	if err := refuse(topic, bad, len(drafts)); err != nil {
		return nil, err
	}
	return to.PublishMany(ctx, topic, encoded)
}
