package bench

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/orionjs/orion-go/cmd/pulse/internal/fleet"
	"github.com/orionjs/orion-go/cmd/pulse/internal/load"
	"github.com/orionjs/orion-go/pulse"
)

const publisherRole = "bench-publisher"

// publisher is the order of a process that publishes.
type publisher struct {
	load.Client
	Topic       string
	Events, Pad int
	// Many publishes load.Chunk at a time, by one goroutine; otherwise Workers publish one each.
	Many bool
	// Rate is the events a second, 0 as many as can be.
	Rate float64
}

func servePublisher(ctx context.Context, raw json.RawMessage, m *fleet.Member) (any, error) {
	var order publisher
	if err := json.Unmarshal(raw, &order); err != nil {
		return nil, err
	}
	var watch monitor
	connections, err := watch.connect(order.URI)
	if err != nil {
		return nil, err
	}
	defer func() { _ = connections.Disconnect(context.Background()) }()
	client, err := order.New(ctx, connections)
	if err != nil {
		return nil, err
	}
	defer func() { _ = client.Close(context.Background()) }()
	// Started before: its own commands are no part of publishing.
	if err := client.Start(ctx); err != nil {
		return nil, err
	}
	if err := m.Begin(ctx); err != nil {
		return nil, err
	}
	used, report := newMeter(&watch), measured{Events: order.Events}
	if err := order.publish(ctx, client); err != nil {
		return nil, err
	}
	report.Last = time.Now().UnixMicro()
	used.read(&report)
	m.Tell(fleet.Message{Handled: order.Events})
	<-ctx.Done()
	return report, nil
}

func (p publisher) publish(ctx context.Context, client *pulse.Client) error {
	if p.Many {
		return load.Publish(ctx, client, p.Topic, 0, p.Events, p.Pad)
	}
	topic := pulse.NewTopic[load.Item](p.Topic)
	start := time.Now()
	var next atomic.Int64
	errs := make([]error, p.Workers)
	var workers sync.WaitGroup
	for w := range errs {
		workers.Go(func() {
			for {
				n := int(next.Add(1)) - 1
				if n >= p.Events {
					return
				}
				if p.Rate > 0 {
					select {
					case <-time.After(time.Until(start.Add(time.Duration(float64(n) / p.Rate * float64(time.Second))))):
					case <-ctx.Done():
						errs[w] = context.Cause(ctx)
						return
					}
				}
				if _, err := topic.Publish(ctx, client, load.NewItem(n, p.Pad)); err != nil {
					errs[w] = err
					return
				}
			}
		})
	}
	workers.Wait()
	return errors.Join(errs...)
}
