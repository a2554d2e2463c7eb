package main

import (
	"strings"
	"testing"

	"github.com/matryer/is"
	"go.uber.org/goleak"

	"github.com/orionjs/orion-go/pulse/pulsetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestLedger_4_9_BalancesAreThoseOfTheOrder(t *testing.T) {
	is := is.New(t)
	var out strings.Builder
	is.NoErr(run(t.Context(), pulsetest.URI(t), pulsetest.Database(t).Name(), &out))
	is.Equal(out.String(), `60 movements were booked, one after the other.
anna   21 entries, 7.00 EUR
berta  21 entries, 7.00 EUR
carl   18 entries, 6.00 EUR
`)
}

func TestLedger_WithoutADatabaseSaysHowToGetOne(t *testing.T) {
	is := is.New(t)
	err := run(t.Context(), "", "x", &strings.Builder{})
	is.True(err != nil && strings.Contains(err.Error(), "pulse dev -- go run ./examples/ledger"))
}
