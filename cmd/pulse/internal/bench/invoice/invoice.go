// Package invoice is a payload of the size that is usual, with generated code that decodes it.
package invoice

import (
	"context"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/orionjs/orion-go/echoes"
)

//go:generate go run github.com/orionjs/orion-go/cmd/echoesgen

// Invoice has what most payloads have: texts, numbers, times, lists, and documents within.
type Invoice struct {
	Number   string            `bson:"number"`
	IssuedAt time.Time         `bson:"issuedAt"`
	Customer Customer          `bson:"customer"`
	Lines    []Line            `bson:"lines"`
	Labels   map[string]string `bson:"labels"`
	Total    float64           `bson:"total"`
	Paid     bool              `bson:"paid"`
	Note     *string           `bson:"note"`
}

// Customer is who has to pay it.
type Customer struct {
	ID      string   `bson:"id"`
	Name    string   `bson:"name"`
	Email   string   `bson:"email"`
	Address []string `bson:"address"`
}

// Line is one thing that was sold.
type Line struct {
	SKU      string  `bson:"sku"`
	Text     string  `bson:"text"`
	Quantity int32   `bson:"quantity"`
	Price    float64 `bson:"price"`
}

// Service has the code generated.
type Service struct{}

//echoes:event topic=bench.invoice
func (Service) Issued(context.Context, Invoice) error { return nil }

// Decode decodes an invoice with the generated code.
func Decode(v bson.RawValue) (Invoice, error) { return echoes.DecodeParams(v, decodeInvoice) }

// Sample is an invoice of ten lines.
func Sample() Invoice {
	i := Invoice{
		Number: "2026-000815", IssuedAt: time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC), Total: 1234.5,
		Customer: Customer{ID: "c-4711", Name: "Example Trading", Email: "billing@example.com", Address: []string{"Long Street 1", "12345 Town"}},
		Labels:   map[string]string{"region": "north", "channel": "web"},
	}
	for n := range 10 {
		i.Lines = append(i.Lines, Line{SKU: fmt.Sprintf("sku-%04d", n), Text: "a thing that somebody has ordered", Quantity: int32(n + 1), Price: 9.95})
	}
	return i
}
