package echoes_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/orionjs/orion-go/echoes"
	"github.com/orionjs/orion-go/pulse"
)

// Invoice is what an invoice.created event carries.
type Invoice struct {
	ID    string
	Lines []Line
}

// Line is a line of an invoice.
type Line struct {
	SKU   string
	Price float64
}

// Invoices is a service. Everything below it is what echoesgen writes for it.
type Invoices struct{}

// Created handles up to 100 invoices at once.
//
//echoes:batch topic=invoice.created batchSize=100 maxRetries=5
func (*Invoices) Created(_ context.Context, items []echoes.Item[Invoice]) error {
	for _, item := range items {
		fmt.Println("invoice", item.Params.ID, "of event", item.EventID)
	}
	return nil
}

// EchoesListeners registers the annotated methods.
func (s *Invoices) EchoesListeners() []echoes.Listener {
	return []echoes.Listener{
		echoes.OnBatch("invoice.created", 100, s.Created, decodeInvoice, echoes.MaxRetries(5)).At("invoices.go:31"),
	}
}

func decodeInvoice(d *echoes.Decoder, p *Invoice) {
	var seen uint64
	for end := d.Begin(); d.Next(end); {
		switch string(d.Key()) {
		case "id":
			if d.Present() {
				seen |= 1 << 0
			}
			d.String(&p.ID)
		case "lines":
			echoes.Slice(d, &p.Lines, decodeLine)
		}
	}
	d.Require(seen, "id")
}

func decodeLine(d *echoes.Decoder, p *Line) {
	for end := d.Begin(); d.Next(end); {
		switch string(d.Key()) {
		case "sku":
			d.String(&p.SKU)
		case "price":
			d.Float64(&p.Price)
		}
	}
}

// A service that runs until it is told to stop. Start returns when the handlers
// are running; Close waits for those in progress.
func Example() {
	app, err := echoes.New(echoes.Config{
		Pulse: &echoes.Pulse{
			URI:    os.Getenv("MONGODB_URI"),
			Config: pulse.Config{ConsumerGroup: "billing", Database: "commerce"},
		},
	}, &Invoices{})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	if err := app.Start(ctx); err != nil {
		fmt.Println(err)
		return
	}
	defer func() {
		ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
		defer cancel()
		if err := app.Close(ctx); err != nil {
			fmt.Println(err)
		}
	}()

	ref, err := app.Publish(ctx, "invoice.created", Invoice{ID: "inv-1"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("published", ref.ID)
}

// Every mistake is listed at once, with the line of the annotation, before
// anything connects.
func ExampleApp_Check() {
	app, err := echoes.New(echoes.Config{
		Pulse:     &echoes.Pulse{URI: "mongodb://localhost", Config: pulse.Config{Database: "commerce"}},
		PublishTo: echoes.ToKafka,
		Defaults:  []echoes.Option{echoes.MaxRetries(-1)},
	}, &Invoices{}, &Invoices{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(app.Check())
	// Output:
	// echoes: cannot start, 4 problems:
	//   - Config.PublishTo selects kafka, and kafka is not configured: set Config.Kafka (package echoes/kafka) or change Config.PublishTo
	//   - Config.Defaults: maxRetries=-1: must be from 0 to 2147483647
	//   - invoices.go:31: echoes_test.(*Invoices).Created (topic invoice.created): the service is given twice, by services 1 (*echoes_test.Invoices) and 2 (*echoes_test.Invoices) of echoes.New: pass it once, by itself or embedded in another
	//   - Config.Pulse: ConsumerGroup is empty: name the group whose work this client shares, e.g. the service's name
}

// An error of decoding names the path of the value that does not fit.
func ExampleDecodeParams() {
	t, b, err := bson.MarshalValue(bson.M{"id": "inv-1", "lines": bson.A{bson.M{"price": "9.99"}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = echoes.DecodeParams(bson.RawValue{Type: t, Value: b}, decodeInvoice)
	fmt.Println(err)

	var de *echoes.DecodeError
	fmt.Println(errors.As(err, &de), de.Path)
	// Output:
	// lines[0].price: want float64, got string
	// true lines[0].price
}

// Code around all handlers, on every transport. The first is the outermost.
func ExampleConfig_middleware() {
	count := func(ctx context.Context, call echoes.Call, next func(context.Context) error) error {
		err := next(ctx)
		fmt.Println(call.Topic, call.Kind, len(call.Items), "attempt", call.Attempt, err)
		return err
	}
	cfg := echoes.Config{
		Pulse:      &echoes.Pulse{URI: "mongodb://localhost/commerce", Config: pulse.Config{ConsumerGroup: "billing"}},
		Middleware: []echoes.Middleware{count},
	}
	app, err := echoes.New(cfg, &Invoices{})
	fmt.Println(app.Check(), err)
	// Output: <nil> <nil>
}

// What echoesgen writes for a type with //echoes:topic: an encoder, and a function
// that publishes with it. What is not valid never reaches the transport.
func ExamplePublishEncoded() {
	encode := func(e *echoes.Encoder, p *Invoice) {
		start := e.Begin()
		e.Key("id")
		e.String(&p.ID)
		e.End(start)
	}
	publishInvoice := func(ctx context.Context, to echoes.Publisher, p Invoice, opts ...echoes.PublishOption) (echoes.EventRef, error) {
		return echoes.PublishEncoded(ctx, to, "invoice.created", &p, encode, opts...)
	}
	app, err := echoes.New(echoes.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = publishInvoice(context.Background(), app, Invoice{ID: "caf\xe9"})
	fmt.Println(err)
	var invalid *echoes.InvalidEventError
	fmt.Println(errors.As(err, &invalid))
	// Output:
	// echoes: publish to invoice.created: id: the string is not valid UTF-8 (at byte 3): binary data belongs in a []byte
	// true
}
