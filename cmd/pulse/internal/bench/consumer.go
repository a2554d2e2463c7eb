package bench

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/orionjs/orion-go/cmd/pulse/internal/fleet"
	"github.com/orionjs/orion-go/cmd/pulse/internal/load"
)

// Roles are those of the processes of a bench.
func Roles() map[string]fleet.Role {
	return map[string]fleet.Role{consumerRole: serveConsumer, publisherRole: servePublisher, floorRole: serveFloor}
}

const consumerRole = "bench-consumer"

// consumer is the order of a process that handles events and does nothing else.
type consumer struct {
	load.Client
	Receivers []load.Receiver
	// FailOnce lets every first attempt fail.
	FailOnce bool
	// Work is how long each call waits, as if for another service, before it returns.
	Work time.Duration
	// Settle is for a process that is to stay idle: it is measured after so long, and not in its end.
	Settle time.Duration
}

// measured is what a process reports. Times are Unix times in microseconds.
type measured struct {
	Traffic
	Events      int
	Start, Last int64
	CPU         time.Duration
	// Latencies are the microseconds from each event's publication to its handler.
	Latencies []int64
}

// tellEvery is the pause between two messages about progress, which must not cost what is measured.
const tellEvery = 20 * time.Millisecond

var errPlanned = errors.New("this attempt was to fail")

func serveConsumer(ctx context.Context, raw json.RawMessage, m *fleet.Member) (any, error) {
	var order consumer
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
	c := &tally{}
	for _, r := range order.Receivers {
		err := r.Subscribe(ctx, client, func(ctx context.Context, call load.Call) error {
			begun := time.Now()
			if order.Work > 0 {
				if err := pause(ctx, order.Work); err != nil {
					return err
				}
			}
			if order.FailOnce && call.Attempt == 1 {
				return errPlanned
			}
			c.count(call, begun)
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	if err := m.Begin(ctx); err != nil {
		return nil, err
	}
	used := newMeter(&watch)
	// The others may have handled everything before this one has started. It has a report all the same.
	if err := client.Start(ctx); err != nil && ctx.Err() == nil {
		return nil, err
	}
	if order.Settle > 0 {
		if err := pause(ctx, order.Settle); err != nil {
			return nil, err
		}
		used = newMeter(&watch)
		<-ctx.Done()
		used.read(&c.report)
		c.report.Last = time.Now().UnixMicro()
		return c.report, client.Close(context.WithoutCancel(ctx))
	}
	c.tell(ctx, m)
	if err := client.Close(context.WithoutCancel(ctx)); err != nil {
		return nil, err
	}
	used.read(&c.report)
	return c.report, nil
}

// tally counts what was handled.
type tally struct {
	mu     sync.Mutex
	report measured
}

func (c *tally) count(call load.Call, begun time.Time) {
	now := time.Now().UnixMicro()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.report.Events += len(call.Events)
	c.report.Last = now
	for _, e := range call.Events {
		c.report.Latencies = append(c.report.Latencies, begun.UnixMicro()-e.Data.At)
	}
}

// tell tells about progress until ctx ends.
func (c *tally) tell(ctx context.Context, m *fleet.Member) {
	tick := time.NewTicker(tellEvery)
	defer tick.Stop()
	for told := 0; ; {
		select {
		case <-tick.C:
			c.mu.Lock()
			now := c.report.Events
			c.mu.Unlock()
			if now > told {
				told = now
				m.Tell(fleet.Message{Handled: now})
			}
		case <-ctx.Done():
			return
		}
	}
}
