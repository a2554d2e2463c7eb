package main

import (
	"context"
	"errors"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/orionjs/orion-go/pulse"
)

// OrderPlaced is the payload of the event.
type OrderPlaced struct {
	Order   string `bson:"order"`
	Article string `bson:"article"`
}

var orderPlaced = pulse.NewTopic[OrderPlaced]("order.placed")

var errSoldOut = errors.New("sold out")

type shop struct {
	db     *mongo.Database
	events *pulse.Client
}

func openShop(ctx context.Context, db *mongo.Database, events *pulse.Client, articles, stock int) (*shop, error) {
	for i := range articles {
		article := bson.D{{Key: "_id", Value: fmt.Sprint("article-", i)}, {Key: "left", Value: stock}}
		if _, err := db.Collection("stock").InsertOne(ctx, article); err != nil {
			return nil, err
		}
	}
	// Older servers do not create collections inside a transaction.
	for _, name := range []string{"orders", "shipments"} {
		if err := db.CreateCollection(ctx, name); err != nil {
			return nil, err
		}
	}
	return &shop{db: db, events: events}, nil
}

// place takes one article from the stock, stores the order and publishes its event: all of it or nothing.
func (s *shop) place(ctx context.Context, order, article string) error {
	return inTransaction(ctx, s.db.Client(), func(ctx context.Context) error {
		left, err := s.db.Collection("stock").UpdateOne(ctx,
			bson.D{{Key: "_id", Value: article}, {Key: "left", Value: bson.D{{Key: "$gt", Value: 0}}}},
			bson.D{{Key: "$inc", Value: bson.D{{Key: "left", Value: -1}}}})
		if err != nil {
			return err
		}
		if _, err := s.db.Collection("orders").InsertOne(ctx, bson.D{{Key: "_id", Value: order}, {Key: "article", Value: article}}); err != nil {
			return err
		}
		// With the callback's context the event is part of the transaction.
		if _, err := orderPlaced.Publish(ctx, s.events, OrderPlaced{Order: order, Article: article}); err != nil {
			return err
		}
		if left.ModifiedCount == 0 {
			return errSoldOut // the order and its event are rolled back
		}
		return nil
	})
}

type shipping struct {
	db      *mongo.Database
	shipped chan struct{}
}

// ship handles the event. The shipment has the event's ID, so that an event that comes again finds it; what
// else is written stands in the same transaction.
func (s *shipping) ship(ctx context.Context, event *pulse.Event[OrderPlaced]) error {
	err := inTransaction(ctx, s.db.Client(), func(ctx context.Context) error {
		if _, err := s.db.Collection("shipments").InsertOne(ctx, bson.D{{Key: "_id", Value: event.ID}, {Key: "order", Value: event.Data.Order}}); err != nil {
			return err
		}
		_, err := s.db.Collection("orders").UpdateOne(ctx,
			bson.D{{Key: "_id", Value: event.Data.Order}}, bson.D{{Key: "$set", Value: bson.D{{Key: "shipped", Value: true}}}})
		return err
	})
	if mongo.IsDuplicateKeyError(err) {
		return nil // handled before; its outcome was not stored
	}
	if err != nil {
		return fmt.Errorf("ship order %s: %w", event.Data.Order, err)
	}
	s.shipped <- struct{}{}
	return nil
}

// inTransaction runs work in a transaction, again when the server asks for that.
func inTransaction(ctx context.Context, client *mongo.Client, work func(ctx context.Context) error) error {
	session, err := client.StartSession()
	if err != nil {
		return err
	}
	defer session.EndSession(context.WithoutCancel(ctx))
	_, err = session.WithTransaction(ctx, func(ctx context.Context) (any, error) { return nil, work(ctx) })
	return err
}
