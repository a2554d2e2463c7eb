package main

import (
	"strings"
	"testing"

	"github.com/matryer/is"
	"go.uber.org/goleak"

	"github.com/orionjs/orion-go/echoes/echoestest"
	"github.com/orionjs/orion-go/pulse/pulsetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A handler with an event, as it is called by the service, and without a database.
func TestOrders_Placed(t *testing.T) {
	is := is.New(t)
	var out strings.Builder
	app := echoestest.New(t, &Orders{Out: &out, Handled: make(chan string, 1)})

	err := echoestest.Handle(t, app, TopicOrder, Order{Number: "7", Cents: 1205})

	is.NoErr(err)
	is.Equal(out.String(), "order 7 over 12.05 EUR\n")
}

// The whole service with a database of its own.
func TestRun(t *testing.T) {
	is := is.New(t)
	db := pulsetest.Database(t)
	var out strings.Builder
	is.NoErr(run(t.Context(), pulsetest.URI(t), db.Name(), &out))
	is.Equal(out.String(), "order A-1 over 19.99 EUR\norder A-2 over 19.99 EUR\norder A-3 over 19.99 EUR\n")
	pulsetest.Group{DB: db, Name: "orders"}.WaitQuiet(t)
}

func TestRun_SaysHowToGetADatabase(t *testing.T) {
	err := run(t.Context(), "", "x", &strings.Builder{})
	is.New(t).True(err != nil && strings.Contains(err.Error(), "pulse dev -- go run ./examples/quickstart"))
}
