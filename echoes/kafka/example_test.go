package kafka_test

import (
	"context"
	"crypto/tls"
	"log"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/orionjs/orion-go/echoes"
	"github.com/orionjs/orion-go/echoes/kafka"
	"github.com/orionjs/orion-go/pulse"
)

// Orders is a service. Its listeners are what echoesgen writes.
type Orders struct{}

func (s *Orders) Created(ctx context.Context, o echoes.Item[order]) error {
	log.Printf("order %d, event %s, attempt %d", o.Params.N, o.EventID, o.Attempt)
	return nil
}

func (s *Orders) EchoesListeners() []echoes.Listener {
	return []echoes.Listener{echoes.OnItem("order.created", s.Created, decodeOrder, echoes.MaxRetries(5))}
}

// A service on Kafka, with TLS and a password.
func Example() {
	app, err := echoes.New(echoes.Config{
		Kafka: kafka.New(kafka.Config{
			Brokers:       []string{"kafka-1:9093", "kafka-2:9093"},
			ConsumerGroup: "billing",
			Options: []kgo.Opt{
				kgo.DialTLSConfig(&tls.Config{MinVersion: tls.VersionTLS13}),
				kgo.SASL(scram.Auth{User: "billing", Pass: "secret"}.AsSha512Mechanism()),
			},
		}),
	}, &Orders{})
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	if err := app.Start(ctx); err != nil {
		log.Fatal(err) // every problem at once
	}
	defer func() {
		ctx, cancel := context.WithTimeout(ctx, 30*time.Second) // for running handlers
		defer cancel()
		if err := app.Close(ctx); err != nil {
			log.Print(err)
		}
	}()
	_, err = app.Publish(ctx, "order.created", map[string]any{"n": 1}, echoes.WithKey("customer-7"))
	if err != nil {
		log.Print(err)
	}
}

// The way from Kafka to Pulse: listeners take events from both, and publishers
// have been switched to Pulse. When nothing is left in Kafka, Kafka goes.
func Example_movingOffKafka() {
	app, err := echoes.New(echoes.Config{
		Kafka:       kafka.New(kafka.Config{Brokers: []string{"kafka-1:9092"}, ConsumerGroup: "billing"}),
		Pulse:       &echoes.Pulse{URI: "mongodb://mongo-1/commerce?replicaSet=rs0", Config: pulse.Config{ConsumerGroup: "billing"}},
		ConsumeFrom: echoes.FromBoth,
		PublishTo:   echoes.ToPulse,
	}, &Orders{})
	if err != nil {
		log.Fatal(err)
	}
	if err := app.Start(context.Background()); err != nil {
		log.Fatal(err)
	}
}
