package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/orionjs/orion-go/pulse"
)

// order is what a customer sends.
type order struct {
	ID      string `bson:"id" json:"id"`
	Article string `bson:"article" json:"article"`
	Cents   int64  `bson:"cents" json:"cents"`
}

var (
	orderPlaced   = pulse.NewTopic[order]("order.placed")
	receiptWanted = pulse.NewTopic[order]("receipt.wanted")
)

// takeOrders publishes what it gets. The request's context brings the trace along: nothing here knows of it.
func takeOrders(client *pulse.Client) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var o order
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<16)).Decode(&o); err != nil || o.ID == "" {
			http.Error(w, "an order is {\"id\": text, \"article\": text, \"cents\": number}", http.StatusBadRequest)
			return
		}
		if _, err := orderPlaced.Publish(r.Context(), client, o, pulse.WithID(o.ID)); err != nil {
			http.Error(w, "the order was not taken, send it again", http.StatusServiceUnavailable)
			return
		}
		w.WriteHeader(http.StatusAccepted)
	})
}

// warehouse keeps the table of sales.
type warehouse struct {
	client *pulse.Client
	table  *mongo.Collection
	tracer trace.Tracer
}

// load writes a batch with one insert, in which orders that were loaded before are passed over, and asks for the
// receipts. The trace goes on through both: of the batch, which links to the requests.
func (w *warehouse) load(ctx context.Context, events []*pulse.Event[order]) error {
	insert, span := w.tracer.Start(ctx, "load sales", trace.WithAttributes(attribute.Int("rows", len(events))))
	defer span.End()
	rows := make([]any, len(events))
	receipts := make([]pulse.Message[order], len(events))
	for i, e := range events {
		rows[i] = map[string]any{"_id": e.ID, "article": e.Data.Article, "cents": e.Data.Cents}
		receipts[i] = pulse.Message[order]{ID: "receipt " + e.ID, Data: e.Data}
	}
	_, err := w.table.InsertMany(insert, rows, options.InsertMany().SetOrdered(false))
	if err != nil && !mongo.IsDuplicateKeyError(err) {
		return err
	}
	_, err = receiptWanted.PublishMany(insert, w.client, receipts)
	return err
}

var errNoPrice = errors.New("an order without a price has no receipt")

// receipt sends a receipt, or would.
func (w *warehouse) receipt(_ context.Context, e *pulse.Event[order]) error {
	switch {
	case e.Data.Cents < 0:
		return pulse.Permanent(fmt.Errorf("order %s: %w", e.Data.ID, errNoPrice))
	case e.Data.Article == "flaky" && e.Attempt == 1:
		return errors.New("the printer is out of paper")
	}
	return nil
}
