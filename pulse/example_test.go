package pulse_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/orionjs/orion-go/pulse"
)

// Order is the data of the examples' events, stored by the driver's rules.
type Order struct {
	Number   string
	Customer string `bson:",omitempty"`
	Cents    int64
}

// A topic is declared once, and used from anywhere.
var OrderCreated = pulse.NewTopic[Order]("order.created")

// A service that opens its own connections: it subscribes, runs until it is told to stop, and closes, which
// lets running handlers finish.
func ExampleConnect() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()

	client, err := pulse.Connect(ctx, os.Getenv("MONGODB_URI"), pulse.Config{
		ConsumerGroup: "billing",
		Database:      "commerce",
	})
	if err != nil {
		log.Fatal(err)
	}
	_, err = OrderCreated.Subscribe(ctx, client, func(ctx context.Context, e *pulse.Event[Order]) error {
		log.Printf("order %s of %s, attempt %d", e.Data.Number, e.CreatedAt, e.Attempt)
		return nil
	}, pulse.Unordered(), pulse.ExecutionVersion(2))
	if err != nil {
		log.Fatal(err)
	}

	<-ctx.Done()
	patience, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := client.Close(patience); err != nil {
		log.Print(err)
	}
}

// New works over connections that the service has already, and leaves them open.
func ExampleNew() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	shared, err := mongo.Connect(options.Client().ApplyURI(os.Getenv("MONGODB_URI")))
	if err != nil {
		log.Fatal(err)
	}
	defer func() {
		if err := shared.Disconnect(ctx); err != nil {
			log.Print(err)
		}
	}()

	client, err := pulse.New(ctx, shared, pulse.Config{ConsumerGroup: "billing", Database: "commerce"})
	if err != nil {
		log.Fatal(err)
	}
	defer func() {
		if err := client.Close(ctx); err != nil {
			log.Print(err)
		}
	}()

	if _, err := OrderCreated.Publish(ctx, client, Order{Number: "A-17", Cents: 4200}); err != nil {
		log.Print(err)
	}
}

// With ManualStart all subscriptions are registered first: Start reports what is wrong with all of them
// together, before a handler has run.
func ExampleClient_Start() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	client, err := pulse.Connect(ctx, os.Getenv("MONGODB_URI"), pulse.Config{
		ConsumerGroup: "billing", Database: "commerce", ManualStart: true,
	})
	if err != nil {
		log.Fatal(err)
	}
	defer func() {
		if err := client.Close(ctx); err != nil {
			log.Print(err)
		}
	}()
	for _, region := range []string{"eu", "us"} {
		topic := pulse.NewTopic[Order]("order.created." + region)
		_, err := topic.SubscribeBatch(ctx, client, 100, func(ctx context.Context, events []*pulse.Event[Order]) error {
			log.Printf("%d orders from %s", len(events), region)
			return nil
		})
		if err != nil {
			log.Fatal(err)
		}
	}
	err = client.Start(ctx)
	var wrong *pulse.ConfigurationError
	if errors.As(err, &wrong) {
		for _, problem := range wrong.Problems {
			log.Print(problem)
		}
	}
}

// An ID of the publisher's own makes publishing safe to repeat: the second one stores nothing.
func ExampleTopic_Publish() {
	ctx, client := context.Background(), connected()

	event, err := OrderCreated.Publish(ctx, client, Order{Number: "A-17", Cents: 4200},
		pulse.WithID("order.created/A-17"),
		pulse.WithHeaders(map[string]string{"source": "checkout"}))
	var conflict *pulse.ConflictError
	switch {
	case errors.As(err, &conflict):
		log.Printf("another order was published as %s", conflict.ID)
	case err != nil:
		log.Print(err) // publish again: it may have been stored
	case event.Duplicate:
		log.Printf("published before, at %s", event.CreatedAt)
	}
}

func ExampleTopic_PublishMany() {
	ctx, client := context.Background(), connected()

	messages := make([]pulse.Message[Order], 5000)
	for i := range messages {
		messages[i].Data = Order{Number: strconv.Itoa(i)}
	}
	results, err := OrderCreated.PublishMany(ctx, client, messages) // five inserts
	if err != nil {
		for i, r := range results {
			if r.Err != nil {
				log.Printf("message %d was not stored: %v", i, r.Err)
			}
		}
	}
}

// A handler may run again for an event that it has handled. Here a unique index on the event's ID makes that
// harmless.
func ExampleTopic_Subscribe() {
	ctx, client := context.Background(), connected()
	var invoices *mongo.Collection // with a unique index on "eventId"

	_, err := OrderCreated.Subscribe(ctx, client, func(ctx context.Context, e *pulse.Event[Order]) error {
		_, err := invoices.InsertOne(ctx, bson.M{"eventId": e.ID, "order": e.Data.Number, "cents": e.Data.Cents})
		if mongo.IsDuplicateKeyError(err) {
			return nil // handled by an earlier attempt
		}
		return err
	},
		pulse.Unordered(), pulse.MaxConcurrency(8), // the default is one at a time, in the order of publication
		pulse.ExecutionVersion(2),                            // a fraction of the commands; needs Unordered
		pulse.MaxRetries(5), pulse.RetryDelay(2*time.Second), // after 2, 4, 8, 16 and 32 s
		pulse.ConfigVersion(1), // raise it with each change of the others
	)
	if err != nil {
		log.Print(err)
	}
}

// A batch is one unit: when the handler fails, all of its events are retried together. So it writes in a way
// that can be repeated.
func ExampleTopic_SubscribeBatch() {
	ctx, client := context.Background(), connected()
	var invoices *mongo.Collection

	_, err := OrderCreated.SubscribeBatch(ctx, client, 100, func(ctx context.Context, events []*pulse.Event[Order]) error {
		writes := make([]mongo.WriteModel, len(events))
		for i, e := range events {
			writes[i] = mongo.NewReplaceOneModel().SetUpsert(true).
				SetFilter(bson.M{"_id": e.ID}).
				SetReplacement(bson.M{"order": e.Data.Number, "cents": e.Data.Cents})
		}
		_, err := invoices.BulkWrite(ctx, writes, options.BulkWrite().SetOrdered(false))
		return err
	}, pulse.MaxConcurrency(2))
	if err != nil {
		log.Print(err)
	}
}

// Some errors no retry can mend: the delivery ends at once, and is recorded as failed.
func ExamplePermanent() {
	charge := func(o Order) error {
		if o.Cents < 0 {
			return pulse.Permanent(fmt.Errorf("order %s: negative amount %d", o.Number, o.Cents))
		}
		return nil
	}
	fmt.Println(charge(Order{Number: "A-17", Cents: -1}))
	// Output: order A-17: negative amount -1
}

// A service that says when to come back is asked again then, and not by the subscription's own delay.
func ExampleRetryAfter() {
	notify := func(response *http.Response) error {
		if response.StatusCode != http.StatusTooManyRequests {
			return nil
		}
		seconds, err := strconv.Atoi(response.Header.Get("Retry-After"))
		if err != nil {
			return errors.New("too many requests")
		}
		return pulse.RetryAfter(errors.New("too many requests"), time.Duration(seconds)*time.Second)
	}
	busy := &http.Response{StatusCode: http.StatusTooManyRequests, Header: http.Header{"Retry-After": {"30"}}}
	fmt.Println(notify(busy))
	// Output: too many requests
}

// connected stands for the client that a service makes at its start, see ExampleConnect.
func connected() *pulse.Client { return nil }
