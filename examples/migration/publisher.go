package main

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/orionjs/orion-go/echoes"
	"github.com/orionjs/orion-go/examples/migration/orders"
)

const (
	// pace is the time between two orders of a publisher.
	pace = 20 * time.Millisecond
	// flakyEvery is how many orders have one that fails at its first attempt.
	flakyEvery = 50
)

// publisher publishes orders without a pause, until stop.
type publisher struct {
	name string
	apps chan *echoes.App // the next one to publish with
	quit func()           // asks for the end; may be called again
	done chan struct{}    // closed at the end; err is valid then
	err  error

	mu     sync.Mutex
	orders map[string]int64 // the amounts of the published orders, by event ID
}

// newPublisher starts one. failed is called when it ends by itself.
func newPublisher(ctx context.Context, s servers, at step, name string, failed func(error)) (*publisher, error) {
	app, err := start(ctx, s.config(at))
	if err != nil {
		return nil, err
	}
	asked, quit := context.WithCancel(context.Background())
	p := &publisher{name: name, apps: make(chan *echoes.App), quit: quit, done: make(chan struct{}), orders: map[string]int64{}}
	go func() {
		defer close(p.done)
		if p.err = p.run(app, asked.Done()); p.err != nil {
			failed(p.err)
		}
	}()
	return p, nil
}

func (p *publisher) run(app *echoes.App, quit <-chan struct{}) (err error) {
	defer func() {
		if closed := stop(app); err == nil {
			err = closed
		}
	}()
	tick := time.NewTicker(pace)
	defer tick.Stop()
	for n := 1; ; n++ {
		order := orders.Order{ID: fmt.Sprintf("%s-%05d", p.name, n), Amount: int64(n), Flaky: n%flakyEvery == 0}
		if err := p.publish(app, order); err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-quit:
			return nil
		case next := <-p.apps:
			before := app
			app = next
			if err := stop(before); err != nil {
				return err
			}
			// A publisher that was stopped may not have got the answer for its last order. It publishes that again
			// under the same ID, and now over the other transport, where nobody knows it.
			if err := p.publish(app, order); err != nil {
				return err
			}
		}
	}
}

// publish publishes one order under an ID that belongs to it: when the answer is an error, the event may be
// stored or not, and is published again. It is not interrupted, so that everything published is known.
func (p *publisher) publish(app *echoes.App, order orders.Order) error {
	id := "placed-" + order.ID
	err := await(context.Background(), func(ctx context.Context) (bool, error) {
		_, err := app.Publish(ctx, orders.TopicPlaced, order, echoes.WithID(id), echoes.WithKey(order.ID))
		return err == nil, err
	})
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.orders[id] = order.Amount
	return nil
}

// restart has the publisher go on with the configuration of a step.
func (p *publisher) restart(ctx context.Context, s servers, at step) error {
	app, err := start(ctx, s.config(at))
	if err != nil {
		return err
	}
	select {
	case p.apps <- app:
		return nil
	case <-p.done:
		_ = stop(app)
		return fmt.Errorf("publisher %s has ended: %w", p.name, p.err)
	}
}

// stop ends publishing.
func (p *publisher) stop() error {
	p.quit()
	<-p.done
	return p.err
}

// published adds the amounts of the orders published so far, by event ID.
func (p *publisher) published(to map[string]int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.Copy(to, p.orders)
}
