// Package load is the work that stress and bench give to Pulse: numbered events, and receivers of them.
package load

import (
	"context"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/orionjs/orion-go/pulse"
)

// Prefix begins the names of the collections.
const Prefix = "orionjs.pulse"

// Item is the data of an event.
type Item struct {
	// N numbers the events of a topic, from 0.
	N int `bson:"n"`
	// At is when it was published, in microseconds of Unix time.
	At int64 `bson:"at"`
	// Pad makes it as large as is wished.
	Pad []byte `bson:"pad,omitempty"`
}

// NewItem is an item with so many bytes more than its own.
func NewItem(n, pad int) Item {
	item := Item{N: n, At: time.Now().UnixMicro()}
	if pad > 0 {
		item.Pad = make([]byte, pad)
		for i := range item.Pad {
			item.Pad[i] = byte(n + i)
		}
	}
	return item
}

// Chunk is how many events PublishMany gets at a time.
const Chunk = 1000

// Publish stores the events with the numbers from first to below end, many at once.
func Publish(ctx context.Context, client *pulse.Client, topic string, first, end, pad int) error {
	for first < end {
		messages := make([]pulse.Message[Item], 0, Chunk)
		for ; first < end && len(messages) < Chunk; first++ {
			messages = append(messages, pulse.Message[Item]{Data: NewItem(first, pad)})
		}
		if _, err := pulse.NewTopic[Item](topic).PublishMany(ctx, client, messages); err != nil {
			return err
		}
	}
	return nil
}

// Client is how a process works: the settings of its pulse.Client, as an order carries them.
type Client struct {
	URI, Database, Group        string
	Workers                     int
	Poll, Lease, DiscoveryLease time.Duration
	NoStreams                   bool
}

// Config is the client's configuration; zero fields are Pulse's defaults.
func (c Client) Config() pulse.Config {
	return pulse.Config{
		ConsumerGroup: c.Group, Database: c.Database, CollectionPrefix: Prefix, WorkerCount: c.Workers, PollInterval: c.Poll,
		LockTimeout: c.Lease, DiscoveryLockTimeout: c.DiscoveryLease, DisableChangeStreams: c.NoStreams, ManualStart: true,
	}
}

// New is a client over connections that somebody else opens. It is not started.
func (c Client) New(ctx context.Context, connections *mongo.Client) (*pulse.Client, error) {
	return pulse.New(ctx, connections, c.Config())
}

// Receiver is one subscription, as an order carries it.
type Receiver struct {
	Topic string
	// Batch is the size of batches; 0 receives single events.
	Batch   int
	Ordered bool
	// Version is the execution version of a single receiver, 1 or 2.
	Version int
	// ConfigVersion is 0 unless settings change while replicas run.
	ConfigVersion int
	// Retries may follow a failed attempt, after RetryDelay each.
	Retries    int
	RetryDelay time.Duration
}

// Call is what a handler gets; a single event is a slice of one.
type Call struct {
	Topic   string
	Attempt int
	Events  []*pulse.Event[Item]
}

// Subscribe registers the receiver's handler.
func (r Receiver) Subscribe(ctx context.Context, client *pulse.Client, handle func(context.Context, Call) error) error {
	topic := pulse.NewTopic[Item](r.Topic)
	opts := []pulse.SubscribeOption{
		pulse.OffsetReset(pulse.Earliest), pulse.ConfigVersion(r.ConfigVersion),
		pulse.MaxRetries(r.Retries), pulse.RetryDelay(r.RetryDelay), pulse.RetryBackoffMultiplier(1),
	}
	if r.Batch > 0 {
		_, err := topic.SubscribeBatch(ctx, client, r.Batch, func(ctx context.Context, events []*pulse.Event[Item]) error {
			return handle(ctx, Call{Topic: r.Topic, Attempt: events[0].Attempt, Events: events})
		}, opts...)
		return err
	}
	opts = append(opts, pulse.ExecutionVersion(r.Version))
	if !r.Ordered {
		opts = append(opts, pulse.Unordered())
	}
	_, err := topic.Subscribe(ctx, client, func(ctx context.Context, event *pulse.Event[Item]) error {
		return handle(ctx, Call{Topic: r.Topic, Attempt: event.Attempt, Events: []*pulse.Event[Item]{event}})
	}, opts...)
	return err
}
