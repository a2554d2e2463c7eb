package console_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// The names of the crowd are as long as people make them.
const (
	longGroup = "warehouse-replenishment-and-returns-reconciliation-eu-central"
	longTopic = "commerce.fulfilment.shipment.partially_returned_to_the_regional_distribution_centre.v2"
)

// crowdedDay fills the database with what strains a page: thirty groups of three topics with long names, a delivery whose
// error has two kilobytes and whose payload sixty, and headers without a place to break.
func crowdedDay(t *testing.T, db *mongo.Database) scenario {
	t.Helper()
	w := newWorld(t, db)
	s := scenario{db: db}
	for g := range 30 {
		group := fmt.Sprintf("%s-%02d", longGroup, g)
		for n, topic := range []string{longTopic, "invoice.created", strings.ReplaceAll(longTopic, ".", "")} {
			w.subscription(group, topic, g%7 != 3)
			if n == 1 {
				w.finished(group, topic, 2, float64(g))
			}
			for i := range g % 4 {
				w.delivery(group, topic, "v2-pending", newID(), time.Duration(i*40)*time.Minute,
					bson.E{Key: "attempt", Value: 12_345 * (g % 2)}, bson.E{Key: "nextAttemptAt", Value: w.now.Add(time.Hour)})
			}
		}
	}
	group := longGroup + "-00"
	message := "book the parcel at https://carrier.example/v2/shipments/" + strings.Repeat("0123456789abcdef", 60) + ": " + strings.Repeat("the carrier has answered that it cannot take it; ", 22)
	lines := bson.A{}
	for i := range 400 {
		lines = append(lines, bson.D{{Key: "sku", Value: fmt.Sprintf("KB-%06d", i)}, {Key: "quantity", Value: i}, {Key: "description", Value: strings.Repeat("keyboard ", 12)}})
	}
	event := w.event(longTopic, 4*time.Minute, bson.D{{Key: "token", Value: strings.Repeat("Zm9v", 700)}, {Key: "lines", Value: lines}},
		"traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "x-very-long-header-name-of-a-gateway-that-adds-its-own", strings.Repeat("eyJhbGciOi", 40))
	s.failed = w.delivery(group, longTopic, "v2-error", event, 4*time.Minute,
		bson.E{Key: "attempt", Value: 3}, bson.E{Key: "finalAttempt", Value: 3}, bson.E{Key: "error", Value: failure("handler_error", message, stack)},
		bson.E{Key: "attempts", Value: bson.A{
			w.attempt(1, 4*time.Minute, 212*time.Millisecond, "handler_error", message, stack),
			w.attempt(2, 3*time.Minute, 187*time.Millisecond, "handler_error", strings.Repeat("x", 300), ""),
			w.attempt(3, 2*time.Minute, 1034*time.Millisecond, "handler_error", message, stack),
		}})
	for i := range 9 {
		w.delivery(group, longTopic, "v2-error", w.event(longTopic, time.Duration(i)*time.Minute, bson.D{}), time.Duration(i)*time.Minute,
			bson.E{Key: "error", Value: failure("handler_error", message, stack)})
	}
	w.store()
	return s
}
