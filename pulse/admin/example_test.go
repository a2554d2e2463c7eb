package admin_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/orionjs/orion-go/internal/exampletest"
	"github.com/orionjs/orion-go/pulse"
	"github.com/orionjs/orion-go/pulse/admin"
	"github.com/orionjs/orion-go/pulse/pulsetest"
)

// An operator's program: it lists what waits in a database.
func Example() {
	client, err := mongo.Connect(options.Client().ApplyURI(os.Getenv("MONGODB_URI")))
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	defer func() { _ = client.Disconnect(ctx) }()

	a, err := admin.New(client.Database("shop"), admin.Config{})
	if err != nil {
		log.Print(err)
		return
	}
	subscriptions, err := a.Subscriptions(ctx, admin.SubscriptionQuery{})
	if err != nil {
		log.Print(err)
		return
	}
	for _, s := range subscriptions {
		fmt.Printf("%s %s: %d wait, %d retry, %d failed\n", s.Group, s.Topic, s.Backlog.Pending.N, s.Backlog.Retrying.N, s.Backlog.Failed.N)
	}
}

// shop has a group whose card service was down: two orders have failed for good.
func shop(t testing.TB, work func(ctx context.Context, a *admin.Admin)) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	db := pulsetest.Database(t)
	client, err := pulse.New(ctx, db.Client(), pulse.Config{ConsumerGroup: "billing", Database: db.Name()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close(ctx) }()
	_, err = orders.Subscribe(ctx, client, func(_ context.Context, e *pulse.Event[order]) error {
		if e.Attempt == 1 && e.Data.Number < 3 {
			return pulse.Permanent(errors.New("the card service is down"))
		}
		return nil
	}, pulse.Unordered(), pulse.ExecutionVersion(2))
	if err != nil {
		t.Fatal(err)
	}
	for number := 1; number <= 3; number++ {
		if _, err := orders.Publish(ctx, client, order{Number: number}); err != nil {
			t.Fatal(err)
		}
	}
	pulsetest.Group{DB: db, Name: "billing"}.WaitQuiet(t)
	a, err := admin.New(db, admin.Config{})
	if err != nil {
		t.Fatal(err)
	}
	work(ctx, a)
}

// What a group has to do, and what has failed.
func ExampleAdmin_Subscriptions() {
	exampletest.Run(func(t testing.TB) {
		shop(t, func(ctx context.Context, a *admin.Admin) {
			subscriptions, err := a.Subscriptions(ctx, admin.SubscriptionQuery{Group: "billing"})
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range subscriptions {
				fmt.Println(s.Topic, "pending:", s.Backlog.Pending.N, "failed:", s.Backlog.Failed.N)
			}
		})
	})
	// Output: order.created pending: 0 failed: 2
}

// Look first what a retry would do, then do it.
func ExampleAdmin_RetryMatching() {
	exampletest.Run(func(t testing.TB) {
		shop(t, func(ctx context.Context, a *admin.Admin) {
			failed := admin.DeliveryQuery{Group: "billing", Topic: "order.created", ErrorCode: "handler_error"}
			would, err := a.RetryMatching(ctx, failed, admin.Bulk{DryRun: true})
			if err != nil {
				t.Fatal(err)
			}
			fmt.Println("would retry", would.Matched, "changed", would.Changed)

			did, err := a.RetryMatching(ctx, failed, admin.Bulk{By: admin.By{Name: "ada", Reason: "card service is back"}})
			if err != nil {
				t.Fatal(err)
			}
			fmt.Println("retried", did.Changed, "refused", len(did.Errors))
		})
	})
	// Output:
	// would retry 2 changed 0
	// retried 2 refused 0
}

// One delivery by its ID. A StateError says that it has moved on meanwhile.
func ExampleAdmin_Retry() {
	exampletest.Run(func(t testing.TB) {
		shop(t, func(ctx context.Context, a *admin.Admin) {
			page, err := a.Deliveries(ctx, admin.DeliveryQuery{Group: "billing", States: []admin.State{admin.Failed}, Limit: 1})
			if err != nil {
				t.Fatal(err)
			}
			failed := page.Deliveries[0]
			_, err = a.Retry(ctx, failed.ID, admin.By{Name: "ada", Reason: "card service is back"})
			var moved *admin.StateError
			switch {
			case errors.As(err, &moved):
				fmt.Println("somebody else was faster:", moved)
			case err != nil:
				t.Fatal(err)
			default:
				fmt.Println("retried, after", failed.Error.Message)
			}
		})
	})
	// Output: retried, after the card service is down
}

// A pause stops the group's work on a topic in all replicas, until it is resumed.
func ExampleAdmin_Pause() {
	exampletest.Run(func(t testing.TB) {
		shop(t, func(ctx context.Context, a *admin.Admin) {
			paused, err := a.Pause(ctx, "billing", "order.created", admin.By{Name: "ada", Reason: "the warehouse moves"})
			if err != nil {
				t.Fatal(err)
			}
			resumed, err := a.Resume(ctx, "billing", "order.created", admin.By{Name: "ada", Reason: "it has moved"})
			if err != nil {
				t.Fatal(err)
			}
			fmt.Println(paused, resumed)
		})
	})
	// Output: true true
}

// What keeps work from being done, with the remedy. Nothing is changed without Fix.
func ExampleAdmin_Doctor() {
	exampletest.Run(func(t testing.TB) {
		shop(t, func(ctx context.Context, a *admin.Admin) {
			if _, err := a.Pause(ctx, "billing", "order.created", admin.By{Name: "ada", Reason: "the warehouse moves"}); err != nil {
				t.Fatal(err)
			}
			report, err := a.Doctor(ctx, admin.DoctorOptions{})
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range report.Findings {
				fmt.Println(f.Severity, f.Check, f.Where)
			}
		})
	})
	// Output:
	// note pause group billing, topic order.created
	// note failures group billing, topic order.created
}
