package main

import (
	"strings"
	"testing"

	"github.com/matryer/is"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.uber.org/goleak"

	"github.com/orionjs/orion-go/echoes"
	"github.com/orionjs/orion-go/pulse/pulsetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestFanout_2_8_EveryGroupGetsEveryEvent(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	var out strings.Builder
	is.NoErr(run(t.Context(), pulsetest.URI(t), pulsetest.Database(t).Name(), &out))
	is.Equal(out.String(), `Shipping is closed.
  billing    120 orders, 1200 EUR
  shipping     0 orders, 0 EUR
Shipping has opened.
  billing    120 orders, 1200 EUR
  shipping   120 orders, 1200 EUR
Statistics are new, and begin with the oldest order.
  statistics 120 orders, 1200 EUR
`)
}

func started(t *testing.T, db *mongo.Database, group string, services ...echoes.Service) *echoes.App {
	t.Helper()
	app, err := start(t.Context(), db, group, services...)
	is.New(t).NoErr(err)
	t.Cleanup(func() { stop(app) })
	return app
}

// The retries of one group are no business of another's.
func TestFanout_AClosedGroupHoldsUpNobody(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	db := pulsetest.Database(t)
	billing, shipping := &Billing{}, &Shipping{closed: true}
	started(t, db, "billing", billing)
	started(t, db, "shipping", shipping)
	shop := started(t, db, "shop")
	for _, number := range []string{"1", "2", "3"} {
		_, err := PublishOrder(t.Context(), shop, Order{Number: number, Cents: 100})
		is.NoErr(err)
	}
	pulsetest.Group{DB: db, Name: "billing"}.WaitQuiet(t)
	n, cents := billing.sum()
	is.Equal([]int64{int64(n), cents}, []int64{3, 300})

	group := pulsetest.Group{DB: db, Name: "shipping"}
	is.Equal(group.RetryNow(t), 3) // still closed: all three wait again
	shipping.setClosed(false)
	for group.RetryNow(t) > 0 {
	}
	n, _ = shipping.sum()
	is.Equal(n, 3)
}
