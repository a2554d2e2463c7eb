package telemetry_test

import (
	"context"
	"log"
	"os"

	"github.com/orionjs/orion-go/pulse"
	"github.com/orionjs/orion-go/pulse/telemetry"
)

// One value for one field: traces and metrics go to the providers that package otel has, unless others are given.
func ExampleNew() {
	observer := telemetry.New(telemetry.Config{})
	client, err := pulse.Connect(context.Background(), os.Getenv("MONGODB_URI"), pulse.Config{
		ConsumerGroup: "billing", Database: "shop", Observer: observer,
	})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = client.Close(context.Background()) }()
}
