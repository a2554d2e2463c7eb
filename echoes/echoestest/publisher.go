package echoestest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/orionjs/orion-go/echoes"
	"github.com/orionjs/orion-go/pulse"
)

// Publisher is an echoes.Publisher that remembers what is published instead of storing it, for services that
// publish. Like an app it refuses what can never be stored, and stores an ID once. The zero value is ready; it must not be
// copied, and is safe for concurrent use. Items returns what it got.
type Publisher struct {
	// Err, when not nil, is what Publish and PublishMany return, as in an outage; nothing is remembered then.
	// Set it while nobody publishes.
	Err error

	mu   sync.Mutex
	outs []echoes.Outgoing
}

var _ echoes.Publisher = (*Publisher)(nil)

// Publish remembers the event.
func (p *Publisher) Publish(_ context.Context, topic string, params any, opts ...echoes.PublishOption) (echoes.EventRef, error) {
	out := echoes.Outgoing{Topic: topic}
	for _, opt := range opts {
		if opt != nil {
			opt(&out)
		}
	}
	if err := complete(&out, params, 0); err != nil {
		return echoes.EventRef{}, fmt.Errorf("publish to %s: %w", topic, err)
	}
	ref, err := p.add(out)
	if err != nil {
		return echoes.EventRef{}, fmt.Errorf("publish to %s: %w", topic, err)
	}
	return ref, nil
}

// PublishMany remembers the events, or none if one of them can never be stored.
func (p *Publisher) PublishMany(_ context.Context, topic string, drafts []echoes.Draft[any]) ([]echoes.Published, error) {
	outs := make([]echoes.Outgoing, len(drafts))
	var errs []error
	for i, draft := range drafts {
		outs[i] = echoes.Outgoing{Topic: topic, ID: draft.ID, Key: draft.Key, UniqueKey: draft.UniqueKey, NotBefore: draft.NotBefore, Headers: draft.Headers}
		if err := complete(&outs[i], draft.Params, i); err != nil {
			errs = append(errs, fmt.Errorf("event %d: %w", i, err))
		}
	}
	if len(errs) > 0 {
		return nil, fmt.Errorf("publish to %s: %w", topic, errors.Join(errs...))
	}
	results := make([]echoes.Published, len(outs))
	for i, out := range outs {
		results[i].EventRef, results[i].Err = p.add(out)
		errs = append(errs, results[i].Err)
	}
	return results, errors.Join(errs...)
}

// complete encodes the params of an event, if it can be stored at all.
func complete(out *echoes.Outgoing, params any, index int) error {
	err := errors.New("the topic is empty")
	if strings.TrimSpace(out.Topic) != "" {
		out.Params, err = encode(params)
	}
	if err != nil {
		return &echoes.InvalidEventError{Topic: out.Topic, Index: index, Err: err}
	}
	return nil
}

func (p *Publisher) add(out echoes.Outgoing) (echoes.EventRef, error) {
	if p.Err != nil {
		return echoes.EventRef{}, p.Err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if out.UniqueKey != "" {
		out.ID = fmt.Sprintf("unique-%q-%q", out.Topic, out.UniqueKey)
	}
	if out.ID == "" {
		out.ID = fmt.Sprintf("published-%d", len(p.outs)+1)
	}
	ref := echoes.EventRef{ID: out.ID, Topic: out.Topic, CreatedAt: at}
	for _, stored := range p.outs {
		if stored.ID != out.ID {
			continue
		}
		if out.UniqueKey != "" {
			ref.Duplicate = true // whatever the params
			return ref, nil
		}
		if stored.Topic != out.Topic || stored.Params.Type != out.Params.Type || !bytes.Equal(stored.Params.Value, out.Params.Value) {
			return echoes.EventRef{}, &pulse.ConflictError{ID: out.ID, Topic: out.Topic, StoredTopic: stored.Topic}
		}
		ref.Duplicate = true
		return ref, nil
	}
	p.outs = append(p.outs, out)
	return ref, nil
}

// Len returns how many events were published, on all topics.
func (p *Publisher) Len() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.outs)
}

// Items returns the events that were published on the topic, in order, as a handler would get them. One that is no
// P fails the test.
func Items[P any](t testing.TB, p *Publisher, topic string) []echoes.Item[P] {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	var items []echoes.Item[P]
	for _, out := range p.outs {
		if out.Topic != topic {
			continue
		}
		item := echoes.Item[P]{EventContext: echoes.EventContext{EventID: out.ID, Topic: topic, Headers: out.Headers, CreatedAt: at}}
		if out.Params.Type != bson.TypeNull {
			if err := out.Params.Unmarshal(&item.Params); err != nil {
				t.Fatalf("topic %s, event %s: the params are no %T: %v", topic, out.ID, item.Params, err)
			}
		}
		items = append(items, item)
	}
	return items
}
