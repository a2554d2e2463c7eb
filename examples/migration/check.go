package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/orionjs/orion-go/examples/migration/orders"
)

// check compares the book with what was published, and tells how the orders came.
func check(ctx context.Context, book *orders.Book, published map[string]int64, out io.Writer) error {
	entries, err := book.Entries(ctx)
	if err != nil {
		return fmt.Errorf("read the book: %w", err)
	}
	repeats, err := book.Repeats(ctx)
	if err != nil {
		return fmt.Errorf("read what came again: %w", err)
	}
	// Events of an earlier demo with the same broker do not count.
	foreign := func(e orders.Entry) bool { _, known := published[e.EventID]; return !known }
	entries, repeats = slices.DeleteFunc(entries, foreign), slices.DeleteFunc(repeats, foreign)
	if err := compare(published, entries); err != nil {
		return err
	}
	over, retried := map[string]int{}, 0
	transport := map[string]string{}
	for _, e := range entries {
		over[e.Transport]++
		transport[e.EventID] = e.Transport
		if e.Attempt > 1 {
			retried++
		}
	}
	crossed := 0
	for _, e := range repeats {
		if transport[e.EventID] != e.Transport {
			crossed++
		}
	}
	fmt.Fprintf(out, "\n%d orders were published, and each is booked exactly once: %d over Kafka, %d over Pulse.\n",
		len(published), over["kafka"], over["pulse"])
	fmt.Fprintf(out, "%d of them failed at first and were retried. %d events came again after they were booked, %d of them over the other transport.\n",
		retried, len(repeats), crossed)
	return nil
}

// compare fails when an order is lost, booked twice, or booked as another one.
func compare(published map[string]int64, entries []orders.Entry) error {
	booked := map[string]int{}
	var wrong []string
	for _, e := range entries {
		booked[e.EventID]++
		switch amount := published[e.EventID]; {
		case booked[e.EventID] == 2:
			wrong = append(wrong, e.EventID+" is booked twice")
		case amount != e.Amount:
			wrong = append(wrong, fmt.Sprintf("%s is booked with %d instead of %d", e.EventID, e.Amount, amount))
		}
	}
	for id := range published {
		if booked[id] == 0 {
			wrong = append(wrong, id+" is not booked")
		}
	}
	if len(wrong) > 0 {
		slices.Sort(wrong)
		return fmt.Errorf("the book is wrong in %d places: %s", len(wrong), strings.Join(wrong[:min(len(wrong), 10)], "; "))
	}
	return nil
}
