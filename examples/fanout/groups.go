package main

import (
	"context"
	"errors"
	"sync"

	"github.com/orionjs/orion-go/echoes"
)

//go:generate go tool echoesgen

// Order is what an order.placed event carries. The shop that publishes it knows none of the groups below.
//
//echoes:topic order.placed
type Order struct {
	Number string `bson:"number" echoes:"required"`
	Cents  int64  `bson:"cents"`
}

// Billing writes invoices, in order, since their numbers have no holes.
type Billing struct{ book }

// Placed writes an invoice.
//
//echoes:event topic=order.placed
func (s *Billing) Placed(_ context.Context, order Order) error {
	s.note(order)
	return nil
}

// Shipping packs parcels, several at a time. It can be closed.
type Shipping struct {
	book
	closed bool
}

// Placed packs a parcel. While shipping is closed the orders wait: for this group alone, and for days if need be.
//
//echoes:event topic=order.placed ordered=false executionVersion=2 maxConcurrency=4 maxRetries=12 retryDelay=1s
func (s *Shipping) Placed(_ context.Context, order Order) error {
	if s.isClosed() {
		return errors.New("shipping is closed")
	}
	s.note(order)
	return nil
}

func (s *Shipping) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

func (s *Shipping) setClosed(closed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = closed
}

// Statistics counts orders in batches. It was thought of later than the others, and begins with the oldest event
// that is still there.
type Statistics struct{ book }

// Placed counts orders.
//
//echoes:batch topic=order.placed batchSize=50 offsetReset=earliest
func (s *Statistics) Placed(_ context.Context, orders []echoes.Item[Order]) error {
	for _, order := range orders {
		s.note(order.Params)
	}
	return nil
}

// book remembers orders. Each service keeps one of its own; a real one writes to its own database.
type book struct {
	mu     sync.Mutex
	orders map[string]int64
}

// note takes an order down. Under its number, so that one that comes again changes nothing.
func (b *book) note(order Order) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.orders == nil {
		b.orders = map[string]int64{}
	}
	b.orders[order.Number] = order.Cents
}

// sum returns how many orders there are, and over how much.
func (b *book) sum() (n int, cents int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range b.orders {
		cents += c
	}
	return len(b.orders), cents
}
