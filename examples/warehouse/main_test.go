package main

import (
	"strings"
	"testing"

	"github.com/matryer/is"
	"go.uber.org/goleak"

	"github.com/orionjs/orion-go/pulse/pulsetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestWarehouse_3_3_LoadsABacklogInFullBatches(t *testing.T) {
	is := is.New(t)
	var out strings.Builder
	is.NoErr(run(t.Context(), pulsetest.URI(t), pulsetest.Database(t).Name(), &out))
	is.Equal(out.String(), `2000 sales were recorded while the loader was down.
They were loaded with 20 statements.
2026-03-02  Harbour  960 sold, 2400.00 EUR
2026-03-03  Harbour  1039 sold, 2597.50 EUR
2026-03-02  Market  960 sold, 2400.00 EUR
2026-03-03  Market  1040 sold, 2600.00 EUR
`)
}

func TestWarehouse_WithoutADatabaseSaysHowToGetOne(t *testing.T) {
	is := is.New(t)
	err := run(t.Context(), "", "x", &strings.Builder{})
	is.True(err != nil && strings.Contains(err.Error(), "pulse dev -- go run ./examples/warehouse"))
}
