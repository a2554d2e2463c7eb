package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/orionjs/orion-go/echoes"
	"github.com/orionjs/orion-go/examples/migration/orders"
)

const (
	replicas   = 3
	publishers = 2
	partitions = 4
	// ordersPerStep are published at least while the system is at a step.
	ordersPerStep = 400
	// patience bounds how long the book may lag behind.
	patience  = 2 * time.Minute
	lookPause = 100 * time.Millisecond
)

// demo takes a running system through the steps, and checks its book.
func demo(ctx context.Context, s servers, out io.Writer) (err error) {
	// A group, a database and orders of its own, so that the demo can be run anywhere, and again with a broker
	// that still has the events of earlier ones.
	run := bson.NewObjectID().Hex()
	s.group = "migration_demo_" + run
	interrupted := ctx
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	kafka, err := kgo.NewClient(kgo.SeedBrokers(s.brokers...))
	if err != nil {
		return fmt.Errorf("the addresses in KAFKA_BROKERS cannot be used: %w", err)
	}
	defer kafka.Close()
	d := &mover{servers: s, run: run, kafka: kadm.NewClient(kafka), out: out, began: time.Now()}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), shutdownTimeout)
		defer cancel()
		err = errors.Join(err, d.end(ctx))
	}()
	if err := d.prepare(ctx); err != nil {
		return err
	}
	for _, at := range steps {
		if err := d.take(ctx, at, fail); err != nil {
			if interrupted.Err() != nil {
				return fmt.Errorf("interrupted at step %s", at.name)
			}
			return err
		}
	}
	for _, p := range d.publishers {
		if err := p.stop(); err != nil {
			return err
		}
	}
	if err := d.caughtUp(ctx); err != nil {
		return err
	}
	return check(ctx, d.book, d.published(), out)
}

// mover is the system on its move.
type mover struct {
	servers
	run        string // begins the orders' numbers
	kafka      *kadm.Client
	out        io.Writer
	began      time.Time
	book       *orders.Book
	replicas   [replicas]*replica
	publishers [publishers]*publisher
}

// prepare makes the topic and the book.
func (d *mover) prepare(ctx context.Context) error {
	_, err := d.kafka.CreateTopic(ctx, partitions, -1, nil, orders.TopicPlaced)
	if err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
		return fmt.Errorf("create the topic on Kafka: %w", err)
	}
	d.book, err = orders.OpenBook(ctx, d.database())
	return err
}

// take takes the system to a step: replica by replica, publisher by publisher, while all others go on. It
// returns when what was published until then is booked.
func (d *mover) take(ctx context.Context, at step, failed func(error)) error {
	d.printf("Step %s: %s.", at.name, at.about)
	for i, p := range d.publishers {
		var err error
		switch {
		case p == nil:
			d.publishers[i], err = newPublisher(ctx, d.servers, at, fmt.Sprintf("%s-%c", d.run, 'a'+i), failed)
		case at.name == "switch":
			err = p.restart(ctx, d.servers, at)
		}
		if err != nil {
			return fmt.Errorf("publisher %d at step %s: %w", i+1, at.name, err)
		}
	}
	before := len(d.published())
	for i, r := range d.replicas {
		var err error
		d.replicas[i] = nil
		switch {
		case r == nil:
		case i == 0 && at.name == "switch":
			err = r.kill() // a crash; its orders are handled by another one, some of them again
		default:
			err = r.terminate()
		}
		if err != nil {
			return fmt.Errorf("end replica %d at step %s: %w", i+1, at.name, err)
		}
		if d.replicas[i], err = launch(ctx, d.servers, at, fmt.Sprintf("%d-%s", i+1, at.name)); err != nil {
			return err
		}
	}
	err := await(ctx, func(context.Context) (bool, error) { return len(d.published()) >= before+ordersPerStep, nil })
	if err != nil {
		return fmt.Errorf("publish at step %s: %w", at.name, err)
	}
	if err := d.caughtUp(ctx); err != nil {
		return err
	}
	if at.from == echoes.FromBoth && at.to == echoes.ToPulse {
		return d.drained(ctx)
	}
	return nil
}

// published returns the amounts of the orders published so far, by event ID.
func (d *mover) published() map[string]int64 {
	all := map[string]int64{}
	for _, p := range d.publishers {
		p.published(all)
	}
	return all
}

// caughtUp returns when every order that has been published is booked.
func (d *mover) caughtUp(ctx context.Context) error {
	published := d.published()
	missing := slices.Collect(maps.Keys(published))
	err := await(ctx, func(ctx context.Context) (ok bool, err error) {
		missing, err = d.book.Missing(ctx, missing)
		return err == nil && len(missing) == 0, err
	})
	if err != nil {
		return fmt.Errorf("%d of %d orders are not booked, %s for example: %w", len(missing), len(published), first(missing), err)
	}
	d.printf("  %d orders have been published, and these are booked.", len(published))
	return nil
}

func first(ids []string) string {
	if len(ids) == 0 {
		return "none"
	}
	return ids[0]
}

// drained returns when the group has nothing left to read on Kafka.
func (d *mover) drained(ctx context.Context) error {
	var lag int64
	err := await(ctx, func(ctx context.Context) (bool, error) {
		lags, err := d.kafka.Lag(ctx, d.group)
		if err == nil {
			err = lags.Error()
		}
		if err != nil {
			return false, err
		}
		lag = lags[d.group].Lag.Total()
		return lag == 0, nil
	})
	if err != nil {
		return fmt.Errorf("the group has %d records left on Kafka: %w", lag, err)
	}
	d.printf("  The group's lag on Kafka is 0: it can be left.")
	return nil
}

// end ends what still runs and removes the database.
func (d *mover) end(ctx context.Context) error {
	var errs []error
	for _, p := range d.publishers {
		if p != nil {
			errs = append(errs, p.stop())
		}
	}
	for _, r := range d.replicas {
		if r != nil {
			errs = append(errs, r.terminate())
		}
	}
	return errors.Join(append(errs, d.database().Drop(ctx))...)
}

func (d *mover) printf(format string, args ...any) {
	fmt.Fprintf(d.out, "%5.1fs  %s\n", time.Since(d.began).Seconds(), fmt.Sprintf(format, args...))
}

// await looks until the look says that it is enough. A look that fails is repeated.
func await(ctx context.Context, look func(context.Context) (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	tick := time.NewTicker(lookPause)
	defer tick.Stop()
	for {
		ok, err := look(ctx)
		if ok {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), err)
		}
	}
}
