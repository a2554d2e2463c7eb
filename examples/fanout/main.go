// Command fanout delivers one topic to several consumer groups. Each gets every event, keeps its own place in the
// topic and its own retries, and knows nothing of the others: one that is slow, closed or not yet written holds up nobody.
//
// The groups are one process here, so that the demo is one command. In life each is a service of its own.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/orionjs/orion-go/echoes"
	"github.com/orionjs/orion-go/pulse"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Getenv("MONGODB_URI"), "fanout_"+bson.NewObjectID().Hex(), os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "fanout:", err)
		os.Exit(1)
	}
}

// run does everything in a database of its own, which it drops at the end.
func run(ctx context.Context, uri, database string, out io.Writer) (err error) {
	if uri == "" {
		return errors.New("the environment variable MONGODB_URI is not set: start this with `go run ./cmd/pulse dev -- go run ./examples/fanout`, or set it to the connection string of a replica set")
	}
	client, err := mongo.Connect(options.Client().ApplyURI(uri).SetServerSelectionTimeout(10 * time.Second))
	if err != nil {
		return err
	}
	end := context.WithoutCancel(ctx)
	defer func() { err = errors.Join(err, client.Disconnect(end)) }()
	db := client.Database(database)
	defer func() { err = errors.Join(err, db.Drop(end)) }()

	billing, shipping, statistics := &Billing{}, &Shipping{closed: true}, &Statistics{}
	for group, service := range map[string]echoes.Service{"billing": billing, "shipping": shipping} {
		app, err := start(ctx, db, group, service)
		if err != nil {
			return err
		}
		defer stop(app)
	}
	shop, err := start(ctx, db, "shop") // without a service it only publishes
	if err != nil {
		return err
	}
	defer stop(shop)

	const orders = 120
	for i := range orders {
		if _, err := PublishOrder(ctx, shop, Order{Number: fmt.Sprintf("A-%03d", i), Cents: 1000}); err != nil {
			return err
		}
	}
	if err := until(ctx, &billing.book, orders); err != nil {
		return err
	}
	report(out, "Shipping is closed.", "billing", &billing.book, "shipping", &shipping.book)

	shipping.setClosed(false)
	if err := until(ctx, &shipping.book, orders); err != nil {
		return err
	}
	report(out, "Shipping has opened.", "billing", &billing.book, "shipping", &shipping.book)

	app, err := start(ctx, db, "statistics", statistics)
	if err != nil {
		return err
	}
	defer stop(app)
	if err := until(ctx, &statistics.book, orders); err != nil {
		return err
	}
	report(out, "Statistics are new, and begin with the oldest order.", "statistics", &statistics.book)
	return nil
}

// start starts the service of a consumer group.
func start(ctx context.Context, db *mongo.Database, group string, services ...echoes.Service) (*echoes.App, error) {
	app, err := echoes.New(echoes.Config{
		Pulse:  &echoes.Pulse{Client: db.Client(), Config: pulse.Config{ConsumerGroup: group, Database: db.Name()}},
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)), // the failures of the closed group are meant
	}, services...)
	if err != nil {
		return nil, err
	}
	return app, app.Start(ctx)
}

func stop(app *echoes.App) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := app.Close(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "fanout: stop:", err)
	}
}

// until waits until the book has so many orders.
func until(ctx context.Context, b *book, orders int) error {
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for {
		if n, _ := b.sum(); n == orders {
			return nil
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// report prints the books, which are given with their names.
func report(out io.Writer, what string, books ...any) {
	fmt.Fprintln(out, what)
	for i := 0; i < len(books); i += 2 {
		n, cents := books[i+1].(*book).sum()
		fmt.Fprintf(out, "  %-10s %3d orders, %d EUR\n", books[i], n, cents/100)
	}
}
