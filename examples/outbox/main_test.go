package main

import (
	"strings"
	"testing"

	"github.com/matryer/is"
	"go.uber.org/goleak"

	"github.com/orionjs/orion-go/pulse/pulsetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// 96 tries for 60 articles: 60 orders, and as many events and shipments, whatever the transactions met.
func TestOutbox_1_4_OrdersAndShipmentsAgree(t *testing.T) {
	is := is.New(t)
	var out strings.Builder
	is.NoErr(run(t.Context(), pulsetest.URI(t), pulsetest.Database(t).Name(), &out))
	is.Equal(out.String(), "60 orders placed and shipped, 36 refused: sold out\n60 orders, 60 shipments\n")
}

func TestOutbox_WithoutADatabaseSaysHowToGetOne(t *testing.T) {
	is := is.New(t)
	err := run(t.Context(), "", "x", &strings.Builder{})
	is.True(err != nil && strings.Contains(err.Error(), "pulse dev -- go run ./examples/outbox"))
}
