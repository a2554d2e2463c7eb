// Package accounts keeps the balances of accounts from the events about them.
package accounts

import (
	"context"
	"fmt"

	"github.com/orionjs/orion-go/echoes"
)

//go:generate go tool echoesgen

// Movement is money that goes into an account, or out of it when Cents is negative.
//
//echoes:topic account.moved
type Movement struct {
	Account string `bson:"account" echoes:"required"`
	Cents   int64  `bson:"cents"`
}

// Accounts handles movements.
type Accounts struct {
	Ledger *Ledger
	// Booked, when not nil, is told of each booking, a repeated one included.
	Booked func(Entry)
}

// Moved books a movement. Whether money may leave an account depends on what came in before, so movements are
// booked one at a time, over all replicas, in the order of their publication. That is what a topic is by default;
// it is written out here because everything rests on it. While one waits for its retry, those behind it wait too.
//
//echoes:event topic=account.moved ordered=true maxRetries=20 offsetReset=earliest
func (a *Accounts) Moved(ctx context.Context, movement echoes.Item[Movement]) error {
	m := movement.Params
	entry, err := a.Ledger.Book(ctx, movement.EventID, m.Account, m.Cents)
	if err != nil {
		return fmt.Errorf("book %d cents on account %s: %w", m.Cents, m.Account, err)
	}
	if a.Booked != nil {
		a.Booked(entry)
	}
	return nil
}
