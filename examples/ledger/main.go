// Command ledger keeps balances from movements that must be booked in order. Two replicas of the service share the
// work, every tenth attempt fails, and each movement is booked once and in its place all the same: the balances are those
// that the movements give when they are added up one after the other.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/orionjs/orion-go/echoes"
	"github.com/orionjs/orion-go/examples/ledger/accounts"
	"github.com/orionjs/orion-go/pulse"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Getenv("MONGODB_URI"), "ledger_"+bson.NewObjectID().Hex(), os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "ledger:", err)
		os.Exit(1)
	}
}

const movements = 60

// names are the owners of the accounts.
var names = []string{"anna", "berta", "carl"}

// run does everything in a database of its own, which it drops at the end.
func run(ctx context.Context, uri, database string, out io.Writer) (err error) {
	if uri == "" {
		return errors.New("the environment variable MONGODB_URI is not set: start this with `go run ./cmd/pulse dev -- go run ./examples/ledger`, or set it to the connection string of a replica set")
	}
	client, err := mongo.Connect(options.Client().ApplyURI(uri).SetServerSelectionTimeout(10 * time.Second))
	if err != nil {
		return err
	}
	end := context.WithoutCancel(ctx)
	defer func() { err = errors.Join(err, client.Disconnect(end)) }()
	db := client.Database(database)
	defer func() { err = errors.Join(err, db.Drop(end)) }()
	ledger, err := accounts.OpenLedger(ctx, db)
	if err != nil {
		return err
	}

	booked, failures := make(chan struct{}, 2*movements), new(atomic.Int64)
	service := &accounts.Accounts{Ledger: ledger, Booked: func(accounts.Entry) { booked <- struct{}{} }}
	var publisher *echoes.App
	for range 2 {
		app, err := replica(ctx, db, service, failures)
		if err != nil {
			return err
		}
		defer stop(app)
		publisher = app
	}
	want := map[string]int64{}
	for i := range movements {
		m := movement(i)
		if want[m.Account]+m.Cents >= 0 { // what it does not cover is refused
			want[m.Account] += m.Cents
		}
		if _, err := accounts.PublishMovement(ctx, publisher, m); err != nil {
			return err
		}
	}
	for range movements {
		select {
		case <-booked:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	fmt.Fprintf(out, "%d movements were booked, one after the other.\n", movements)
	if failures.Load() == 0 {
		return errors.New("no attempt failed, which shows nothing")
	}
	return check(ctx, ledger, want, out)
}

// movement is the i-th one: two come in, then one goes out that is larger than each of them.
func movement(i int) accounts.Movement {
	cents := []int64{300, 500, -700}[i%3]
	return accounts.Movement{Account: names[i/3%len(names)], Cents: cents}
}

// replica starts a replica of the service, whose every tenth attempt fails before it does anything.
func replica(ctx context.Context, db *mongo.Database, service *accounts.Accounts, failures *atomic.Int64) (*echoes.App, error) {
	attempts := new(atomic.Int64)
	app, err := echoes.New(echoes.Config{
		Pulse: &echoes.Pulse{Client: db.Client(), Config: pulse.Config{ConsumerGroup: "ledger", Database: db.Name()}},
		// A real service waits longer for what has just failed.
		Defaults: []echoes.Option{echoes.RetryDelay(10 * time.Millisecond)},
		Middleware: []echoes.Middleware{func(ctx context.Context, _ echoes.Call, next func(context.Context) error) error {
			if attempts.Add(1)%10 == 0 {
				failures.Add(1)
				return errors.New("no connection")
			}
			return next(ctx)
		}},
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)), // the failures are meant
	}, service)
	if err != nil {
		return nil, err
	}
	return app, app.Start(ctx)
}

func stop(app *echoes.App) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := app.Close(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "ledger: stop:", err)
	}
}

// check compares the balances with what the movements give.
func check(ctx context.Context, ledger *accounts.Ledger, want map[string]int64, out io.Writer) error {
	for _, name := range names {
		got, err := ledger.Balance(ctx, name)
		if err != nil {
			return err
		}
		entries, err := ledger.Entries(ctx, name)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%-6s %d entries, %d.%02d EUR\n", name, len(entries), got/100, got%100)
		if got != want[name] {
			return fmt.Errorf("the balance of %s is %d cents, its movements give %d", name, got, want[name])
		}
	}
	return nil
}
