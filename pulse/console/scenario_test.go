package console_test

import (
	"fmt"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// scenario is a database on an eventful day, and what tests look for in it.
type scenario struct {
	db *mongo.Database
	// failed is a delivery that failed three times, waiting one without an attempt, batch one of 120 events.
	failed, waiting, batch string
}

const secret = "4012 8888 8888 1881"

const stack = `goroutine 84 [running]:
shop/billing.(*Invoices).Created(0xc000132000, {0x1a2b3c0, 0xc0004e2000}, {{0xc00011e0c0, 0x24}})
	/src/billing/invoices.go:118 +0x1f4
shop/billing.(*Invoices).charge(...)
	/src/billing/invoices.go:143`

// eventfulDay fills the database: one topic works hard, one fails, one retries, one is behind, one is paused, one has
// lost its replicas, and some have nothing to do.
func eventfulDay(t *testing.T, db *mongo.Database) scenario {
	t.Helper()
	w := newWorld(t, db)
	s := scenario{db: db}

	w.subscription("billing", "invoice.created", true)
	w.finished("billing", "invoice.created", 24, 0.4)
	invoice := w.event("invoice.created", 4*time.Minute, bson.D{
		{Key: "invoiceId", Value: "INV-2026-004417"},
		{Key: "customer", Value: bson.D{{Key: "id", Value: bson.NewObjectID()}, {Key: "name", Value: "Ødegård & Söhne <Handels GmbH>"}}},
		{Key: "card", Value: secret},
		{Key: "lines", Value: bson.A{
			bson.D{{Key: "sku", Value: "KB-104"}, {Key: "quantity", Value: 2}, {Key: "price", Value: 79.9}},
			bson.D{{Key: "sku", Value: "CABLE-1M"}, {Key: "quantity", Value: 1}, {Key: "price", Value: 6.5}},
		}},
		{Key: "total", Value: 166.3},
		{Key: "paid", Value: false},
		{Key: "dueAt", Value: time.Date(2026, 12, 14, 0, 0, 0, 0, time.UTC)},
		{Key: "note", Value: nil},
	}, "traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
	refused := "charge invoice INV-2026-004417: the payment provider answered 402: card_declined"
	s.failed = w.delivery("billing", "invoice.created", "v2-error", invoice, 4*time.Minute,
		bson.E{Key: "attempt", Value: 3}, bson.E{Key: "finalAttempt", Value: 3},
		bson.E{Key: "error", Value: failure("handler_error", refused, stack)},
		bson.E{Key: "endedAt", Value: w.now.Add(-3*time.Minute - 40*time.Second)},
		bson.E{Key: "expiresAt", Value: w.now.Add(-3*time.Minute - 40*time.Second + week)},
		bson.E{Key: "attempts", Value: bson.A{
			w.attempt(1, 4*time.Minute-20*time.Millisecond, 212*time.Millisecond, "handler_error", "charge invoice INV-2026-004417: context deadline exceeded", ""),
			w.attempt(2, 3*time.Minute+55*time.Second, 187*time.Millisecond, "worker_lost", "the worker's lease ended: it was killed, or could not reach the database", ""),
			w.attempt(3, 3*time.Minute+41*time.Second, 1034*time.Millisecond, "handler_error", refused, stack),
		}})
	for i := range 6 {
		age := time.Duration(35+i*71) * time.Second
		id := w.event("invoice.created", age, bson.D{{Key: "invoiceId", Value: fmt.Sprintf("INV-2026-0044%02d", 20+i)}})
		w.delivery("billing", "invoice.created", "v2-error", id, age, bson.E{Key: "attempt", Value: 4},
			bson.E{Key: "error", Value: failure("handler_error", fmt.Sprintf("charge invoice INV-2026-0044%02d: the payment provider answered 503: try again later", 20+i), stack)})
	}
	id := w.event("invoice.created", 9*time.Minute, bson.D{{Key: "invoiceId", Value: 4411}})
	w.delivery("billing", "invoice.created", "v2-error", id, 9*time.Minute,
		bson.E{Key: "error", Value: failure("decode_error", "invoiceId: want string, got int32", "")})
	for i := range 3 {
		w.running("billing", "invoice.created", time.Duration(1+i)*700*time.Millisecond)
	}

	w.subscription("billing", "payment.received", true)
	w.finished("billing", "payment.received", 10, 2)

	w.subscription("warehouse", "invoice.created", true, bson.E{Key: "receiverMode", Value: "batch"}, bson.E{Key: "batchSize", Value: 120})
	ids := bson.A{}
	for i := range 120 {
		ids = append(ids, w.event("invoice.created", 50*time.Second, bson.D{{Key: "invoiceId", Value: fmt.Sprintf("INV-2026-%06d", 5000+i)}}))
	}
	s.batch = w.delivery("warehouse", "invoice.created", "v2-success", ids[119].(string), 50*time.Second,
		bson.E{Key: "eventIds", Value: ids},
		bson.E{Key: "attempts", Value: bson.A{w.attempt(1, 49*time.Second, 340*time.Millisecond, "", "", "")}})
	for i := range 9 {
		w.delivery("warehouse", "invoice.created", "v2-success", newID(), time.Duration(70+55*i)*time.Second, bson.E{Key: "eventIds", Value: make([]string, 60+7*i)})
	}

	w.subscription("shipping", "order.placed", true)
	w.finished("shipping", "order.placed", 14, 4)
	for i := range 4 {
		age := time.Duration(3+i) * time.Minute
		id := w.event("order.placed", age, bson.D{{Key: "orderId", Value: 70012 + i}})
		w.delivery("shipping", "order.placed", "v2-pending", id, age,
			bson.E{Key: "attempt", Value: 1 + i%3},
			bson.E{Key: "attemptCreatedAt", Value: w.now.Add(-age / 2)},
			bson.E{Key: "nextAttemptAt", Value: w.now.Add(time.Duration(20+30*i) * time.Second)},
			bson.E{Key: "error", Value: failure("handler_error", "book the parcel: the carrier's API answered 429", "")})
	}
	id = w.event("order.placed", 2*time.Second, bson.D{{Key: "orderId", Value: 70020}})
	s.waiting = w.delivery("shipping", "order.placed", "v2-pending", id, 2*time.Second)

	w.subscription("search", "product.changed", true, bson.E{Key: "paused", Value: bson.D{
		{Key: "by", Value: "Rosa"}, {Key: "reason", Value: "reindexing"}, {Key: "at", Value: w.now.Add(-26 * time.Minute)},
	}})
	w.subscription("search", "product.removed", true)

	w.subscription("ledger", "payment.received", true, bson.E{Key: "ordered", Value: true}, bson.E{Key: "executionVersion", Value: 1})
	w.finished("ledger", "payment.received", 10, 2)

	w.subscription("mailing", "customer.registered", false, bson.E{Key: "cursorSequence", Value: bson.Timestamp{T: uint32(w.now.Add(-3 * time.Hour).Unix()), I: 1}})
	for i := range 14 {
		w.event("customer.registered", time.Duration(5+11*i)*time.Minute, bson.D{{Key: "customerId", Value: i}})
	}
	w.subscription("audit", "customer.registered", true)
	w.store()
	return s
}

// running adds a delivery whose handler runs.
func (w *world) running(group, topic string, since time.Duration) {
	id := w.event(topic, since+50*time.Millisecond, bson.D{})
	start := w.now.Add(-since)
	w.delivery(group, topic, "v2-processing", id, since+50*time.Millisecond,
		bson.E{Key: "attempt", Value: 1},
		bson.E{Key: "startedAt", Value: start}, bson.E{Key: "lockedAt", Value: start}, bson.E{Key: "heartbeatAt", Value: start},
		bson.E{Key: "lockedUntil", Value: w.now.Add(time.Hour)},
		bson.E{Key: "lockOwner", Value: "go:billing-7d4b9c-x2k8f:1:mq3v"}, bson.E{Key: "lockToken", Value: newID()})
}
