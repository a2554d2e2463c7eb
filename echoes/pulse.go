package echoes

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"sync"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/orionjs/orion-go/pulse"
)

// pulseCarrier is the transport over Pulse.
type pulseCarrier struct {
	cfg Pulse

	mu     sync.Mutex
	client *pulseClient // nil before Connect
}

// pulseClient is what one Connect made.
type pulseClient struct {
	*pulse.Client
	receivers []Receiver
}

func newPulseCarrier(cfg Pulse) *pulseCarrier { return &pulseCarrier{cfg: cfg} }

func (*pulseCarrier) Name() string { return transportPulse }

// Check judges what can be judged without a connection.
func (c *pulseCarrier) Check([]Receiver) []Problem {
	var problems []Problem
	cfg := c.cfg.Config
	switch {
	case c.cfg.Client == nil && c.cfg.URI == "":
		problems = append(problems, pulseProblem("neither Client nor URI is set: set one of them"))
		// Whether a URI would have named the database cannot be told.
		setDefault(&cfg.Database, "unknown")
	case c.cfg.Client != nil && c.cfg.URI != "":
		problems = append(problems, pulseProblem("both Client and URI are set: set only one of them"))
	}
	var wrong *pulse.ConfigurationError
	if errors.As(cfg.Validate(c.cfg.URI), &wrong) {
		for _, p := range wrong.Problems {
			problems = append(problems, pulseProblem(p.String()))
		}
	}
	return problems
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// pulseProblem is a problem of Config.Pulse.
func pulseProblem(text string) Problem { return Problem{Text: "Config.Pulse: " + text} }

// Connect makes a client and registers the receivers with it. Pulse contacts
// the server in Start.
func (c *pulseCarrier) Connect(ctx context.Context, link Link) error {
	cfg := c.cfg.Config
	cfg.ManualStart = true
	if cfg.Logger == nil {
		cfg.Logger = link.Logger
	}
	if cfg.Observer == nil {
		cfg.Observer = link.Observer
	}
	if cfg.OnError == nil {
		cfg.OnError = link.OnError
	}
	var (
		client *pulse.Client
		err    error
	)
	if c.cfg.Client != nil {
		client, err = pulse.New(ctx, c.cfg.Client, cfg)
	} else {
		client, err = pulse.Connect(ctx, c.cfg.URI, cfg)
	}
	if err != nil {
		return startupError(err, nil)
	}
	c.mu.Lock()
	c.client = &pulseClient{Client: client, receivers: link.Receivers}
	c.mu.Unlock()

	var problems []Problem
	var errs []error
	for _, r := range link.Receivers {
		err := subscribe(ctx, client, r)
		var startup *StartupError
		if errors.As(startupError(err, link.Receivers), &startup) {
			problems = append(problems, startup.Problems...)
		}
		errs = append(errs, err)
	}
	if len(problems) > 0 {
		return &StartupError{Problems: problems, Err: errors.Join(errs...)}
	}
	return errors.Join(errs...)
}

// Start stores the subscriptions, which tells what only the database knows
// (spec 2.6), and starts the handlers if all of them are sound.
func (c *pulseCarrier) Start(ctx context.Context) error {
	client := c.current()
	if client == nil {
		return ErrClosed
	}
	return startupError(client.Start(ctx), client.receivers)
}

func (c *pulseCarrier) current() *pulseClient {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.client
}

// Publish stores {params: ...}.
func (c *pulseCarrier) Publish(ctx context.Context, out Outgoing) (EventRef, error) {
	client := c.current()
	if client == nil {
		return EventRef{}, ErrClosed
	}
	var opts []pulse.PublishOption
	if out.ID != "" {
		opts = append(opts, pulse.WithID(out.ID))
	}
	if out.UniqueKey != "" {
		opts = append(opts, pulse.UniqueKey(out.UniqueKey))
	}
	if !out.NotBefore.IsZero() {
		opts = append(opts, pulse.NotBefore(out.NotBefore))
	}
	if len(out.Headers) > 0 {
		opts = append(opts, pulse.WithHeaders(out.Headers))
	}
	ev, err := pulse.NewTopic[bson.RawValue](out.Topic).Publish(ctx, client.Client, wrapParams(out.Params), opts...)
	if err != nil {
		return EventRef{}, err
	}
	return refOf(ev), nil
}

// PublishMany stores them with few inserts.
func (c *pulseCarrier) PublishMany(ctx context.Context, outs []Outgoing) ([]Published, error) {
	client := c.current()
	if client == nil {
		return nil, ErrClosed
	}
	messages := make([]pulse.Message[bson.RawValue], len(outs))
	for i, out := range outs {
		messages[i] = pulse.Message[bson.RawValue]{ID: out.ID, Data: wrapParams(out.Params), UniqueKey: out.UniqueKey, NotBefore: out.NotBefore, Headers: out.Headers}
	}
	stored, err := pulse.NewTopic[bson.RawValue](outs[0].Topic).PublishMany(ctx, client.Client, messages)
	results := make([]Published, len(stored))
	for i, p := range stored {
		results[i].Err = p.Err
		if p.Event != nil {
			results[i].EventRef = refOf(p.Event)
		}
	}
	return results, err
}

func refOf(ev *pulse.Event[bson.RawValue]) EventRef {
	return EventRef{ID: ev.ID, Topic: ev.Topic, CreatedAt: ev.CreatedAt, Duplicate: ev.Duplicate}
}

// Close is Carrier.Close.
func (c *pulseCarrier) Close(ctx context.Context) error {
	client := c.current()
	if client == nil {
		return nil
	}
	return client.Close(ctx)
}

// subscribe registers one receiver.
func subscribe(ctx context.Context, client *pulse.Client, r Receiver) error {
	topic, opts := pulse.NewTopic[bson.RawValue](r.topic), pulseOptions(r)
	if r.kind == KindBatch {
		_, err := topic.SubscribeBatch(ctx, client, r.size, func(ctx context.Context, events []*pulse.Event[bson.RawValue]) error {
			ms := make([]Message, len(events))
			for i, ev := range events {
				ms[i] = messageOf(ev)
			}
			return r.Handle(ctx, ms)
		}, opts...)
		return err
	}
	_, err := topic.Subscribe(ctx, client, func(ctx context.Context, ev *pulse.Event[bson.RawValue]) error {
		return r.Handle(ctx, []Message{messageOf(ev)})
	}, opts...)
	return err
}

func messageOf(ev *pulse.Event[bson.RawValue]) Message {
	m := Message{Event: EventContext{
		EventID: ev.ID, Topic: ev.Topic, Headers: ev.Headers, CreatedAt: ev.CreatedAt,
		Attempt: ev.Attempt, ConsumerGroup: ev.ConsumerGroup, Transport: transportPulse,
	}}
	m.Params, m.Err = unwrapParams(ev.Data)
	return m
}

// pulseOptions turns what was given into options of Pulse, whose defaults apply
// to the rest.
func pulseOptions(r Receiver) []pulse.SubscribeOption {
	s := r.InForce
	var opts []pulse.SubscribeOption
	add := func(given bool, option func() pulse.SubscribeOption) {
		if given {
			opts = append(opts, option())
		}
	}
	add(equals(s.Ordered, false), pulse.Unordered)
	add(equals(s.Ordered, true), pulse.Ordered)
	add(s.OffsetReset != nil, func() pulse.SubscribeOption { return pulse.OffsetReset(pulse.Offset(*s.OffsetReset)) })
	add(s.Delivery != nil, func() pulse.SubscribeOption { return pulse.DeliveryMode(pulse.Delivery(*s.Delivery)) })
	add(s.MaxRetries != nil, func() pulse.SubscribeOption { return pulse.MaxRetries(*s.MaxRetries) })
	add(s.RetryDelay != nil, func() pulse.SubscribeOption { return pulse.RetryDelay(*s.RetryDelay) })
	add(s.RetryBackoffMultiplier != nil, func() pulse.SubscribeOption { return pulse.RetryBackoffMultiplier(*s.RetryBackoffMultiplier) })
	add(s.ConfigVersion != nil, func() pulse.SubscribeOption { return pulse.ConfigVersion(*s.ConfigVersion) })
	add(s.ExecutionVersion != nil, func() pulse.SubscribeOption { return pulse.ExecutionVersion(*s.ExecutionVersion) })
	add(s.MaxConcurrency != nil, func() pulse.SubscribeOption { return pulse.MaxConcurrency(*s.MaxConcurrency) })
	add(s.MaxRetryDelay != nil, func() pulse.SubscribeOption { return pulse.MaxRetryDelay(*s.MaxRetryDelay) })
	add(s.RetryJitter != nil, func() pulse.SubscribeOption { return pulse.RetryJitter(*s.RetryJitter) })
	add(s.HandlerTimeout != nil, func() pulse.SubscribeOption { return pulse.HandlerTimeout(*s.HandlerTimeout) })
	add(s.RateLimit != nil, func() pulse.SubscribeOption { return pulse.RateLimit(*s.RateLimit, s.burst()) })
	return opts
}

// burst is how many calls may begin at once within the rate limit.
func (s Settings) burst() int {
	if s.RateBurst != nil {
		return *s.RateBurst
	}
	return int(min(max(math.Ceil(*s.RateLimit), 1), math.MaxInt32))
}

// startupError turns a *pulse.ConfigurationError into a *StartupError that says
// which listener each problem is about. Other errors stay as they are.
func startupError(err error, receivers []Receiver) error {
	var wrong *pulse.ConfigurationError
	if !errors.As(err, &wrong) {
		return err
	}
	problems := make([]Problem, len(wrong.Problems))
	for i, p := range wrong.Problems {
		problems[i] = pulseProblem(p.String())
		for _, r := range receivers {
			if r.topic != p.Topic {
				continue
			}
			problems[i] = r.about("%s", p.Text)
			if p.Group != "" {
				problems[i].Text = "group " + p.Group + ": " + p.Text
			}
		}
	}
	return &StartupError{Problems: problems, Err: err}
}

// As makes a DecodeError known to Pulse, which records it with the code
// decode_error.
func (e *DecodeError) As(target any) bool {
	p, ok := target.(**pulse.DecodeError)
	if ok {
		*p = &pulse.DecodeError{Topic: e.Topic, EventID: e.EventID, Err: e}
	}
	return ok
}

// wrapParams makes the data of an event, {params: ...} (spec 7.7).
func wrapParams(params bson.RawValue) bson.RawValue {
	const key = "params"
	b := make([]byte, 4, 4+1+len(key)+1+len(params.Value)+1)
	b = append(b, byte(params.Type))
	b = append(b, key...)
	b = append(b, 0)
	b = append(b, params.Value...)
	b = append(b, 0)
	binary.LittleEndian.PutUint32(b, uint32(len(b)))
	return bson.RawValue{Type: bson.TypeEmbeddedDocument, Value: b}
}

// unwrapParams finds the params in an event's data: the zero value when there
// are none. The result is a view of data.
func unwrapParams(data bson.RawValue) (bson.RawValue, error) {
	if data.Type != bson.TypeEmbeddedDocument {
		return bson.RawValue{}, errNoParams
	}
	d := NewDecoder(data)
	var params bson.RawValue
	for end := d.Begin(); d.Next(end); {
		if string(d.Key()) == "params" {
			params = bson.RawValue{Type: d.typ, Value: d.buf[d.off:d.end:d.end]}
		}
	}
	if d.err != nil {
		return bson.RawValue{}, d.err.Err
	}
	return params, nil
}
