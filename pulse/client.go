package pulse

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/orionjs/orion-go/internal/hostile"
	"github.com/orionjs/orion-go/pulse/internal/engine"
	"github.com/orionjs/orion-go/pulse/internal/store"
	"github.com/orionjs/orion-go/pulse/internal/worker"
	"github.com/orionjs/orion-go/pulse/observe"
)

// closeInHandler bounds a Close that was called from inside a handler.
const closeInHandler = time.Minute

// Client publishes events, and runs the subscriptions of one consumer group. Its methods are safe for
// concurrent use. Several clients, of one group or of many, may share a process and a mongo.Client.
type Client struct {
	config Config
	mongo  *mongo.Client
	owned  bool // the mongo.Client is ours to close
	store  *store.Store

	// turn serializes Start, Subscribe, Unsubscribe and Close, by holding at most one value. It is a
	// channel so that whoever waits for it can give up: a handler that waits while Close has the turn,
	// and waits for the handler, would hold both up.
	turn       chan struct{}
	closing    context.Context // ends when Close begins
	beginClose context.CancelFunc
	ended      chan struct{} // closed when Close has ended

	mu            sync.Mutex     // guards the fields below for readers
	engine        *engine.Engine // nil until started
	subscriptions map[string]*Subscription
	isClosed      bool

	outage  outage
	onError hostile.Callback
}

// New is Connect over the caller's connections, which stay open after Close.
func New(ctx context.Context, client *mongo.Client, config Config) (*Client, error) {
	config, problems := config.complete("", nil)
	if client == nil {
		problems = append(problems, ConfigurationProblem{Text: "the mongo.Client is nil"})
	}
	if err := configurationError(problems); err != nil {
		return nil, err
	}
	c := newClient(client, false, config)
	if config.ManualStart {
		return c, nil
	}
	if err := c.Start(ctx); err != nil {
		return nil, err
	}
	return c, nil
}

func newClient(mc *mongo.Client, owned bool, config Config) *Client {
	closing, beginClose := context.WithCancel(context.Background())
	c := &Client{
		config: config, mongo: mc, owned: owned,
		store: store.New(mc.Database(config.Database), config.CollectionPrefix),
		turn:  make(chan struct{}, 1), closing: closing, beginClose: beginClose, ended: make(chan struct{}),
		subscriptions: map[string]*Subscription{},
	}
	c.config.Observer = observe.Guard(config.Observer, c.report)
	return c
}

// exclusive waits for the caller's turn among Start, Subscribe and Unsubscribe. The context that it returns
// ends with Close as well, so that Close does not wait for an answer of MongoDB. Call done at the end.
func (c *Client) exclusive(ctx context.Context) (_ context.Context, done func(), err error) {
	select {
	case c.turn <- struct{}{}: // at once, whatever the context: Unsubscribe works with one that has ended
	default:
		select {
		case c.turn <- struct{}{}:
		case <-c.closing.Done():
			return nil, nil, ErrClosed
		case <-ctx.Done():
			return nil, nil, context.Cause(ctx)
		}
	}
	if c.closed() {
		<-c.turn
		return nil, nil, ErrClosed
	}
	ctx, cancel := context.WithCancelCause(ctx)
	unlink := context.AfterFunc(c.closing, func() { cancel(ErrClosed) })
	return ctx, func() {
		unlink()
		cancel(nil)
		<-c.turn
	}, nil
}

// Start contacts MongoDB, creates missing indexes, stores or checks all registered subscriptions, and
// begins to serve them; all problems of all subscriptions are one *ConfigurationError, and then no handler
// has run. A failed Start can be repeated. It is only to be called with Config.ManualStart; a second
// successful call is an error, one after Close is ErrClosed.
func (c *Client) Start(ctx context.Context) error {
	ctx, done, err := c.exclusive(ctx)
	if err != nil {
		return err
	}
	defer done()
	if c.running() != nil {
		return errors.New("pulse: the client has started already: Start is for clients with Config.ManualStart, once")
	}
	if err := c.start(ctx); err != nil {
		return c.orClosed(withAdvice(err))
	}
	return nil
}

// orClosed is the error of a call that Close may have interrupted.
func (c *Client) orClosed(err error) error {
	if err != nil && c.closed() {
		return ErrClosed
	}
	return err
}

func (c *Client) start(ctx context.Context) error {
	if err := c.store.Detect(ctx); err != nil {
		return err
	}
	warnings, err := c.store.EnsureIndexes(ctx)
	if err != nil {
		return err
	}
	for _, warning := range warnings {
		c.config.Logger.Warn("pulse: index", "group", c.config.ConsumerGroup, "warning", warning)
	}
	subs := c.registered()
	stored, err := c.ensureAll(ctx, subs)
	if err != nil {
		return err
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	owner, err := c.store.Owner(host, os.Getpid())
	if err != nil {
		return err
	}
	e := engine.New(engine.Config{
		Store: c.store, Group: c.config.ConsumerGroup, Owner: owner,
		Workers: c.config.WorkerCount, Poll: c.config.PollInterval,
		Lease: c.config.LockTimeout, DiscoveryLease: c.config.DiscoveryLockTimeout,
		HistoryRetention: c.config.HistoryRetention, LookBack: c.config.LookBack,
		Streams: c.store.Transactions() && !c.config.DisableChangeStreams,
		Report:  c.report, Answered: c.answered, Logger: c.config.Logger, Observer: c.config.Observer,
	})
	for i, sub := range subs {
		e.Add(sub.receiver, stored[i])
	}
	if err := e.Start(); err != nil {
		return fmt.Errorf("pulse: start: %w", err)
	}
	c.mu.Lock()
	c.engine = e
	c.mu.Unlock()
	return nil
}

// ensureAll stores all subscriptions, or none when one of them cannot work as things are.
func (c *Client) ensureAll(ctx context.Context, subs []*Subscription) ([]store.Subscription, error) {
	if len(subs) == 0 {
		return nil, nil
	}
	topics := make([]string, len(subs))
	for i, sub := range subs {
		topics[i] = sub.Topic()
	}
	found, err := c.store.Subscriptions(ctx, c.config.ConsumerGroup, topics)
	if err != nil {
		return nil, err
	}
	byTopic := make(map[string]*store.Subscription, len(found))
	for i := range found {
		byTopic[found[i].Topic] = &found[i]
	}
	var problems []ConfigurationProblem
	for _, sub := range subs {
		problems = append(problems, sub.problems(byTopic[sub.Topic()])...)
	}
	if err := configurationError(problems); err != nil {
		return nil, err
	}
	stored := make([]store.Subscription, len(subs))
	for i, sub := range subs {
		if stored[i], err = sub.ensure(ctx); err != nil {
			return nil, err
		}
	}
	return stored, nil
}

// Close ends the client: nothing is claimed any more; running handlers finish, until ctx ends, then their
// contexts end and their deliveries are handed back with the attempt not consumed (at-most-once: end as
// cancelled). Outcomes of finished handlers are stored, leases released, change streams and loops ended,
// and connections closed if Connect opened them. Errors say what could not be finished; it is made good
// by another client, after the leases. Close may take some seconds longer than ctx: cancelled handlers get
// 5 s to return, and are left behind if they do not; what is to be stored gets 5 s after that.
//
// A call beside another waits for its end, within its own ctx, and one after it returns nil. Called from
// inside a handler, Close only begins: the client is closed after the handler has returned.
func (c *Client) Close(ctx context.Context) error {
	c.mu.Lock()
	first := !c.isClosed
	c.isClosed = true
	c.mu.Unlock()
	c.beginClose()
	inHandler := worker.InHandler(ctx)
	switch {
	case first && inHandler:
		background, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeInHandler)
		go func() {
			defer cancel()
			if err := c.close(background); err != nil {
				c.report(err)
			}
		}()
		return nil
	case first:
		return c.close(ctx)
	case inHandler:
		return nil
	}
	select {
	case <-c.ended:
		return nil
	default:
	}
	select {
	case <-c.ended:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("pulse: close: an earlier Close is still at work: %w", context.Cause(ctx))
	}
}

func (c *Client) close(ctx context.Context) error {
	defer close(c.ended)
	c.turn <- struct{}{} // soon: the context of a call under way has ended
	defer func() { <-c.turn }()
	var problem error
	if e := c.running(); e != nil {
		problem = e.Stop(ctx)
	}
	disconnect, cancel := context.WithTimeout(context.WithoutCancel(ctx), store.DefaultTimeout)
	defer cancel()
	c.store.Close(disconnect)
	if c.owned {
		problem = errors.Join(problem, c.mongo.Disconnect(disconnect))
	}
	return problem
}

func (c *Client) closed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.isClosed
}

func (c *Client) running() *engine.Engine {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.engine
}
