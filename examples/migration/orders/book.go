package orders

import (
	"context"
	"fmt"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// Entry is a booked order.
type Entry struct {
	EventID   string `bson:"eventId"`
	Amount    int64  `bson:"amount"`
	Transport string `bson:"transport"`
	Attempt   int    `bson:"attempt"`
	Replica   string `bson:"replica"`
}

// Book is where orders are booked.
type Book struct {
	entries *mongo.Collection
	repeats *mongo.Collection // events that were booked before, when they came again
}

// OpenBook returns the book in db. It creates the unique index on eventId: of two replicas that handle the same
// event at once, only one books it.
func OpenBook(ctx context.Context, db *mongo.Database) (*Book, error) {
	b := &Book{entries: db.Collection("entries"), repeats: db.Collection("repeats")}
	_, err := b.entries.Indexes().CreateOne(ctx, mongo.IndexModel{
		Keys:    bson.D{{Key: "eventId", Value: 1}},
		Options: options.Index().SetUnique(true),
	})
	if err != nil {
		return nil, fmt.Errorf("create the book's index: %w", err)
	}
	return b, nil
}

// Add books an order unless its event is booked.
func (b *Book) Add(ctx context.Context, e Entry) error {
	_, err := b.entries.InsertOne(ctx, e)
	if mongo.IsDuplicateKeyError(err) {
		_, err = b.repeats.InsertOne(ctx, e) // for the demo to tell of
	}
	if err != nil {
		return fmt.Errorf("book %s: %w", e.EventID, err)
	}
	return nil
}

// Missing returns those of the events that are not booked.
func (b *Book) Missing(ctx context.Context, eventIDs []string) ([]string, error) {
	booked := map[string]bool{}
	for ids := range slices.Chunk(eventIDs, 1000) {
		entries, err := all(ctx, b.entries, bson.D{{Key: "eventId", Value: bson.D{{Key: "$in", Value: ids}}}})
		if err != nil {
			return eventIDs, err
		}
		for _, e := range entries {
			booked[e.EventID] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(eventIDs), func(id string) bool { return booked[id] }), nil
}

// Entries returns all entries.
func (b *Book) Entries(ctx context.Context) ([]Entry, error) { return all(ctx, b.entries, bson.D{}) }

// Repeats returns what came again and was not booked again.
func (b *Book) Repeats(ctx context.Context) ([]Entry, error) { return all(ctx, b.repeats, bson.D{}) }

func all(ctx context.Context, c *mongo.Collection, filter bson.D) ([]Entry, error) {
	cursor, err := c.Find(ctx, filter)
	if err != nil {
		return nil, err
	}
	var entries []Entry
	return entries, cursor.All(ctx, &entries)
}
