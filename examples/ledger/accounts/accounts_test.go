package accounts_test

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
	"github.com/orionjs/orion-go/examples/ledger/accounts"
	"github.com/orionjs/orion-go/pulse"
	"github.com/orionjs/orion-go/pulse/pulsetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T, db *mongo.Database) *accounts.Ledger {
	t.Helper()
	ledger, err := accounts.OpenLedger(t.Context(), db)
	is.New(t).NoErr(err)
	return ledger
}

func start(t *testing.T, db *mongo.Database, service echoes.Service, around ...echoes.Middleware) *echoes.App {
	t.Helper()
	app, err := echoes.New(echoes.Config{
		Pulse: &echoes.Pulse{Client: db.Client(), Config: pulse.Config{
			ConsumerGroup: "ledger", Database: db.Name(), LockTimeout: 5 * time.Second,
		}},
		Middleware: around,
	}, service)
	is.New(t).NoErr(err)
	is.New(t).NoErr(app.Start(t.Context()))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		is.New(t).NoErr(app.Close(ctx))
	})
	return app
}

func move(t *testing.T, app *echoes.App, cents ...int64) {
	t.Helper()
	for _, c := range cents {
		_, err := accounts.PublishMovement(t.Context(), app, accounts.Movement{Account: "anna", Cents: c})
		is.New(t).NoErr(err)
	}
}

// cents and balances of the entries, in the order of their booking.
func booked(t *testing.T, ledger *accounts.Ledger) (cents, balances []int64) {
	t.Helper()
	entries, err := ledger.Entries(t.Context(), "anna")
	is.New(t).NoErr(err)
	for _, e := range entries {
		cents, balances = append(cents, e.Cents), append(balances, e.Balance)
	}
	return cents, balances
}

// The inbox: an event that is delivered again is booked once.
func TestAccounts_BookAnEventOnce(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	ledger := open(t, pulsetest.Database(t))
	var got []accounts.Entry
	app := echoestest.New(t, &accounts.Accounts{Ledger: ledger, Booked: func(e accounts.Entry) { got = append(got, e) }})
	deposit := echoestest.Event{Params: accounts.Movement{Account: "anna", Cents: 500}, EventContext: echoes.EventContext{EventID: "a"}}
	is.NoErr(echoestest.Handle(t, app, accounts.TopicMovement, deposit))
	is.NoErr(echoestest.Handle(t, app, accounts.TopicMovement, deposit))
	is.NoErr(echoestest.Handle(t, app, accounts.TopicMovement, accounts.Movement{Account: "anna", Cents: -700}))
	is.Equal(got, []accounts.Entry{
		{EventID: "a", Account: "anna", Number: 1, Cents: 500, Balance: 500},
		{EventID: "a", Account: "anna", Number: 1, Cents: 500, Balance: 500},
		{EventID: "event-1", Account: "anna", Number: 2, Cents: -700, Balance: 500, Refused: true},
	})
	balance, err := ledger.Balance(t.Context(), "anna")
	is.NoErr(err)
	is.Equal(balance, int64(500))
}

// A movement that fails holds up those behind it: booked before it, the withdrawal would be refused.
func TestAccounts_4_9_KeepTheOrderOverRetries(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	db := pulsetest.Database(t)
	ledger := open(t, db)
	app := start(t, db, &accounts.Accounts{Ledger: ledger}, func(ctx context.Context, call echoes.Call, next func(context.Context) error) error {
		if call.Attempt <= 2 {
			return errors.New("no connection")
		}
		return next(ctx)
	})
	move(t, app, 100, -60, 20, -60)
	group := pulsetest.Group{DB: db, Name: "ledger"}
	for group.RetryNow(t) > 0 {
	}
	cents, balances := booked(t, ledger)
	is.Equal(cents, []int64{100, -60, 20, -60})
	is.Equal(balances, []int64{100, 40, 60, 0})
}

// The process dies when a movement is booked and that is not recorded yet. The next attempt finds it in the inbox.
func TestAccounts_4_9_BookOnceAlthoughAProcessDies(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	db := pulsetest.Database(t)
	ledger := open(t, db)
	var outcomes pulsetest.Recorder[int]
	app := start(t, db, &accounts.Accounts{Ledger: ledger}, func(ctx context.Context, call echoes.Call, next func(context.Context) error) error {
		err := next(ctx)
		outcomes.Add(call.Attempt)
		if outcomes.Len() == 2 {
			<-ctx.Done()
		}
		return err
	})
	move(t, app, 100, -60, 20, -60)
	outcomes.Wait(t, 2)
	group := pulsetest.Group{DB: db, Name: "ledger"}
	group.Crash(t)
	for group.RetryNow(t) > 0 {
	}
	is.Equal(outcomes.Values(), []int{1, 1, 2, 1, 1})
	cents, balances := booked(t, ledger)
	is.Equal(cents, []int64{100, -60, 20, -60})
	is.Equal(balances, []int64{100, 40, 60, 0})
}
