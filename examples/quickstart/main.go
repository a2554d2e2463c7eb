// Command quickstart is the smallest service: it publishes three orders, and handles them.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/orionjs/orion-go/echoes"
	"github.com/orionjs/orion-go/pulse"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Getenv("MONGODB_URI"), "quickstart", os.Stdout)
	stop()
	if err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, uri, database string, out io.Writer) (err error) {
	if uri == "" {
		return errors.New("MONGODB_URI is not set: go run ./cmd/pulse dev -- go run ./examples/quickstart brings up a database and sets it")
	}
	orders := &Orders{Out: out, Handled: make(chan string)}
	app, err := echoes.New(echoes.Config{Pulse: &echoes.Pulse{
		URI:    uri,
		Config: pulse.Config{ConsumerGroup: "orders", Database: database},
	}}, orders)
	if err != nil {
		return err
	}
	if err := app.Start(ctx); err != nil {
		return err
	}
	defer func() { // running handlers finish first
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		err = errors.Join(err, app.Close(ctx))
	}()

	for i := range 3 {
		order := Order{Number: fmt.Sprintf("A-%d", i+1), Cents: 1999}
		if _, err := PublishOrder(ctx, app, order); err != nil {
			return err
		}
	}
	for range 3 { // a service would wait for the end of ctx alone
		select {
		case <-orders.Handled:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}
