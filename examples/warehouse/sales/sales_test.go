package sales_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/matryer/is"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.uber.org/goleak"

	"github.com/orionjs/orion-go/echoes"
	"github.com/orionjs/orion-go/echoes/echoestest"
	"github.com/orionjs/orion-go/examples/warehouse/sales"
	"github.com/orionjs/orion-go/pulse"
	"github.com/orionjs/orion-go/pulse/pulsetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// tableFunc is a table of a function.
type tableFunc func(context.Context, []sales.Row) error

func (f tableFunc) Load(ctx context.Context, rows []sales.Row) error { return f(ctx, rows) }

// start starts the loader over a database.
func start(t *testing.T, db *mongo.Database, table sales.Table) *echoes.App {
	t.Helper()
	app, err := echoes.New(echoes.Config{Pulse: &echoes.Pulse{
		Client: db.Client(),
		Config: pulse.Config{ConsumerGroup: "warehouse", Database: db.Name()},
	}}, &sales.Loader{Table: table})
	is.New(t).NoErr(err)
	is.New(t).NoErr(app.Start(t.Context()))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		is.New(t).NoErr(app.Close(ctx))
	})
	return app
}

func publish(t *testing.T, app *echoes.App, n int) {
	t.Helper()
	drafts := make([]echoes.Draft[sales.Sale], n)
	for i := range drafts {
		drafts[i].Params = sales.Sale{Store: "Harbour", Article: "tea", Quantity: 2, Cents: 300}
	}
	_, err := sales.PublishManySale(t.Context(), app, drafts)
	is.New(t).NoErr(err)
}

func sold(t *testing.T, table sales.Collection) (n int) {
	t.Helper()
	totals, err := table.Totals(t.Context())
	is.New(t).NoErr(err)
	for _, total := range totals {
		n += total.Sold
	}
	return n
}

// What a handler makes of a batch is seen without a database at all.
func TestLoader_MakesRows(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	var rows []sales.Row
	app := echoestest.New(t, &sales.Loader{Table: tableFunc(func(_ context.Context, r []sales.Row) error { rows = r; return nil })})
	is.NoErr(echoestest.Handle(t, app, sales.TopicSale,
		sales.Sale{Store: "Harbour", Article: "tea", Quantity: 2, Cents: 300, SoldAt: time.Date(2026, 3, 2, 17, 30, 0, 0, time.UTC)},
		sales.Sale{Store: "Market", Article: "tea", Quantity: 1, Cents: 300}))
	is.Equal(len(rows), 2)
	is.Equal(rows[0], sales.Row{EventID: "event-1", Store: "Harbour", Day: time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC), Article: "tea", Sold: 2, Cents: 600})
}

// A table that is down fails whole batches, which come again as wholes.
func TestLoader_4_5_ComesThroughAnOutage(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	db := pulsetest.Database(t)
	table := sales.Collection{C: db.Collection("sales")}
	outage := 5
	calls := make(chan struct{}, 1) // guards outage
	app := start(t, db, tableFunc(func(ctx context.Context, rows []sales.Row) error {
		calls <- struct{}{}
		defer func() { <-calls }()
		if outage--; outage >= 0 {
			return errors.New("the table is down")
		}
		return table.Load(ctx, rows)
	}))
	publish(t, app, 250)
	warehouse := pulsetest.Group{DB: db, Name: "warehouse"}
	for warehouse.RetryNow(t) > 0 {
	}
	is.Equal(sold(t, table), 500)
}

// The process dies after the table has the rows and before that is recorded: the batch comes again, and finds them.
func TestLoader_4_3_LoadsOnceAlthoughAProcessDies(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	db := pulsetest.Database(t)
	table := sales.Collection{C: db.Collection("sales")}
	var loaded pulsetest.Recorder[int]
	app := start(t, db, tableFunc(func(ctx context.Context, rows []sales.Row) error {
		err := table.Load(ctx, rows)
		loaded.Add(len(rows))
		if loaded.Len() == 1 {
			<-ctx.Done() // the last that is heard of it
		}
		return err
	}))
	publish(t, app, 100)
	loaded.Wait(t, 1)
	warehouse := pulsetest.Group{DB: db, Name: "warehouse"}
	warehouse.Crash(t)
	warehouse.RetryNow(t)
	warehouse.WaitQuiet(t)
	is.Equal(sold(t, table), 200)
	is.True(loaded.Len() > 1)
}
