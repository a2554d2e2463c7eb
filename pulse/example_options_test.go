package pulse_test

import (
	"context"
	"errors"
	"log"
	"time"

	"github.com/orionjs/orion-go/pulse"
)

// A reminder is stored now and published tomorrow, unless the order is paid before.
func ExampleNotBefore() {
	ctx, client := context.Background(), connected()

	reminder, err := OrderCreated.Publish(ctx, client, Order{Number: "A-17"},
		pulse.NotBefore(time.Now().Add(24*time.Hour)),
		pulse.UniqueKey("reminder/A-17")) // once, however often this runs
	if err != nil {
		log.Print(err)
		return
	}

	// When the order is paid:
	cancelled, err := client.CancelScheduled(ctx, reminder.ID)
	switch {
	case err != nil:
		log.Print(err)
	case !cancelled:
		log.Print("the reminder is on its way already")
	}
}

// Whoever of the replicas comes first publishes the report of the month.
func ExampleUniqueKey() {
	ctx, client := context.Background(), connected()

	event, err := OrderCreated.Publish(ctx, client, Order{Number: "2030-01"}, pulse.UniqueKey("report/2030-01"))
	switch {
	case err != nil:
		log.Print(err)
	case event.Duplicate:
		log.Printf("published before, at %s, by %s", event.CreatedAt, event.Publisher)
	}
}

// A service behind the handler allows ten calls a second, should answer within five seconds, and is down at times:
// then it is asked again for a day, at most every ten minutes, and not by all at once when it is back.
func ExampleRateLimit() {
	ctx, client := context.Background(), connected()
	send := func(context.Context, Order) error { return nil }

	_, err := OrderCreated.Subscribe(ctx, client, func(ctx context.Context, e *pulse.Event[Order]) error {
		err := send(ctx, e.Data) // ctx ends after five seconds
		if errors.Is(context.Cause(ctx), pulse.ErrHandlerTimeout) {
			log.Printf("order %s: no answer in time", e.Data.Number)
		}
		return err
	},
		pulse.Unordered(), pulse.ExecutionVersion(2),
		pulse.RateLimit(10, 20), pulse.HandlerTimeout(5*time.Second),
		pulse.MaxRetries(150), pulse.MaxRetryDelay(10*time.Minute), pulse.RetryJitter(0.2))
	if err != nil {
		log.Print(err)
	}
}
