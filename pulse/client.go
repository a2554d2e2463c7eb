package pulse

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/orionjs/orion-go/pulse/internal/engine"
	"github.com/orionjs/orion-go/pulse/internal/store"
	"github.com/orionjs/orion-go/pulse/internal/worker"
)

const (
	// bridgeAppName tells operators which connections come from software that serves both execution
	// versions (spec 4.13). The Node implementation of the same ability uses the same name.
	bridgeAppName = "@orion-js/pulse-bridge-v2"
	// poolIdleTime is how long our connections stay open unused.
	poolIdleTime = 30 * time.Second
	// closeInHandler bounds a Close that was called from inside a handler.
	closeInHandler = time.Minute
)

// Client publishes events, and runs the subscriptions of one consumer group. Its methods are safe for
// concurrent use. Several clients, of one group or of many, may share a process and a mongo.Client.
type Client struct {
	config Config
	mongo  *mongo.Client
	owned  bool // the mongo.Client is ours to close
	store  *store.Store

	// start serializes Start, Subscribe, Unsubscribe and Close; mu guards the fields below for readers.
	start sync.Mutex

	mu            sync.Mutex
	engine        *engine.Engine // nil until started
	subscriptions map[string]*Subscription
	isClosed      bool
}

// Connect opens connections to MongoDB and returns a started client, which Close disconnects. With
// Config.ManualStart it contacts nothing until Start.
//
// It returns a *ConfigurationError for settings that cannot work, an *IndexError, or MongoDB's error.
func Connect(ctx context.Context, uri string, config Config) (*Client, error) {
	opts := options.Client().ApplyURI(uri)
	if err := opts.Validate(); err != nil {
		return nil, &ConfigurationError{Problems: []string{fmt.Sprintf("the MongoDB URI is not usable: %v", err)}}
	}
	name := bridgeAppName
	if opts.AppName != nil && *opts.AppName != "" && !strings.Contains(*opts.AppName, name) {
		name = *opts.AppName + " " + name
	}
	opts.SetAppName(name)
	if opts.MaxConnIdleTime == nil {
		opts.SetMaxConnIdleTime(poolIdleTime)
	}
	if config.Database == "" {
		config.Database = databaseOf(uri)
	}
	mc, err := mongo.Connect(opts)
	if err != nil {
		return nil, fmt.Errorf("pulse: connect to MongoDB: %w", err)
	}
	c, err := newClient(ctx, mc, true, config)
	if err != nil {
		_ = mc.Disconnect(context.WithoutCancel(ctx))
		return nil, err
	}
	return c, nil
}

// New is Connect over the caller's connections, which stay open after Close.
func New(ctx context.Context, client *mongo.Client, config Config) (*Client, error) {
	return newClient(ctx, client, false, config)
}

func newClient(ctx context.Context, mc *mongo.Client, owned bool, config Config) (*Client, error) {
	config, problems := config.withDefaults()
	if mc == nil {
		problems = append(problems, "the mongo.Client is nil")
	}
	if problem := nameProblem("Database", config.Database); problem != "" {
		problems = append(problems, problem+": set it, or name it in the URI (mongodb://host/database)")
	} else if strings.ContainsAny(config.Database, "/\\. \"$*<>:|?\x00") {
		problems = append(problems, fmt.Sprintf("Database %q: MongoDB does not allow / \\ . space \" $ * < > : | ? in a database's name", config.Database))
	}
	if err := configurationError(problems); err != nil {
		return nil, err
	}
	c := &Client{
		config: config, mongo: mc, owned: owned,
		store:         store.New(mc.Database(config.Database), config.CollectionPrefix),
		subscriptions: map[string]*Subscription{},
	}
	if config.ManualStart {
		return c, nil
	}
	return c, c.Start(ctx)
}

// databaseOf returns the database that a MongoDB URI names, if any.
func databaseOf(uri string) string {
	_, rest, _ := strings.Cut(uri, "://")
	rest, _, _ = strings.Cut(rest, "?")
	if at := strings.LastIndex(rest, "@"); at >= 0 {
		rest = rest[at+1:]
	}
	_, database, _ := strings.Cut(rest, "/")
	return database
}

// Start contacts MongoDB, creates missing indexes, stores or checks all registered subscriptions, and
// begins to serve them; all problems of all subscriptions are one *ConfigurationError, and then no handler
// has run. A failed Start can be repeated. It is only to be called with Config.ManualStart; a second
// successful call is an error, one after Close is ErrClosed.
func (c *Client) Start(ctx context.Context) error {
	c.start.Lock()
	defer c.start.Unlock()
	if c.closed() {
		return ErrClosed
	}
	if c.running() != nil {
		return errors.New("pulse: the client has started already: Start is for clients with Config.ManualStart, once")
	}
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
	var problems []string
	stored := make([]store.Subscription, len(subs))
	for i, sub := range subs {
		if stored[i], err = sub.ensure(ctx); err == nil {
			continue
		}
		var wrong *ConfigurationError
		if !errors.As(err, &wrong) {
			return err
		}
		problems = append(problems, wrong.Problems...)
	}
	if err := configurationError(problems); err != nil {
		return err
	}
	e := engine.New(engine.Config{
		Store: c.store, Group: c.config.ConsumerGroup, Owner: owner(),
		Workers: c.config.WorkerCount, Poll: c.config.PollInterval,
		Lease: c.config.LockTimeout, DiscoveryLease: c.config.DiscoveryLockTimeout,
		HistoryRetention: c.config.HistoryRetention,
		Streams:          c.store.Transactions() && !c.config.DisableChangeStreams,
		Report:           c.report, Logger: c.config.Logger,
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

// owner names this client in leases, for people who read the database.
func owner() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("%s%s:%d:%s", store.GoOwner, host, os.Getpid(), uuid.NewString())
}

// Close ends the client: nothing is claimed any more; running handlers finish, until ctx ends, then their
// contexts end and their deliveries are handed back with the attempt not consumed (at-most-once: end as
// cancelled). Outcomes of finished handlers are stored, leases released, change streams and loops ended,
// and connections closed if Connect opened them. Errors say what could not be finished; it is made good
// by another client, after the leases. A handler that ignores its context for 5 s is left behind.
//
// A second call returns nil at once. Called from inside a handler, Close only begins: the client is closed
// after the handler has returned.
func (c *Client) Close(ctx context.Context) error {
	if worker.InHandler(ctx) {
		background, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeInHandler)
		go func() {
			defer cancel()
			if err := c.close(background); err != nil {
				c.report(err)
			}
		}()
		return nil
	}
	return c.close(ctx)
}

func (c *Client) close(ctx context.Context) error {
	c.mu.Lock()
	first := !c.isClosed
	c.isClosed = true
	c.mu.Unlock()
	if !first {
		return nil
	}
	c.start.Lock() // a Start or Subscribe under way ends first
	defer c.start.Unlock()
	var problem error
	if e := c.running(); e != nil {
		problem = e.Stop(ctx)
	}
	if c.owned {
		disconnect, cancel := context.WithTimeout(context.WithoutCancel(ctx), store.DefaultTimeout)
		defer cancel()
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

// report logs an error of the background work and hands it to the user, whose code must not stop ours.
func (c *Client) report(err error) {
	c.config.Logger.Error("pulse: background error", "group", c.config.ConsumerGroup, "error", err)
	if c.config.OnError == nil {
		return
	}
	defer func() {
		if r := recover(); r != nil {
			c.config.Logger.Error("pulse: Config.OnError panicked", "group", c.config.ConsumerGroup, "panic", r)
		}
	}()
	c.config.OnError(err)
}
