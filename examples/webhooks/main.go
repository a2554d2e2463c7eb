// Command webhooks receives the webhooks of a GitHub repository and keeps an activity feed.
//
// Package receiver stores each delivery as an event, package github handles the events. They meet only in
// MongoDB: both may be down, slow or deployed at any time, and could be two processes.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/orionjs/orion-go/echoes"
	"github.com/orionjs/orion-go/examples/webhooks/github"
	"github.com/orionjs/orion-go/examples/webhooks/receiver"
	"github.com/orionjs/orion-go/pulse"
)

const shutdownTimeout = 20 * time.Second

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the process at once
	err := run(ctx, os.Args[1:], os.Getenv)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "webhooks:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, getenv func(string) string) (err error) {
	flags := flag.NewFlagSet("webhooks", flag.ContinueOnError)
	address := flags.String("addr", "localhost:8080", "address to listen on")
	database := flags.String("database", "webhooks", "database of the events and the feed")
	if err := flags.Parse(args); err != nil {
		return err
	}
	uri, secret := getenv("MONGODB_URI"), getenv("WEBHOOK_SECRET")
	if uri == "" {
		return errors.New("the environment variable MONGODB_URI is not set: start this with `go run ./cmd/pulse dev -- go run ./examples/webhooks`, which brings up a database, or set it to a connection string")
	}
	if secret == "" {
		slog.Warn("WEBHOOK_SECRET is not set: deliveries are accepted from everybody")
	}

	client, err := mongo.Connect(options.Client().ApplyURI(uri))
	if err != nil {
		return fmt.Errorf("the connection string in MONGODB_URI cannot be used: %w", err)
	}
	defer func() { err = errors.Join(err, within(shutdownTimeout, client.Disconnect)) }()
	db := client.Database(*database)

	log := slog.Default()
	app, err := newApp(db, logged{github.Collection{Collection: db.Collection("activity")}, log}, log)
	if err != nil {
		return err
	}
	if err := app.Start(ctx); err != nil {
		return err
	}
	// Closed before the connections are, and after the server, which publishes.
	defer func() { err = errors.Join(err, within(shutdownTimeout, app.Close)) }()
	return serve(ctx, *address, newHandler(app, secret, log))
}

// newApp makes the part that handles events. It also publishes for the receiver.
func newApp(db *mongo.Database, feed github.Feed, log *slog.Logger) (*echoes.App, error) {
	return echoes.New(echoes.Config{
		Pulse: &echoes.Pulse{
			Client: db.Client(),
			Config: pulse.Config{ConsumerGroup: "activity-feed", Database: db.Name()},
		},
		// Settings of all handlers; a directive can say otherwise for its own. The order of events does not
		// matter to a feed whose lines carry their time.
		Defaults: []echoes.Option{echoes.Ordered(false), echoes.ExecutionVersion(2), echoes.MaxRetries(5)},
		Logger:   log,
	}, &github.Service{Feed: feed})
}

// newHandler makes the HTTP side.
func newHandler(publisher receiver.Publisher, secret string, log *slog.Logger) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("POST /webhook", &receiver.Receiver{Publisher: publisher, Topic: github.Topic, Secret: []byte(secret), Log: log})
	return mux
}

// serve serves until ctx ends, and then finishes the requests that are under way.
func serve(ctx context.Context, address string, handler http.Handler) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("cannot listen: %w: choose another address with -addr", err)
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 30 * time.Second, WriteTimeout: 45 * time.Second}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	slog.Info("receiving webhooks", "address", fmt.Sprintf("http://%s/webhook", listener.Addr()))
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	slog.Info("stopping: requests and handlers under way finish")
	return within(shutdownTimeout, server.Shutdown)
}

// within calls a function that stops something. The context of main has ended by then.
func within(timeout time.Duration, stop func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return stop(ctx)
}

// logged is a feed that is logged as well.
type logged struct {
	github.Feed
	log *slog.Logger
}

func (f logged) Add(ctx context.Context, a github.Activity) error {
	err := f.Feed.Add(ctx, a)
	if err == nil {
		f.log.InfoContext(ctx, a.Actor+" "+a.Text, "repository", a.Repository)
	}
	return err
}
