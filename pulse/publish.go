package pulse

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/orionjs/orion-go/pulse/internal/store"
)

// Limits of stored events.
const (
	maxEventBytes = 16 << 20 // MongoDB's limit of a document
	chunkEvents   = 1000
	chunkBytes    = 16 << 20
)

// Publish stores one event with one insert and returns it as handlers will get it. Its place in the order
// is the server's time at which it was stored.
//
// An *InvalidEventError, a *ConflictError and ErrClosed say that nothing was stored. Any other error comes
// from MongoDB and leaves open whether the event was stored: publishing again WithID is safe.
//
// With a context that carries a running transaction, as [mongo.Session.WithTransaction] hands it to its
// callback, the event is part of it: it becomes visible by the commit, and is then delivered to every group
// like any other, however long the transaction was open; an abort leaves nothing (spec 1.4). Its place in the
// order is then the time right after the commit. The transaction must be one of the mongo.Client that was
// given to New. After an error of MongoDB the transaction cannot be committed: return the error from the
// callback, wrapped with %w at most, since it tells WithTransaction whether to try again.
func (t Topic[T]) Publish(ctx context.Context, c *Client, data T, opts ...PublishOption) (*Event[T], error) {
	var o publishOptions
	for _, opt := range opts {
		if opt != nil {
			opt(&o)
		}
	}
	if c.observed() {
		return t.publishObserved(ctx, c, data, o)
	}
	return t.publish(ctx, c, data, o)
}

func (t Topic[T]) publish(ctx context.Context, c *Client, data T, o publishOptions) (*Event[T], error) {
	within, err := c.mayPublish(ctx, t.name)
	if err != nil {
		return nil, err
	}
	p, err := t.prepare(c, o, data, within)
	if err != nil {
		return nil, fmt.Errorf("pulse: topic %s: %w; nothing was stored", t.name, &InvalidEventError{Topic: t.name, Err: err})
	}
	if within {
		results, err := t.publishWithin(ctx, c, []prepared[T]{p})
		if err != nil {
			return nil, err
		}
		return results[0].Event, results[0].Err
	}
	err = c.store.InsertEvent(ctx, p.doc)
	c.scheduled(p.stored.NotBefore)
	switch {
	case mongo.IsDuplicateKeyError(err) && p.idGiven:
		results, err := t.settleDuplicates(ctx, c, []prepared[T]{p}, map[int]error{0: err}, false)
		return results[0].Event, errors.Join(err, results[0].Err)
	case err != nil && !mongo.IsDuplicateKeyError(err):
		return nil, fmt.Errorf("pulse: topic %s: publish event %s: %w", t.name, p.stored.ID, err)
	}
	// A new ID that exists already is our own first try, which the driver has sent again.
	return p.event, nil
}

// Message is one event to be published by PublishMany.
type Message[T any] struct {
	// Data is the payload.
	Data T
	// ID is the caller's ID as of WithID; empty makes a new UUIDv7.
	ID string
	// UniqueKey is the key as of UniqueKey; empty is none.
	UniqueKey string
	// NotBefore is the time as of NotBefore; zero is at once.
	NotBefore time.Time
	// Headers are stored with the event.
	Headers map[string]string
}

// options are the message as options of Publish would have it.
func (m Message[T]) options() publishOptions {
	return publishOptions{
		id: m.ID, idGiven: m.ID != "", headers: m.Headers,
		key: m.UniqueKey, keyGiven: m.UniqueKey != "", notBefore: m.NotBefore, timeGiven: !m.NotBefore.IsZero(),
	}
}

// Published is what became of one Message: stored, with its Event (Duplicate if it was before), or not,
// with the reason.
type Published[T any] struct {
	Event *Event[T]
	Err   error
}

// PublishMany stores many events, up to 1,000 or 16 MiB with each insert, and returns what became of each,
// in the order of messages. Input that cannot be stored is an error before anything is stored, with an
// *InvalidEventError for each such event, and then there are no results. Otherwise the error is nil exactly
// if all were stored, and else says how many were not; events are stored independently of each other
// (spec 1.2).
//
// In a transaction, see Publish, all of them are part of it, and an error of MongoDB ends it and leaves no
// results.
func (t Topic[T]) PublishMany(ctx context.Context, c *Client, messages []Message[T]) ([]Published[T], error) {
	if c.observed() && len(messages) > 0 {
		return t.publishManyObserved(ctx, c, messages)
	}
	return t.publishMany(ctx, c, messages)
}

func (t Topic[T]) publishMany(ctx context.Context, c *Client, messages []Message[T]) ([]Published[T], error) {
	within, err := c.mayPublish(ctx, t.name)
	if err != nil {
		return nil, err
	}
	all := make([]prepared[T], len(messages))
	var bad []error
	for i, m := range messages {
		p, err := t.prepare(c, m.options(), m.Data, within)
		if err != nil {
			bad = append(bad, fmt.Errorf("message %d: %w", i, &InvalidEventError{Topic: t.name, Index: i, Err: err}))
		}
		all[i] = p
	}
	if len(bad) > 0 {
		return nil, fmt.Errorf("pulse: topic %s: %d of %d messages cannot be stored; nothing was stored: %w", t.name, len(bad), len(messages), errors.Join(bad...))
	}
	results := make([]Published[T], 0, len(messages))
	for rest := all; len(rest) > 0; {
		n := chunkLen(rest)
		if within {
			stored, err := t.publishWithin(ctx, c, rest[:n])
			if err != nil {
				return nil, err
			}
			results = append(results, stored...)
		} else {
			results = append(results, t.publishChunk(ctx, c, rest[:n])...)
		}
		rest = rest[n:]
	}
	failed, first := 0, error(nil)
	for _, r := range results {
		if r.Err != nil {
			failed++
			if first == nil {
				first = r.Err
			}
		}
	}
	if failed > 0 {
		return results, fmt.Errorf("pulse: topic %s: %d of %d events were not stored, each result says why; the first: %w", t.name, failed, len(messages), first)
	}
	return results, nil
}

func chunkLen[T any](all []prepared[T]) int {
	size := 0
	for i, p := range all {
		if size += len(p.doc); i == chunkEvents || size > chunkBytes && i > 0 {
			return i
		}
	}
	return len(all)
}

// publishChunk stores one chunk. When the answer is lost it sends the same documents once more: those
// that are stored already are found by their IDs.
func (t Topic[T]) publishChunk(ctx context.Context, c *Client, chunk []prepared[T]) []Published[T] {
	docs := make([]bson.Raw, len(chunk))
	for i, p := range chunk {
		docs[i] = p.doc
		c.scheduled(p.stored.NotBefore)
	}
	failed, err := c.store.InsertEvents(ctx, docs)
	repeated := false
	if err != nil && ctx.Err() == nil {
		repeated = true
		failed, err = c.store.InsertEvents(ctx, docs)
	}
	results := make([]Published[T], len(chunk))
	if err != nil {
		for i, p := range chunk {
			results[i].Err = fmt.Errorf("pulse: topic %s: publish event %s (it may have been stored): %w", t.name, p.stored.ID, err)
		}
		return results
	}
	// A new ID that exists already is our own first try, sent again by the driver or by us.
	duplicates := map[int]error{}
	for i, reason := range failed {
		switch own := !chunk[i].idGiven; {
		case mongo.IsDuplicateKeyError(reason) && own:
		case mongo.IsDuplicateKeyError(reason):
			duplicates[i] = reason
		default:
			results[i].Err = fmt.Errorf("pulse: topic %s: publish event %s: %w", t.name, chunk[i].stored.ID, reason)
		}
	}
	if len(duplicates) > 0 {
		settled, err := t.settleDuplicates(ctx, c, chunk, duplicates, repeated)
		for i := range duplicates {
			results[i] = settled[i]
			results[i].Err = errors.Join(results[i].Err, err)
		}
	}
	for i, p := range chunk {
		if results[i].Event == nil && results[i].Err == nil {
			results[i].Event = p.event
		}
	}
	return results
}

// settleDuplicates compares the refused events, by their index, with those stored under their IDs. When
// they were sent repeatedly, what is stored may be the first try's.
func (t Topic[T]) settleDuplicates(ctx context.Context, c *Client, all []prepared[T], refused map[int]error, repeated bool) (map[int]Published[T], error) {
	ids := make([]string, 0, len(refused))
	for i := range refused {
		ids = append(ids, all[i].stored.ID)
	}
	stored, err := c.store.Events(ctx, ids)
	if err != nil {
		return nil, err
	}
	return t.compare(all, refused, stored, repeated), nil
}

// compare tells what became of the refused events, given those that are stored under their IDs.
func (t Topic[T]) compare(all []prepared[T], refused map[int]error, stored map[string]store.Event, repeated bool) map[int]Published[T] {
	out := make(map[int]Published[T], len(refused))
	claimed := map[string]bool{}
	for _, i := range slices.Sorted(maps.Keys(refused)) {
		mine := all[i].stored
		old, ok := stored[mine.ID]
		switch {
		case !ok:
			out[i] = Published[T]{Err: fmt.Errorf("pulse: topic %s: the event stored under the ID %q expired in this moment; publish again: %w", t.name, mine.ID, refused[i])}
		case old.Topic != mine.Topic || !all[i].byKey && !sameData(old.Data, mine.Data):
			out[i] = Published[T]{Err: &ConflictError{ID: mine.ID, Topic: mine.Topic, StoredTopic: old.Topic}}
		default:
			event, err := newEvent[T](old)
			if event != nil {
				ours := repeated && !claimed[mine.ID] && old.CreatedAt.Equal(mine.CreatedAt) && old.Publisher == mine.Publisher
				claimed[mine.ID] = true
				event.Duplicate = !ours
			}
			out[i] = Published[T]{Event: event, Err: err}
		}
	}
	return out
}

// mayPublish tells whether the client can publish, and whether it would be within the caller's transaction.
func (c *Client) mayPublish(ctx context.Context, topic string) (within bool, err error) {
	if problem := nameProblem("the topic's name", topic); problem != "" {
		return false, fmt.Errorf("pulse: publish: %w; nothing was stored", &InvalidEventError{Topic: topic, Err: errors.New(problem)})
	}
	if c == nil {
		return false, fmt.Errorf("pulse: topic %s: publish: the client is nil; nothing was stored", topic)
	}
	if c.closed() {
		return false, ErrClosed
	}
	if within, err = c.store.Joins(ctx); err != nil {
		return false, fmt.Errorf("pulse: topic %s: publish: %w; nothing was stored", topic, err)
	}
	return within, nil
}
