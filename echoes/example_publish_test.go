package echoes_test

import (
	"context"
	"fmt"
	"log"

	"github.com/orionjs/orion-go/echoes"
)

// A handler of the params alone finds the rest of its event in the context.
func ExampleFromContext() {
	handle := func(ctx context.Context, invoice Invoice) error {
		event, ok := echoes.FromContext(ctx)
		if !ok {
			return fmt.Errorf("invoice %s: called without an event", invoice.ID)
		}
		log.Printf("invoice %s, event %s of %s, attempt %d", invoice.ID, event.EventID, event.CreatedAt, event.Attempt)
		return nil
	}
	fmt.Println(handle(context.Background(), Invoice{ID: "inv-1"}))
	// Output: invoice inv-1: called without an event
}

// Each event has a result of its own: what failed is published again, under the same IDs.
func ExampleApp_PublishMany() {
	ctx := context.Background()
	var app *echoes.App // of echoes.New, started

	drafts := []echoes.Draft[any]{
		{Params: Invoice{ID: "inv-1"}, ID: "created-inv-1"},
		{Params: Invoice{ID: "inv-2"}, ID: "created-inv-2"},
	}
	results, err := app.PublishMany(ctx, "invoice.created", drafts)
	if results == nil { // an event that can never be stored: nothing was
		log.Print(err)
		return
	}
	var again []echoes.Draft[any]
	for i, result := range results {
		if result.Err != nil {
			again = append(again, drafts[i])
		}
	}
	log.Printf("%d of %d events are to be published again", len(again), len(drafts))
}
