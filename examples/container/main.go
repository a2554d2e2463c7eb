// Command container is a service as it runs in a container: configured by its environment, with probes for the
// orchestrator, and with a stop on SIGTERM that finishes what was begun and leaves the rest to the next replica.
package main

import (
	"cmp"
	"context"
	"errors"
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
	"github.com/orionjs/orion-go/pulse"
)

// stopTimeout is how long running handlers have to finish. The orchestrator must wait longer before it kills
// (terminationGracePeriodSeconds, docker stop --time), and handlers should take less.
const stopTimeout = 20 * time.Second

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	log := slog.New(slog.NewJSONHandler(os.Stdout, nil))
	err := run(ctx, log)
	stop()
	if err != nil {
		log.Error("the service ended", "error", err)
		os.Exit(1)
	}
	log.Info("stopped")
}

func run(ctx context.Context, log *slog.Logger) (err error) {
	uri := os.Getenv("MONGODB_URI")
	if uri == "" {
		return errors.New("the environment variable MONGODB_URI is not set: `go run ./cmd/pulse dev -- go run ./examples/container` brings up a database and sets it")
	}
	took, err := time.ParseDuration(cmp.Or(os.Getenv("SEND_TIME"), "100ms"))
	if err != nil {
		return fmt.Errorf("SEND_TIME is no duration as in 100ms: %w", err)
	}
	client, err := mongo.Connect(options.Client().ApplyURI(uri).SetServerSelectionTimeout(10 * time.Second))
	if err != nil {
		return fmt.Errorf("MONGODB_URI cannot be used: %w", err)
	}
	defer func() { err = errors.Join(err, within(client.Disconnect)) }() // last: all else needs it
	db := client.Database(cmp.Or(os.Getenv("DATABASE"), "mails"))

	// The probes answer before the service is ready, so that the orchestrator sees it starting.
	health := &health{ping: func(ctx context.Context) error { return client.Ping(ctx, nil) }}
	probes := &http.Server{Handler: health.handler(), ReadHeaderTimeout: 5 * time.Second}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", cmp.Or(os.Getenv("ADDR"), ":8080"))
	if err != nil {
		return err
	}
	failed := make(chan error, 1)
	go func() { failed <- probes.Serve(listener) }()
	defer func() { err = errors.Join(err, within(probes.Shutdown)) }()
	log.Info("listening", "addr", listener.Addr().String())

	app, err := echoes.New(echoes.Config{
		Pulse:  &echoes.Pulse{Client: client, Config: pulse.Config{ConsumerGroup: "mails", Database: db.Name()}},
		Logger: log,
	}, &Mails{Sent: db.Collection("sent"), Took: took})
	if err != nil {
		return err
	}
	if err := app.Start(ctx); err != nil {
		return err
	}
	health.ready.Store(true)
	log.Info("ready")

	select {
	case <-ctx.Done():
	case err = <-failed: // the probes are no use any more: stop as for a signal
	}
	health.ready.Store(false)
	log.Info("stopping", "at_most", stopTimeout.String())
	// Nothing is taken any more, running handlers finish, and their outcomes are stored. Handlers that are not
	// through in time have their context ended and their events handed back.
	return errors.Join(err, within(app.Close))
}

// within gives what ends something its time. The context of the signal has ended already.
func within(end func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	return end(ctx)
}
