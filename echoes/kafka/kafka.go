package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/orionjs/orion-go/echoes"
	"github.com/orionjs/orion-go/internal/hostile"
	"github.com/orionjs/orion-go/pulse/observe"
)

// name is the transport's name in annotations, contexts and errors.
const name = "kafka"

// ErrPartitionLost is the cause (context.Cause) of the end of a handler's context
// when its partition went to another member of the group before the handler had
// returned. Nothing of the attempt is stored, and the event is delivered again.
// Wrapped, it reaches echoes.Config.OnError when such a handler returns in the
// end.
var ErrPartitionLost = errors.New("kafka: the partition went to another member of the group, which handles the event again")

// New makes the transport for echoes.Config.Kafka. It connects with App.Start; a
// configuration that cannot work is reported there, or by App.Check.
func New(cfg Config) echoes.Carrier { return &carrier{cfg: cfg} }

type carrier struct {
	cfg Config

	mu   sync.Mutex
	conn *connection // nil before Connect
}

var _ echoes.Carrier = (*carrier)(nil)

// Name is Carrier.Name.
func (*carrier) Name() string { return name }

func (c *carrier) current() *connection {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.conn
}

// Connect is Carrier.Connect. It returns once a broker has answered, and has
// allowed the group and its topics.
func (c *carrier) Connect(ctx context.Context, link echoes.Link) error {
	conn, err := connect(c.cfg, link)
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.conn = conn // from here on Close ends what follows
	c.mu.Unlock()
	if err := c.greet(ctx, conn); err != nil {
		conn.once.Do(func() {
			conn.shut()
			close(conn.closed)
		})
		return err
	}
	return nil
}

// greet finds out what can be found out before the first event.
func (c *carrier) greet(ctx context.Context, conn *connection) error {
	bounded := func(f func(context.Context) error) error {
		ctx, cancel := context.WithTimeout(ctx, connectTimeout)
		defer cancel()
		return f(ctx)
	}
	if err := bounded(conn.client.Ping); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return fmt.Errorf("no broker answers at %s within %v: %w: is Config.Kafka's Brokers right, and do the brokers want TLS or SASL (kgo.DialTLSConfig and kgo.SASL in its Options)?",
			strings.Join(c.cfg.Brokers, ", "), connectTimeout, err)
	}
	if conn.consumer == nil {
		return nil
	}
	if err := bounded(conn.checkTopics); err != nil {
		return err
	}
	return bounded(conn.checkGroup)
}

// checkTopics asks whether the group may read its topics. One that does not exist
// yet is no problem: it is consumed from its beginning when it appears.
func (conn *connection) checkTopics(ctx context.Context) error {
	req := kmsg.NewPtrMetadataRequest()
	for _, r := range conn.link.Receivers {
		topic := kmsg.NewMetadataRequestTopic()
		topic.Topic = kmsg.StringPtr(r.Topic())
		req.Topics = append(req.Topics, topic)
	}
	resp, err := req.RequestWith(ctx, conn.client)
	if err != nil {
		return fmt.Errorf("ask about the topics: %w", err)
	}
	var problems []echoes.Problem
	for _, topic := range resp.Topics {
		err := kerr.ErrorForCode(topic.ErrorCode)
		if topic.Topic == nil || !errors.Is(err, kerr.TopicAuthorizationFailed) && !errors.Is(err, kerr.InvalidTopicException) {
			continue
		}
		for _, r := range conn.link.Receivers {
			if r.Topic() == *topic.Topic {
				problems = append(problems, about(r, fmt.Errorf("the brokers refuse the topic: %w", err)))
			}
		}
	}
	if len(problems) > 0 {
		return &echoes.StartupError{Problems: problems}
	}
	return nil
}

// checkGroup asks the group's coordinator whether the group may be used. A new
// cluster has no coordinator for its first second.
func (conn *connection) checkGroup(ctx context.Context) error {
	group := conn.consumer.group
	for {
		req := kmsg.NewPtrDescribeGroupsRequest()
		req.Groups = []string{group}
		resp, err := req.RequestWith(ctx, conn.client)
		if err == nil && len(resp.Groups) > 0 {
			err = kerr.ErrorForCode(resp.Groups[0].ErrorCode)
		}
		if err == nil || errors.Is(err, kerr.GroupIDNotFound) {
			return nil
		}
		if !kerr.IsRetriable(err) || !wait(ctx, firstPause) {
			return fmt.Errorf("ask about the group %s: %w", group, err)
		}
	}
}

// Start is Carrier.Start: it joins the group.
func (c *carrier) Start(context.Context) error {
	conn := c.current()
	if conn == nil {
		return echoes.ErrClosed
	}
	if conn.consumer != nil {
		conn.consumer.start()
	}
	return nil
}

// Close is Carrier.Close.
func (c *carrier) Close(ctx context.Context) error {
	conn := c.current()
	if conn == nil {
		return nil
	}
	return conn.close(ctx)
}

// connection is what one Connect made.
type connection struct {
	client     *kgo.Client
	cancel     context.CancelFunc // ends the client without ceremony
	link       echoes.Link
	consumer   *consumer // nil without receivers
	maxPublish int
	onError    hostile.Callback

	once   sync.Once
	hurry  chan struct{} // closed when the least patient Close gives up waiting
	urge   sync.Once
	closed chan struct{}
	err    error // of close; set before closed is closed
}

// connect makes a client, which does not talk to a broker yet.
func connect(cfg Config, link echoes.Link) (*connection, error) {
	wrong := func(err error, problems ...echoes.Problem) error {
		return &echoes.StartupError{Problems: problems, Err: err}
	}
	text := func(err error) echoes.Problem { return echoes.Problem{Text: "Config.Kafka: Options: " + err.Error()} }

	// A first client tells what the options lead to; it never connects.
	first, err := kgo.NewClient(cfg.options(link.Logger)...)
	if err != nil {
		return nil, wrong(err, text(err))
	}
	problems, own := forbidden(first), dialOptions(first)
	first.CloseAllowingRebalance()
	if len(problems) > 0 {
		return nil, wrong(nil, problems...)
	}
	ctx, cancel := context.WithCancel(context.Background())
	conn := &connection{cancel: cancel, link: link, hurry: make(chan struct{}), closed: make(chan struct{})}
	conn.link.Observer = observe.Guard(link.Observer, conn.report)
	own = append(own, kgo.WithContext(ctx))
	if len(link.Receivers) > 0 {
		conn.consumer = newConsumer(cfg, conn)
		own = append(own, append(cfg.groupOptions(),
			kgo.OnPartitionsAssigned(conn.consumer.assigned),
			kgo.OnPartitionsRevoked(conn.consumer.revoked),
			kgo.OnPartitionsLost(conn.consumer.lost),
			kgo.AutoCommitCallback(conn.consumer.committed),
		)...)
	}
	client, err := kgo.NewClient(cfg.options(link.Logger, own...)...)
	if err != nil {
		cancel()
		return nil, wrong(err, text(err))
	}
	conn.client = client
	conn.maxPublish = maxBatch
	if fn, ok := client.OptValue(kgo.ProducerBatchMaxBytesFn).(func(string) int32); ok {
		conn.maxPublish = int(fn(""))
	}
	// A failed event is published again, and has to fit with what it grows by.
	conn.maxPublish -= retryRoom
	if conn.consumer != nil {
		conn.consumer.attach(client)
	}
	return conn, nil
}

// report logs an error of background work and hands it to the application.
func (conn *connection) report(err error) {
	conn.link.Logger.Error("kafka: background error", "group", conn.group(), "error", err)
	if conn.link.OnError == nil {
		return
	}
	if problem := conn.onError.Call(func() { conn.link.OnError(err) }); problem != nil {
		conn.link.Logger.Error("kafka: Config.OnError failed", "group", conn.group(), "error", problem)
	}
}

// group is the consumer group, empty for a client that only publishes.
func (conn *connection) group() string {
	if conn.consumer == nil {
		return ""
	}
	return conn.consumer.group
}

// topics of the receivers.
func topicsOf(receivers []echoes.Receiver) []string {
	topics := make([]string, len(receivers))
	for i, r := range receivers {
		topics[i] = r.Topic()
	}
	slices.Sort(topics)
	return topics
}
