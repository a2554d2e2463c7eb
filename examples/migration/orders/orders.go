// Package orders books orders from the events about them.
package orders

import (
	"context"
	"errors"

	"github.com/orionjs/orion-go/echoes"
)

//go:generate go tool echoesgen

// TopicPlaced is the topic of new orders, on Kafka and on Pulse.
const TopicPlaced = "example.order.placed"

// Order is what an event of TopicPlaced carries.
type Order struct {
	ID     string `bson:"id" echoes:"required"`
	Amount int64  `bson:"amount"`
	// Flaky orders fail once, so that retries take part in the move.
	Flaky bool `bson:"flaky"`
}

// errFlaky is the failure of a flaky order.
var errFlaky = errors.New("this order fails at its first attempt")

// Orders is the service.
type Orders struct {
	Book *Book
	// Replica is the name of the process.
	Replica string
}

// Placed books an order, once. Its event may come more than once: after a crash, from a publisher that did not
// get an answer and published it again, and so over both transports. The event's ID is the same each time, and
// the book takes each ID once.
//
// What only Pulse can do (order, where to begin) is not said here but in the configuration: as long as the
// service consumes from Kafka alone it would be an error.
//
//echoes:event topic=example.order.placed maxRetries=5
func (s *Orders) Placed(ctx context.Context, order echoes.Item[Order]) error {
	if order.Params.Flaky && order.Attempt == 1 {
		return errFlaky
	}
	return s.Book.Add(ctx, Entry{
		EventID:   order.EventID,
		Amount:    order.Params.Amount,
		Transport: order.Transport,
		Attempt:   order.Attempt,
		Replica:   s.Replica,
	})
}
