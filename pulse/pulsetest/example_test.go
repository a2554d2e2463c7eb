package pulsetest_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/orionjs/orion-go/internal/exampletest"
	"github.com/orionjs/orion-go/pulse"
	"github.com/orionjs/orion-go/pulse/pulsetest"
)

// subscribe starts the service of the examples: a client of the group "shop" that handles order.placed.
func subscribe(t testing.TB, db *mongo.Database, handle func(context.Context, *pulse.Event[order]) error) *pulse.Client {
	client := start(t, db)
	if _, err := placed.Subscribe(t.Context(), client, handle, pulse.Unordered(), pulse.RetryDelay(time.Hour)); err != nil {
		t.Fatal(err)
	}
	return client
}

// A test publishes, waits until nothing is left to do, and looks at the result.
func ExampleGroup_WaitQuiet() {
	exampletest.Run(func(t testing.TB) {
		db := pulsetest.Database(t)
		sum := new(atomic.Int64)
		client := subscribe(t, db, func(_ context.Context, e *pulse.Event[order]) error {
			sum.Add(int64(e.Data.Number))
			return nil
		})
		for _, number := range []int{1, 2, 3} {
			if _, err := placed.Publish(t.Context(), client, order{Number: number}); err != nil {
				t.Fatal(err)
			}
		}
		pulsetest.Group{DB: db, Name: "shop"}.WaitQuiet(t)
		fmt.Println(sum.Load())
	})
	// Output: 6
}

// The retries of a policy with hours of delay are made at once.
func ExampleGroup_RetryNow() {
	exampletest.Run(func(t testing.TB) {
		db := pulsetest.Database(t)
		client := subscribe(t, db, func(_ context.Context, e *pulse.Event[order]) error {
			fmt.Println("attempt", e.Attempt)
			if e.Attempt < 3 {
				return errors.New("the warehouse does not answer")
			}
			return nil
		})
		if _, err := placed.Publish(t.Context(), client, order{Number: 1}); err != nil {
			t.Fatal(err)
		}
		shop := pulsetest.Group{DB: db, Name: "shop"}
		for shop.RetryNow(t) > 0 {
		}
	})
	// Output:
	// attempt 1
	// attempt 2
	// attempt 3
}

// A handler has done half of its work when its process dies: the next attempt finds the half.
func ExampleGroup_Crash() {
	exampletest.Run(func(t testing.TB) {
		db := pulsetest.Database(t)
		half := new(pulsetest.Recorder[string])
		client := subscribe(t, db, func(ctx context.Context, e *pulse.Event[order]) error {
			if half.Len() == 0 {
				half.Add(e.ID)
				<-ctx.Done() // and never comes to the other half
				return ctx.Err()
			}
			fmt.Println("attempt", e.Attempt, "found a half:", half.Values()[0] == e.ID)
			return nil
		})
		if _, err := placed.Publish(t.Context(), client, order{Number: 1}); err != nil {
			t.Fatal(err)
		}
		half.Wait(t, 1)
		shop := pulsetest.Group{DB: db, Name: "shop"}
		shop.Crash(t)
		shop.RetryNow(t)
		shop.WaitQuiet(t)
	})
	// Output: attempt 2 found a half: true
}

// What a handler publishes is read from the database, decoded.
func ExamplePublished() {
	exampletest.Run(func(t testing.TB) {
		db := pulsetest.Database(t)
		client := start(t, db)
		if _, err := shipped.Publish(t.Context(), client, order{Number: 7}); err != nil {
			t.Fatal(err)
		}
		for _, e := range (pulsetest.Published[order]{DB: db, Topic: "order.shipped"}).Wait(t, 1) {
			fmt.Println(e.Topic, e.Data.Number)
		}
	})
	// Output: order.shipped 7
}

// A database for each test, which all may run in parallel.
func ExampleDatabase() {
	exampletest.Run(func(t testing.TB) {
		a, b := pulsetest.Database(t), pulsetest.Database(t)
		fmt.Println(a.Name() == b.Name())
	})
	// Output: false
}

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

// A client of the test's own, to watch or to disturb; the server is that of MONGODB_URI, which pulse dev sets.
func ExampleClient() {
	exampletest.Run(func(t testing.TB) {
		client := pulsetest.Client(t, func(o *options.ClientOptions) { o.SetAppName("shop") })
		fmt.Println(client.Ping(t.Context(), nil))
	})
	// Output: <nil>
}
