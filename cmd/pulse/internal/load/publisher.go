package load

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/orionjs/orion-go/cmd/pulse/internal/fleet"
	"github.com/orionjs/orion-go/pulse"
)

// PublisherRole is the role of a process that publishes at a rate until it is stopped.
const PublisherRole = "publisher"

// Publisher is the order of such a process.
type Publisher struct {
	Client
	Feeds []Feed
	// Rate is the events a second of each feed.
	Rate float64
	// Seed decides how many events go together.
	Seed uint64
}

// Feed is one topic's events. They are published one after the other, each under an ID that follows from its
// number, until it is known that it is stored: whatever fails, and however often the process is started again
// from the first event that is not known to be stored, every event is stored once, in the order of the numbers.
type Feed struct {
	Topic string
	// Many publishes several at a time, Within in transactions with a write of the publisher's own; some of
	// them are aborted. With both unset each event is published alone.
	Many, Within bool
	// First is the number of the first event.
	First int
}

// The most events that go together.
const (
	mostMany   = 20
	mostWithin = 3
	abortEvery = 7
)

// ServePublisher is the role. It tells how many events of each topic are stored.
func ServePublisher(ctx context.Context, raw json.RawMessage, m *fleet.Member) (any, error) {
	var order Publisher
	if err := json.Unmarshal(raw, &order); err != nil {
		return nil, err
	}
	connections, err := mongo.Connect(options.Client().ApplyURI(order.URI))
	if err != nil {
		return nil, err
	}
	defer func() { _ = connections.Disconnect(context.Background()) }()
	client, err := order.New(ctx, connections)
	if err != nil {
		return nil, err
	}
	defer func() { _ = client.Close(context.Background()) }()
	if err := m.Begin(ctx); err != nil {
		return nil, err
	}
	if err := startPatiently(ctx, client); err != nil {
		return nil, err
	}
	errs := make([]error, len(order.Feeds))
	var feeds sync.WaitGroup
	for i, feed := range order.Feeds {
		p := &publisher{
			feed: feed, client: client, connections: connections, rate: order.Rate,
			dice: rand.New(rand.NewPCG(order.Seed, uint64(i))), orders: connections.Database(order.Database).Collection("orders"),
		}
		feeds.Go(func() {
			errs[i] = p.run(ctx, func(n int) { m.Tell(fleet.Message{Published: map[string]int{feed.Topic: n}}) })
		})
	}
	feeds.Wait()
	return nil, errors.Join(errs...)
}

type publisher struct {
	feed        Feed
	client      *pulse.Client
	connections *mongo.Client
	orders      *mongo.Collection
	rate        float64
	dice        *rand.Rand
}

// run publishes until ctx ends; what was begun is finished then.
func (p *publisher) run(ctx context.Context, stored func(events int)) error {
	for next := p.feed.First; ctx.Err() == nil; {
		size := 1
		switch {
		case p.feed.Within:
			size += p.dice.IntN(mostWithin)
		case p.feed.Many:
			size += p.dice.IntN(mostMany)
		}
		for {
			err := p.publish(context.WithoutCancel(ctx), next, size)
			if err == nil {
				break
			}
			var conflict *pulse.ConflictError
			var invalid *pulse.InvalidEventError
			if errors.As(err, &conflict) || errors.As(err, &invalid) {
				return err // no fault explains that
			}
			time.Sleep(retryPause)
		}
		next += size
		stored(next)
		select {
		case <-time.After(time.Duration(float64(size) / p.rate * float64(time.Second))):
		case <-ctx.Done():
		}
	}
	return nil
}

func (p *publisher) publish(ctx context.Context, first, size int) error {
	topic := pulse.NewTopic[Item](p.feed.Topic)
	messages := make([]pulse.Message[Item], size)
	for i := range messages {
		messages[i] = pulse.Message[Item]{ID: fmt.Sprintf("%s-%d", p.feed.Topic, first+i), Data: Item{N: first + i}}
	}
	switch {
	case p.feed.Within:
		if p.dice.IntN(abortEvery) == 0 {
			if err := p.within(ctx, topic, []pulse.Message[Item]{{Data: Item{N: Aborted}}}, errAborted); !errors.Is(err, errAborted) {
				return err
			}
		}
		return p.within(ctx, topic, messages, nil)
	case p.feed.Many:
		_, err := topic.PublishMany(ctx, p.client, messages)
		return err
	default:
		_, err := topic.Publish(ctx, p.client, messages[0].Data, pulse.WithID(messages[0].ID))
		return err
	}
}

// Aborted is the number of events whose transaction was aborted. No handler may ever see it.
const Aborted = -1

var errAborted = errors.New("this transaction was to be aborted")

// within publishes in a transaction with a write of its own; end decides whether it is committed.
func (p *publisher) within(ctx context.Context, topic pulse.Topic[Item], messages []pulse.Message[Item], end error) error {
	session, err := p.connections.StartSession()
	if err != nil {
		return err
	}
	defer session.EndSession(ctx)
	ctx, cancel := context.WithTimeout(ctx, transactionTimeout)
	defer cancel()
	_, err = session.WithTransaction(ctx, func(ctx context.Context) (any, error) {
		id := fmt.Sprintf("%s-%d", p.feed.Topic, messages[0].Data.N)
		// A transaction whose commit's answer was lost is made again: it may find its own order.
		_, err := p.orders.ReplaceOne(ctx, bson.D{{Key: "_id", Value: id}}, bson.D{{Key: "events", Value: len(messages)}}, options.Replace().SetUpsert(true))
		if err == nil {
			_, err = topic.PublishMany(ctx, p.client, messages)
		}
		if err != nil {
			return nil, err
		}
		return nil, end
	})
	return err
}

const transactionTimeout = 20 * time.Second
