package main

import (
	"context"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/orionjs/orion-go/echoes"
)

//go:generate go tool echoesgen

// Mail is what a mail.requested event carries.
//
//echoes:topic mail.requested
type Mail struct {
	To      string `bson:"to" echoes:"required"`
	Subject string `bson:"subject"`
}

// Mails sends mails.
type Mails struct {
	Sent *mongo.Collection // stands for the mail server
	Took time.Duration     // how long it takes to send one
}

// Requested sends a mail. It looks at ctx where it waits: when the time to stop is over, ctx ends, the event is handed
// back, and another replica sends it. The event's ID is what a mail server gets as the idempotency key.
//
//echoes:event topic=mail.requested ordered=false executionVersion=2 maxConcurrency=4 offsetReset=earliest
func (m *Mails) Requested(ctx context.Context, mail echoes.Item[Mail]) error {
	took := time.NewTimer(m.Took)
	defer took.Stop()
	select {
	case <-took.C:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	_, err := m.Sent.InsertOne(ctx, bson.D{{Key: "event", Value: mail.EventID}, {Key: "to", Value: mail.Params.To}})
	if err != nil {
		return fmt.Errorf("send the mail to %s: %w", mail.Params.To, err)
	}
	return nil
}
