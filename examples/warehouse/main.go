// Command warehouse loads sales into a table of a warehouse, a hundred with one statement. It publishes two thousand
// sales before the loader starts, as after a night in which it was down, lets it work the backlog off, and sums the table up.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/orionjs/orion-go/echoes"
	"github.com/orionjs/orion-go/examples/warehouse/sales"
	"github.com/orionjs/orion-go/pulse"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Getenv("MONGODB_URI"), "warehouse_"+bson.NewObjectID().Hex(), os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "warehouse:", err)
		os.Exit(1)
	}
}

const recorded = 2000

// run does everything in a database of its own, which it drops at the end.
func run(ctx context.Context, uri, database string, out io.Writer) (err error) {
	if uri == "" {
		return errors.New("the environment variable MONGODB_URI is not set: start this with `go run ./cmd/pulse dev -- go run ./examples/warehouse`, or set it to the connection string of a replica set")
	}
	client, err := mongo.Connect(options.Client().ApplyURI(uri).SetServerSelectionTimeout(10 * time.Second))
	if err != nil {
		return err
	}
	end := context.WithoutCancel(ctx)
	defer func() { err = errors.Join(err, client.Disconnect(end)) }()
	db := client.Database(database)
	defer func() { err = errors.Join(err, db.Drop(end)) }()

	if err := record(ctx, db, recorded); err != nil {
		return err
	}
	fmt.Fprintf(out, "%d sales were recorded while the loader was down.\n", recorded)

	table := sales.Collection{C: db.Collection("sales")}
	batches := make(chan int, recorded)
	app, err := start(ctx, db, &sales.Loader{Table: table, Loaded: func(rows int) { batches <- rows }})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop(app)) }()
	calls := 0
	for loaded := 0; loaded < recorded; calls++ {
		select {
		case rows := <-batches:
			loaded += rows
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	fmt.Fprintf(out, "They were loaded with %d statements.\n", calls)

	totals, err := table.Totals(ctx)
	if err != nil {
		return err
	}
	for _, total := range totals {
		fmt.Fprintf(out, "%s  %s  %d sold, %d.%02d EUR\n", total.Day.Format(time.DateOnly), total.Store, total.Sold, total.Cents/100, total.Cents%100)
	}
	return nil
}

// start starts an app; without a service it only publishes.
func start(ctx context.Context, db *mongo.Database, services ...echoes.Service) (*echoes.App, error) {
	app, err := echoes.New(echoes.Config{Pulse: &echoes.Pulse{
		Client: db.Client(),
		Config: pulse.Config{ConsumerGroup: "warehouse", Database: db.Name()},
	}}, services...)
	if err != nil {
		return nil, err
	}
	return app, app.Start(ctx)
}

func stop(app *echoes.App) error {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	return app.Close(ctx)
}

// record publishes sales as the tills do.
func record(ctx context.Context, db *mongo.Database, n int) (err error) {
	app, err := start(ctx, db)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop(app)) }()
	opened := time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC)
	drafts := make([]echoes.Draft[sales.Sale], n)
	for i := range drafts {
		drafts[i].Params = sales.Sale{
			Store: []string{"Harbour", "Market"}[i%2], Article: fmt.Sprintf("article-%d", i%7),
			Quantity: 1 + i%3, Cents: 250, SoldAt: opened.Add(time.Duration(i) * time.Minute),
		}
		// A till that is not sure whether a sale was stored publishes it again, under the same ID.
		drafts[i].ID = fmt.Sprintf("receipt-%05d", i)
	}
	_, err = sales.PublishManySale(ctx, app, drafts)
	return err
}
