package pulse_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/orionjs/orion-go/pulse"
)

// A client with ManualStart that is never started reads, and takes no part in the group's work.
func ExampleHistory_Find() {
	ctx, client := context.Background(), connected()

	query := pulse.HistoryQuery{Topic: "order.created", Status: pulse.AttemptFailed, From: time.Now().Add(-time.Hour)}
	for {
		page, err := client.History().Find(ctx, query)
		if err != nil {
			log.Print(err)
			return
		}
		for _, a := range page.Attempts {
			log.Printf("events %v, attempt %d: %s: %s", a.EventIDs, a.Attempt, a.Error.Code, a.Error.Message)
		}
		if page.Next == "" {
			return
		}
		query.Cursor = page.Next
	}
}

// A configuration is judged without a connection, all of it at once: in a unit test, or before a deployment.
func ExampleConfig_Validate() {
	err := pulse.Config{ConsumerGroup: "billing", WorkerCount: -1, LockTimeout: time.Millisecond}.Validate("mongodb://db/commerce")
	fmt.Println(err)
	// Output:
	// pulse: configuration: 2 problems:
	//   - WorkerCount -1: must be from 1 to 10000, or 0 for the default of 4
	//   - LockTimeout 1ms: must be from 100ms to 24h0m0s, or 0 for the default of 30s
}

// Marks are found through wrapping, by middleware for example.
func ExampleIsPermanent() {
	refused := fmt.Errorf("order A-17: %w", pulse.Permanent(errors.New("the card was refused")))
	fmt.Println(refused, pulse.IsPermanent(refused))
	busy := pulse.RetryAfter(errors.New("too many requests"), 30*time.Second)
	fmt.Println(pulse.RetryAfterOf(busy))
	// Output:
	// order A-17: the card was refused true
	// 30s true
}
