// Command invoices is a small service on Echoes: it keeps a ledger of invoices and payments from the events
// about them. The service itself is package billing; this is what starts and stops it.
//
// Without flags it is a demo that publishes events, shows what the handlers receive, and ends.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/orionjs/orion-go/echoes"
	"github.com/orionjs/orion-go/examples/invoices/billing"
	"github.com/orionjs/orion-go/pulse"
)

const (
	connectTimeout  = 10 * time.Second
	shutdownTimeout = 20 * time.Second
)

func main() {
	// SIGTERM is how an orchestrator asks a service to stop, SIGINT is Ctrl-C.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the process at once
	err := run(ctx, os.Args[1:], os.Getenv("MONGODB_URI"), os.Stdout)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "invoices:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, uri string, out io.Writer) (err error) {
	flags := flag.NewFlagSet("invoices", flag.ContinueOnError)
	onlyServe := flags.Bool("serve", false, "handle events until SIGTERM or Ctrl-C")
	onlyPublish := flags.Int("publish", 0, "publish the events of this many invoices, for a running -serve, and end")
	database := flags.String("database", "invoices", "database of -serve and -publish; the demo has one of its own")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if uri == "" {
		return errors.New("the environment variable MONGODB_URI is not set: start this with `go run ./cmd/pulse dev -- go run ./examples/invoices`, which brings up a database, or set it to the connection string of a replica set")
	}

	// One pool of connections for the service's own collections and for the events. The events are in the
	// same database.
	client, err := mongo.Connect(options.Client().SetServerSelectionTimeout(connectTimeout).ApplyURI(uri))
	if err != nil {
		return fmt.Errorf("the connection string in MONGODB_URI cannot be used: %w", err)
	}
	defer func() {
		// Not ctx: it has ended when a signal has.
		ctx, cancel := context.WithTimeout(context.Background(), shutdownTimeout)
		defer cancel()
		err = errors.Join(err, client.Disconnect(ctx))
	}()
	if err := reach(ctx, client); err != nil {
		return err
	}
	p := &printer{out: out}
	switch {
	case *onlyPublish > 0:
		return publishInvoices(ctx, client.Database(*database), p, *onlyPublish)
	case *onlyServe:
		return serve(ctx, client.Database(*database), p)
	default:
		return demo(ctx, client, p)
	}
}

// reach fails with one clear sentence when there is no database.
func reach(ctx context.Context, client *mongo.Client) error {
	if err := client.Ping(ctx, nil); err != nil {
		return fmt.Errorf("MongoDB does not answer where MONGODB_URI points: %w", err)
	}
	return nil
}

// start connects and starts an app. With no services it can only publish.
func start(ctx context.Context, db *mongo.Database, services ...echoes.Service) (*echoes.App, error) {
	app, err := echoes.New(echoes.Config{
		Pulse: &echoes.Pulse{
			Client: db.Client(),
			Config: pulse.Config{ConsumerGroup: "billing", Database: db.Name()},
		},
	}, services...)
	if err != nil {
		return nil, err
	}
	return app, app.Start(ctx)
}

// stop lets running handlers finish and hands back what has not been started: another replica, or the next
// start, goes on with it.
func stop(app *echoes.App) error {
	ctx, cancel := context.WithTimeout(context.Background(), shutdownTimeout)
	defer cancel()
	return app.Close(ctx)
}

// serve handles events until ctx ends.
func serve(ctx context.Context, db *mongo.Database, p *printer) (err error) {
	ledger, err := billing.OpenLedger(ctx, db)
	if err != nil {
		return err
	}
	app, err := start(ctx, db, &billing.Invoices{Ledger: ledger, Handled: func(method string, _ int, text string) {
		p.printf("  %-8s %s\n", method, text)
	}})
	if err != nil {
		return err
	}
	p.printf("Handling the events in database %q. Stop with Ctrl-C.\n", db.Name())
	<-ctx.Done()
	p.printf("Stopping: running handlers finish.\n")
	if err := stop(app); err != nil {
		return err
	}
	p.printf("Stopped.\n")
	return nil
}

// publishInvoices publishes for a service that runs elsewhere, or will.
func publishInvoices(ctx context.Context, db *mongo.Database, p *printer, n int) error {
	app, err := start(ctx, db)
	if err != nil {
		return err
	}
	// Every run has numbers of its own.
	published, err := publish(ctx, app, "INV-"+time.Now().Format("0102150405"), n)
	if err == nil {
		p.printf("Published %d events to database %q.\n", published.events, db.Name())
	}
	return errors.Join(err, stop(app))
}

// printer writes whole lines, from any goroutine.
type printer struct {
	mu  sync.Mutex
	out io.Writer
}

func (p *printer) printf(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fmt.Fprintf(p.out, format, args...)
}
