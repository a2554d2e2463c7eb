package main

import (
	"context"
	"fmt"
	"io"

	"github.com/orionjs/orion-go/echoes"
)

//go:generate go tool echoesgen

// Order is what an order.placed event carries. The comment below has PublishOrder generated.
//
//echoes:topic order.placed
type Order struct {
	Number string `bson:"number" echoes:"required"`
	Cents  int64  `bson:"cents"`
}

// Orders handles the events of orders.
type Orders struct {
	Out     io.Writer
	Handled chan string // gets the number of each order
}

// Placed is called for each order, in the order of their publication. When it returns an error, or the process
// dies, the order comes again: what it writes must bear that, with order.EventID as the key.
//
//echoes:event topic=order.placed offsetReset=earliest
func (s *Orders) Placed(_ context.Context, order echoes.Item[Order]) error {
	fmt.Fprintf(s.Out, "order %s over %d.%02d EUR\n", order.Params.Number, order.Params.Cents/100, order.Params.Cents%100)
	s.Handled <- order.Params.Number
	return nil
}
