// Command migration moves a topic from Kafka to Pulse while orders keep coming in, and shows that none is lost
// and none is booked twice.
//
// Without flags it is a demo that starts replicas of the service as processes of their own, takes them through
// the steps of the move, and checks their book. With -replica it is one of these replicas.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

const (
	connectTimeout  = 10 * time.Second
	shutdownTimeout = 30 * time.Second
)

func main() {
	// SIGTERM is how an orchestrator asks a replica to stop, SIGINT is Ctrl-C.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the process at once
	err := run(ctx, os.Args[1:], os.Getenv("MONGODB_URI"), os.Getenv("KAFKA_BROKERS"), os.Stdout)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "migration:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, uri, brokers string, out io.Writer) (err error) {
	flags := flag.NewFlagSet("migration", flag.ContinueOnError)
	replica := flags.String("replica", "", "handle orders as the replica of this name, until SIGTERM or Ctrl-C")
	step := flags.String("step", steps[0].name, "step of the move at which the replica is: "+stepNames())
	group := flags.String("group", "", "consumer group and database of the replica")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if uri == "" || brokers == "" {
		return errors.New("the environment variables MONGODB_URI and KAFKA_BROKERS are not both set: start this with `go run ./cmd/pulse dev --kafka -- go run ./examples/migration`, which brings up a database and a broker, or set them")
	}
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
	if err := client.Ping(ctx, nil); err != nil {
		return fmt.Errorf("MongoDB does not answer where MONGODB_URI points: %w", err)
	}
	s := servers{client: client, brokers: strings.Split(brokers, ",")}
	if *replica == "" {
		return demo(ctx, s, out)
	}
	at, err := findStep(*step)
	if err != nil {
		return err
	}
	s.group = *group
	return serve(ctx, s, at, *replica, out)
}
