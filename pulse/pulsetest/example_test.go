package pulsetest_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/orionjs/orion-go/pulse/pulsetest"
)

// A handler adds what it receives, the test waits for it.
func ExampleRecorder() {
	var t *testing.T // the test's
	var received pulsetest.Recorder[string]
	handler := func(_ context.Context, order string) error {
		received.Add(order)
		return nil
	}
	go func() { _ = handler(context.Background(), "order 1") }()
	for _, order := range received.Wait(t, 1) {
		fmt.Println(order)
	}
}

// The database says when the work is done.
func ExampleEventually() {
	var t *testing.T // the test's
	db := pulsetest.Database(t)
	pulsetest.Eventually(t, "every order is shipped", func(ctx context.Context) error {
		open, err := db.Collection("orders").CountDocuments(ctx, bson.D{{Key: "shipped", Value: false}})
		if err == nil && open > 0 {
			err = fmt.Errorf("%d orders are open", open)
		}
		return err
	})
}

// Commands per event are the same on a fast and on a slow machine.
func ExampleCommandMonitor() {
	var t *testing.T // the test's
	commands := pulsetest.NewCommandMonitor()
	client := pulsetest.Client(t, commands.Watch)
	_ = client // ... publish 100 events with it ...
	if n := commands.Count("insert"); n > 1 {
		t.Errorf("100 events took %d inserts (%s)", n, commands)
	}
}

// The network fails while a handler runs.
func ExampleProxy() {
	var t *testing.T // the test's
	proxy := pulsetest.NewProxy(t)
	client := pulsetest.Client(t, proxy.Use)
	_ = client // ... subscribe with it ...
	proxy.BlackHole()
	// ... another process takes the delivery over after the lease ...
	proxy.Restore()
}

// The server refuses the next two inserts of one client.
func ExampleFailPoint() {
	var t *testing.T // the test's
	db := pulsetest.Database(t)
	client := pulsetest.Client(t, func(o *options.ClientOptions) { o.SetAppName(db.Name()) })
	_ = client // ... publish with it ...
	pulsetest.NewFailPoint(t, db.Client()).Set(pulsetest.Failure{
		AppName:   db.Name(),
		Commands:  []string{"insert"},
		Times:     2,
		ErrorCode: 112, // WriteConflict
		Block:     10 * time.Millisecond,
	})
}
