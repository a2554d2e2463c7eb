package billing

import (
	"fmt"
	"testing"
	"time"

	"github.com/matryer/is"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.uber.org/goleak"

	"github.com/orionjs/orion-go/echoes"
	"github.com/orionjs/orion-go/pulse"
	"github.com/orionjs/orion-go/pulse/pulsetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var at = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// items makes the items of a batch, as a handler gets them.
func items(from, to int) []echoes.Item[InvoiceParams] {
	var out []echoes.Item[InvoiceParams]
	for i := from; i < to; i++ {
		out = append(out, echoes.Item[InvoiceParams]{
			Params:       InvoiceParams{Number: fmt.Sprintf("INV-%d", i), Lines: []Line{{Text: "Hosting", Quantity: 2, Price: 150}}},
			EventContext: echoes.EventContext{EventID: fmt.Sprintf("event-%d", i), CreatedAt: at},
		})
	}
	return out
}

// What the annotations ask for works together, which the start would find out as well.
func TestInvoices_7_6_CanBeStarted(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	app, err := echoes.New(echoes.Config{Pulse: &echoes.Pulse{URI: "mongodb://unused", Config: pulse.Config{ConsumerGroup: "billing", Database: "d"}}}, &Invoices{})
	is.NoErr(err)
	is.NoErr(app.Check())
	var topics []string
	for _, l := range app.Listeners() {
		topics = append(topics, l.Topic())
	}
	is.Equal(topics, []string{TopicInvoiceParams, TopicPayment, TopicView})
}

// Handlers are methods: a test calls them without any events, here with those of a batch that is delivered
// again in part.
func TestInvoices_BookEachEventOnce(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	ledger, err := OpenLedger(t.Context(), pulsetest.Database(t))
	is.NoErr(err)
	var handled []string
	s := &Invoices{Ledger: ledger, Handled: func(method string, events int, text string) {
		handled = append(handled, fmt.Sprintf("%s %d %s", method, events, text))
	}}

	is.NoErr(s.Created(t.Context(), items(0, 3)))
	is.NoErr(s.Created(t.Context(), items(0, 3)))
	is.NoErr(s.Created(t.Context(), items(1, 5)))
	payment := echoes.Item[Payment]{Params: Payment{Invoice: "INV-1", Amount: 100, Method: "card"}, EventContext: echoes.EventContext{EventID: "payment-1", CreatedAt: at, Attempt: 2}}
	is.NoErr(s.Paid(t.Context(), payment))
	is.NoErr(s.Paid(t.Context(), payment))

	balances, err := ledger.Balances(t.Context())
	is.NoErr(err)
	is.Equal(balances, map[string]Balance{Invoiced: {Entries: 5, Amount: 1500}, Paid: {Entries: 1, Amount: -100}})
	is.Equal(handled[0], "Created 3 a batch of 3: INV-0 () to INV-2 (), 9.00 EUR in all")
	is.Equal(handled[3], "Paid 1 INV-1, 1.00 EUR by card (attempt 2)")
}

func TestInvoices_KeepTheLatestView(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	db := pulsetest.Database(t)
	ledger, err := OpenLedger(t.Context(), db)
	is.NoErr(err)
	s := &Invoices{Ledger: ledger}
	for _, seconds := range []int{0, 20, 10} {
		is.NoErr(s.Viewed(t.Context(), View{Invoice: "INV-1", At: at.Add(time.Duration(seconds) * time.Second)}))
	}
	var view struct{ At time.Time }
	is.NoErr(db.Collection("views").FindOne(t.Context(), bson.D{{Key: "_id", Value: "INV-1"}}).Decode(&view))
	is.True(view.At.Equal(at.Add(20 * time.Second)))
}

// A write that fails for another reason than a repetition fails the attempt, and is tried again.
func TestLedger_BookReportsRealErrors(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	db := pulsetest.Database(t)
	ledger, err := OpenLedger(t.Context(), db)
	is.NoErr(err)
	entry := Entry{EventID: "e", Invoice: "INV-1", Kind: Invoiced, Amount: 1, At: at}
	is.NoErr(ledger.Book(t.Context(), entry))
	lost := pulsetest.Client(t)
	unreachable := Ledger{entries: lost.Database(db.Name()).Collection("ledger")}
	is.NoErr(lost.Disconnect(t.Context()))
	is.True(unreachable.Book(t.Context(), entry) != nil)
}

func TestInvoiceParams_Validate(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	params := InvoiceParams{Number: "INV-1"}
	is.Equal(params.Validate().Error(), "an invoice needs at least one line")
	params.Lines = []Line{{Text: "Hosting", Quantity: 3, Price: -1050}}
	is.NoErr(params.Validate())
	is.Equal(params.Total().String(), "-31.50")
	is.Equal(Cents(5).String(), "0.05")
}
