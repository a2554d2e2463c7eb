package billing

import (
	"errors"
	"fmt"
	"time"
)

// InvoiceParams is what an invoice.created event carries. The publisher may send more: fields that are not
// declared here are dropped.
//
//echoes:topic invoice.created
type InvoiceParams struct {
	Number   string    `bson:"number" echoes:"required"`
	Customer Customer  `bson:"customer"`
	Lines    []Line    `bson:"lines"`
	DueAt    time.Time `bson:"dueAt"`
	// Note is nil when the publisher sent none.
	Note *string `bson:"note"`
}

// Customer is who has to pay.
type Customer struct {
	Name    string `bson:"name"`
	Country string `bson:"country"`
}

// Line is one position of an invoice.
type Line struct {
	Text     string `bson:"text"`
	Quantity int    `bson:"quantity"`
	Price    Cents  `bson:"price"`
}

// Validate is called before publishing, where what it refuses is not stored, and after decoding. An invoice
// that it refuses then does not reach the handler; its delivery fails with this error and the path to it.
func (p InvoiceParams) Validate() error {
	if len(p.Lines) == 0 {
		return errors.New("an invoice needs at least one line")
	}
	return nil
}

// Total is the sum of the lines.
func (p InvoiceParams) Total() Cents {
	var total Cents
	for _, line := range p.Lines {
		total += line.Price * Cents(line.Quantity)
	}
	return total
}

// Payment is what an invoice.paid event carries.
//
//echoes:topic invoice.paid
type Payment struct {
	Invoice string `bson:"invoice" echoes:"required"`
	Amount  Cents  `bson:"amount"`
	Method  string `bson:"method"`
}

// View is what an invoice.viewed event carries.
//
//echoes:topic invoice.viewed
type View struct {
	Invoice string    `bson:"invoice" echoes:"required"`
	At      time.Time `bson:"at"`
}

// Cents is an amount of money.
type Cents int64

// String writes the amount with two decimals, as in 1234.50.
func (c Cents) String() string {
	sign := ""
	if c < 0 {
		sign, c = "-", -c
	}
	return fmt.Sprintf("%s%d.%02d", sign, c/100, c%100)
}
