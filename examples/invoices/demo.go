package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/orionjs/orion-go/echoes"
	"github.com/orionjs/orion-go/examples/invoices/billing"
)

// demoInvoices are enough for ten full batches.
const demoInvoices = 1000

// demo publishes before the service runs, starts it, publishes one more invoice while it runs, and compares
// the ledger with what was published.
func demo(ctx context.Context, client *mongo.Client, p *printer) (err error) {
	// A database of its own, so that the demo can be run anywhere and leaves nothing.
	db := client.Database("invoices_demo_" + bson.NewObjectID().Hex())
	publisher, err := start(ctx, db)
	if err != nil {
		return fmt.Errorf("start the publisher: %w", err)
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), shutdownTimeout)
		defer cancel()
		err = errors.Join(err, db.Drop(ctx))
	}()
	begin := time.Now()
	published, err := publish(ctx, publisher, "INV", demoInvoices)
	if err != nil {
		return errors.Join(err, stop(publisher))
	}
	p.printf("Published %d events in %s, and nobody is listening: they wait in MongoDB.\n", published.events, round(time.Since(begin)))
	if err := stop(publisher); err != nil {
		return err
	}

	ledger, err := billing.OpenLedger(ctx, db)
	if err != nil {
		return err
	}
	p.printf("\nThe service starts. Its handlers receive typed events, invoices up to 100 at a time:\n\n")
	seen := &tally{changed: make(chan struct{}, 1)}
	begin = time.Now()
	app, err := start(ctx, db, &billing.Invoices{Ledger: ledger, Handled: func(method string, events int, text string) {
		p.printf("  %-8s %s\n", method, text)
		seen.add(events)
	}})
	if err != nil {
		return fmt.Errorf("start the service: %w", err)
	}
	defer func() { err = errors.Join(err, stop(app)) }()
	if err := seen.wait(ctx, published.events); err != nil {
		return err
	}
	p.printf("\n%d events, handled in %d calls within %s.\n", published.events, seen.calls(), round(time.Since(begin)))

	p.printf("\nOne more invoice, while the service runs:\n\n")
	begin = time.Now()
	invoice := sampleInvoice("INV", demoInvoices)
	if _, err := publishInvoice(ctx, app, &published, invoice); err != nil {
		return err
	}
	if err := seen.wait(ctx, published.events); err != nil {
		return err
	}
	p.printf("  It was handled %s after Publish was called.\n", round(time.Since(begin)))

	again, err := billing.PublishInvoiceParams(ctx, app, invoice, echoes.WithID(eventID(invoice)))
	if err != nil {
		return err
	}
	if !again.Duplicate {
		return errors.New("the invoice was stored twice")
	}
	p.printf("  Published again under the same ID, it is neither stored nor handled a second time.\n")
	return check(ctx, ledger, published, p)
}

// check compares the ledger with what was published.
func check(ctx context.Context, ledger *billing.Ledger, want totals, p *printer) error {
	balances, err := ledger.Balances(ctx)
	if err != nil {
		return fmt.Errorf("read the ledger: %w", err)
	}
	invoiced, paid := balances[billing.Invoiced], balances[billing.Paid]
	p.printf("\nThe ledger: %d invoices %s EUR, %d payments %s EUR, open %s EUR.\n",
		invoiced.Entries, invoiced.Amount, paid.Entries, -paid.Amount, invoiced.Amount+paid.Amount)
	if invoiced.Amount != want.invoiced || -paid.Amount != want.paid {
		return fmt.Errorf("the ledger is wrong: %s EUR were invoiced and %s EUR paid", want.invoiced, want.paid)
	}
	p.printf("Every event was booked exactly once.\n")
	return nil
}

// totals is what was published.
type totals struct {
	events         int
	invoiced, paid billing.Cents
}

// publish publishes n invoices, whose numbers begin with prefix, and for some of them that they were paid or viewed.
func publish(ctx context.Context, app *echoes.App, prefix string, n int) (totals, error) {
	var t totals
	for i := range n {
		invoice := sampleInvoice(prefix, i)
		if _, err := publishInvoice(ctx, app, &t, invoice); err != nil {
			return t, err
		}
		if i%200 == 0 {
			payment := billing.Payment{Invoice: invoice.Number, Amount: invoice.Total(), Method: "card"}
			if _, err := billing.PublishPayment(ctx, app, payment); err != nil {
				return t, err
			}
			t.events++
			t.paid += payment.Amount
		}
		if i%400 == 0 {
			if _, err := billing.PublishView(ctx, app, billing.View{Invoice: invoice.Number, At: time.Now()}); err != nil {
				return t, err
			}
			t.events++
		}
	}
	return t, nil
}

// publishInvoice publishes under an ID that belongs to the invoice: a publisher that does not know whether
// it got through simply publishes again.
func publishInvoice(ctx context.Context, app *echoes.App, t *totals, invoice billing.InvoiceParams) (echoes.EventRef, error) {
	ref, err := billing.PublishInvoiceParams(ctx, app, invoice, echoes.WithID(eventID(invoice)))
	if err == nil && !ref.Duplicate {
		t.events++
		t.invoiced += invoice.Total()
	}
	return ref, err
}

func eventID(invoice billing.InvoiceParams) string { return "created-" + invoice.Number }

// sampleInvoice makes the invoice with index i, always the same one.
func sampleInvoice(prefix string, i int) billing.InvoiceParams {
	customers := []billing.Customer{
		{Name: "Müller & Söhne", Country: "DE"},
		{Name: "Acme", Country: "US"},
		{Name: "株式会社さくら", Country: "JP"},
		{Name: "Café Ünal", Country: "TR"},
		{Name: "Nguyễn", Country: "VN"},
		{Name: "Lindqvist", Country: "SE"},
		{Name: "Okoye", Country: "NG"},
	}
	return billing.InvoiceParams{
		Number:   fmt.Sprintf("%s-%04d", prefix, i+1),
		Customer: customers[i%len(customers)],
		Lines: []billing.Line{
			{Text: "Hosting", Quantity: 1 + i%12, Price: 1990},
			{Text: "Support", Quantity: 1, Price: billing.Cents(5000 + 25*(i%40))},
		},
		DueAt: time.Date(2026, 1, 31, 0, 0, 0, 0, time.UTC).AddDate(0, i%12, 0),
	}
}

// tally counts what the handlers have done.
type tally struct {
	mu            sync.Mutex
	events, count int
	changed       chan struct{} // holds a signal after each change
}

func (t *tally) add(events int) {
	t.mu.Lock()
	t.events += events
	t.count++
	t.mu.Unlock()
	select {
	case t.changed <- struct{}{}:
	default: // the signal that is there has not been seen yet
	}
}

func (t *tally) calls() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.count
}

// wait returns when as many events were handled, or with an error when ctx ends first or nothing moves.
func (t *tally) wait(ctx context.Context, events int) error {
	for {
		t.mu.Lock()
		n := t.events
		t.mu.Unlock()
		if n >= events {
			return nil
		}
		select {
		case <-t.changed:
		case <-time.After(time.Minute):
			return fmt.Errorf("%d of %d events were handled, and nothing has happened for a minute", n, events)
		case <-ctx.Done():
			return fmt.Errorf("stopped when %d of %d events were handled; MongoDB keeps the others", n, events)
		}
	}
}

func round(d time.Duration) time.Duration {
	if d > time.Second {
		return d.Round(100 * time.Millisecond)
	}
	return d.Round(time.Millisecond)
}
