// Command outbox shows the two ends of a reliable flow over several documents: an order is stored and its
// event published in one transaction (the outbox), and the event is handled and remembered in one transaction
// (the inbox). Orders that are refused, and transactions that the server makes the driver repeat, leave no
// event; an event that is handled again changes nothing.
//
// It publishes orders from several goroutines at once, ships them, and checks the books.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/orionjs/orion-go/pulse"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Getenv("MONGODB_URI"), "outbox_"+bson.NewObjectID().Hex(), os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "outbox:", err)
		os.Exit(1)
	}
}

// run does everything in a database of its own, which it drops at the end.
func run(ctx context.Context, uri, database string, out io.Writer) (err error) {
	if uri == "" {
		return errors.New("the environment variable MONGODB_URI is not set: start this with `go run ./cmd/pulse dev -- go run ./examples/outbox`, or set it to the connection string of a replica set")
	}
	// Pulse joins transactions of the mongo.Client that it is given.
	client, err := mongo.Connect(options.Client().ApplyURI(uri).SetServerSelectionTimeout(10 * time.Second))
	if err != nil {
		return err
	}
	end := context.WithoutCancel(ctx)
	defer func() { err = errors.Join(err, client.Disconnect(end)) }()
	db := client.Database(database)
	defer func() { err = errors.Join(err, db.Drop(end)) }()

	events, err := pulse.New(ctx, client, pulse.Config{ConsumerGroup: "shipping", Database: database})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeWithin(events, 20*time.Second)) }()

	const articles, stock, customers, tries = 3, 20, 8, 12
	shop, err := openShop(ctx, db, events, articles, stock)
	if err != nil {
		return err
	}
	shipping := &shipping{db: db, shipped: make(chan struct{}, customers*tries)}
	if _, err := orderPlaced.Subscribe(ctx, events, shipping.ship, pulse.Unordered(), pulse.ExecutionVersion(2), pulse.MaxRetries(10)); err != nil {
		return err
	}

	var placed, refused atomic.Int64
	var wait sync.WaitGroup
	failed := make(chan error, customers)
	for customer := range customers {
		wait.Go(func() {
			for i := range tries {
				err := shop.place(ctx, fmt.Sprintf("order-%d-%d", customer, i), fmt.Sprint("article-", (customer+i)%articles))
				switch {
				case err == nil:
					placed.Add(1)
				case errors.Is(err, errSoldOut):
					refused.Add(1)
				default:
					failed <- err
					return
				}
			}
		})
	}
	wait.Wait()
	close(failed)
	if err := <-failed; err != nil {
		return err
	}
	for range placed.Load() {
		select {
		case <-shipping.shipped:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	fmt.Fprintf(out, "%d orders placed and shipped, %d refused: sold out\n", placed.Load(), refused.Load())
	return check(ctx, db, placed.Load(), articles*stock, out)
}

func closeWithin(client *pulse.Client, d time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	return client.Close(ctx)
}

// check compares the collections: every order has its shipment, and the stock is what the orders left.
func check(ctx context.Context, db *mongo.Database, placed int64, stock int, out io.Writer) error {
	orders, err := db.Collection("orders").CountDocuments(ctx, bson.D{})
	if err != nil {
		return err
	}
	shipments, err := db.Collection("shipments").CountDocuments(ctx, bson.D{})
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%d orders, %d shipments\n", orders, shipments)
	if orders != placed || shipments != placed || placed != int64(stock) {
		return fmt.Errorf("the books do not agree: %d placed, %d orders, %d shipments, %d articles in stock at the beginning", placed, orders, shipments, stock)
	}
	return nil
}
