// Package shop is the service that the tests and examples of echoestest test.
package shop

import (
	"context"
	"errors"
	"fmt"

	"github.com/orionjs/orion-go/echoes"
)

//go:generate go tool echoesgen

// Order is what an order.placed event carries.
//
//echoes:topic order.placed
type Order struct {
	Number string `bson:"number" echoes:"required"`
	Cents  int64  `bson:"cents"`
}

// Shipment is what an order.shipped event carries.
//
//echoes:topic order.shipped
type Shipment struct {
	Order string `bson:"order"`
}

// Shop ships what is ordered.
type Shop struct {
	Events echoes.Publisher
	// Counted is what Count has counted.
	Counted int64
}

// ErrNothing says that there is nothing to pay.
var ErrNothing = errors.New("nothing to pay")

// Ship ships an order, and tells of it under an ID that a repetition has too.
//
//echoes:event topic=order.placed ordered=false
func (s *Shop) Ship(ctx context.Context, order echoes.Item[Order]) error {
	if order.Params.Cents == 0 {
		return fmt.Errorf("order %s: %w", order.Params.Number, ErrNothing)
	}
	_, err := PublishShipment(ctx, s.Events, Shipment{Order: order.Params.Number}, echoes.WithID("shipment-"+order.EventID))
	return err
}

// Count counts orders, and leaves out what is none.
//
//echoes:batch topic=order.counted batchSize=3 onInvalid=skip
func (s *Shop) Count(_ context.Context, orders []echoes.Item[Order]) error {
	for _, order := range orders {
		s.Counted += order.Params.Cents
	}
	return nil
}
