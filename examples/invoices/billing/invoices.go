// Package billing keeps a ledger of invoices and payments from the events about them.
//
// Invoices is an Echoes service: its methods with a directive are the handlers. echoes_gen.go, written by
// echoesgen, decodes what they take and registers them; nothing else connects them to the events.
package billing

import (
	"context"
	"fmt"

	"github.com/orionjs/orion-go/echoes"
)

//go:generate go tool echoesgen

// Invoices handles the events of invoices.
type Invoices struct {
	Ledger *Ledger
	// Handled, if set, is told after each call what was done. It must be safe for concurrent use.
	Handled func(method string, events int, text string)
}

// Created books invoices, up to 100 with one insert. A batch is one unit: if this returns an error, or the
// process dies, all of it is delivered again, so that an invoice may arrive twice. The ledger takes each
// event ID once.
//
// offsetReset=earliest: when the service is deployed for the first time it begins with the oldest event
// that is still kept, and not with the next one.
//
//echoes:batch topic=invoice.created batchSize=100 maxConcurrency=2 offsetReset=earliest
func (s *Invoices) Created(ctx context.Context, items []echoes.Item[InvoiceParams]) error {
	var total Cents
	entries := make([]Entry, len(items))
	for i, item := range items {
		amount := item.Params.Total()
		total += amount
		entries[i] = Entry{EventID: item.EventID, Invoice: item.Params.Number, Kind: Invoiced, Amount: amount, At: item.CreatedAt}
	}
	if err := s.Ledger.Book(ctx, entries...); err != nil {
		return fmt.Errorf("book %d invoices: %w", len(items), err)
	}
	first, last := items[0].Params, items[len(items)-1].Params
	s.handled("Created", len(items), fmt.Sprintf("a batch of %d: %s (%s) to %s (%s), %s EUR in all",
		len(items), first.Number, first.Customer.Name, last.Number, last.Customer.Name, total))
	return nil
}

// Paid books one payment. Taking an echoes.Item, it sees the event that carries it too. It is tried up to
// 5 times more, after 1, 2, 4, 8 and 16 seconds.
//
//echoes:event topic=invoice.paid ordered=false executionVersion=2 maxRetries=5 offsetReset=earliest
func (s *Invoices) Paid(ctx context.Context, payment echoes.Item[Payment]) error {
	p := payment.Params
	entry := Entry{EventID: payment.EventID, Invoice: p.Invoice, Kind: Paid, Amount: -p.Amount, At: payment.CreatedAt}
	if err := s.Ledger.Book(ctx, entry); err != nil {
		return fmt.Errorf("book the payment of %s: %w", p.Invoice, err)
	}
	s.handled("Paid", 1, fmt.Sprintf("%s, %s EUR by %s (attempt %d)", p.Invoice, p.Amount, p.Method, payment.Attempt))
	return nil
}

// Viewed remembers when an invoice was last looked at. It takes the parameters alone and needs no event ID:
// the later of two times is the same however often it is stored.
//
//echoes:event topic=invoice.viewed ordered=false executionVersion=2 offsetReset=earliest
func (s *Invoices) Viewed(ctx context.Context, view View) error {
	if err := s.Ledger.Seen(ctx, view.Invoice, view.At); err != nil {
		return fmt.Errorf("note that %s was viewed: %w", view.Invoice, err)
	}
	s.handled("Viewed", 1, fmt.Sprintf("%s at %s", view.Invoice, view.At.Format("15:04:05")))
	return nil
}

func (s *Invoices) handled(method string, events int, text string) {
	if s.Handled != nil {
		s.Handled(method, events, text)
	}
}
