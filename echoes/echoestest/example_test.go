package echoestest_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/orionjs/orion-go/echoes"
	"github.com/orionjs/orion-go/echoes/echoestest"
	"github.com/orionjs/orion-go/echoes/echoestest/internal/shop"
	"github.com/orionjs/orion-go/internal/exampletest"
	"github.com/orionjs/orion-go/pulse"
	"github.com/orionjs/orion-go/pulse/pulsetest"
)

// A handler gets typed params, as Publish takes them, or JSON, and what it returns is the outcome of the attempt.
func ExampleHandle() {
	exampletest.Run(func(t testing.TB) {
		events := &echoestest.Publisher{}
		app := echoestest.New(t, &shop.Shop{Events: events})

		fmt.Println(echoestest.Handle(t, app, "order.placed", shop.Order{Number: "7", Cents: 1999}))
		fmt.Println(echoestest.Handle(t, app, "order.placed", json.RawMessage(`{"number": "8", "cents": "many"}`)))
	})
	// Output:
	// <nil>
	// echoes: topic order.placed, event event-1: cents: want int64, got string
}

// The headers, the ID or the number of the attempt are part of an Event.
func ExampleEvent() {
	exampletest.Run(func(t testing.TB) {
		events := &echoestest.Publisher{}
		app := echoestest.New(t, &shop.Shop{Events: events})
		again := echoestest.Event{
			Params:       shop.Order{Number: "7", Cents: 1999},
			EventContext: echoes.EventContext{EventID: "order-7", Attempt: 2},
		}
		for range 2 {
			if err := echoestest.Handle(t, app, "order.placed", again); err != nil {
				t.Fatal(err)
			}
		}
		fmt.Println(events.Len()) // one shipment, whatever is repeated
	})
	// Output: 1
}

// What a service publishes is remembered and compared, without a database.
func ExamplePublisher() {
	exampletest.Run(func(t testing.TB) {
		events := &echoestest.Publisher{}
		app := echoestest.New(t, &shop.Shop{Events: events})
		if err := echoestest.Handle(t, app, "order.placed", shop.Order{Number: "7", Cents: 1999}); err != nil {
			t.Fatal(err)
		}
		for _, item := range echoestest.Items[shop.Shipment](t, events, shop.TopicShipment) {
			fmt.Println(item.EventID, item.Params.Order)
		}
	})
	// Output: shipment-event-1 7
}

// The whole way, over a database: an event in, an event out.
func ExamplePublished() {
	exampletest.Run(func(t testing.TB) {
		db := pulsetest.Database(t)
		service := &shop.Shop{}
		app, err := echoes.New(echoes.Config{Pulse: &echoes.Pulse{
			Client: db.Client(),
			Config: pulse.Config{ConsumerGroup: "shop", Database: db.Name(), Logger: quiet},
		}}, service)
		if err != nil {
			t.Fatal(err)
		}
		service.Events = app
		if err := app.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { closeApp(t, app) })

		if _, err := shop.PublishOrder(t.Context(), app, shop.Order{Number: "7", Cents: 1999}); err != nil {
			t.Fatal(err)
		}
		for _, item := range (echoestest.Published[shop.Shipment]{DB: db, Topic: shop.TopicShipment}).Wait(t, 1) {
			fmt.Println("shipped", item.Params.Order)
		}
	})
	// Output: shipped 7
}

// What a service published comes back as typed items, in their order, decoded as a listener would get it.
func ExampleItems() {
	exampletest.Run(func(t testing.TB) {
		events := &echoestest.Publisher{}
		for _, number := range []string{"7", "8"} {
			if _, err := shop.PublishOrder(t.Context(), events, shop.Order{Number: number}); err != nil {
				t.Fatal(err)
			}
		}
		for _, item := range echoestest.Items[shop.Order](t, events, shop.TopicOrder) {
			fmt.Println(item.Params.Number)
		}
	})
	// Output:
	// 7
	// 8
}

// An app of your services takes events in memory; nothing is started, and no server is asked.
func ExampleNew() {
	exampletest.Run(func(t testing.TB) {
		events := &echoestest.Publisher{}
		app := echoestest.New(t, &shop.Shop{Events: events})
		fmt.Println(echoestest.Handle(t, app, shop.TopicOrder, shop.Order{Number: "7", Cents: 1999}), events.Len())
	})
	// Output: <nil> 1
}
