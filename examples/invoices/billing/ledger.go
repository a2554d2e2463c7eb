package billing

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// The kinds of entries.
const (
	Invoiced = "invoiced"
	Paid     = "paid"
)

// Entry is one booking in the ledger. Amount is what the customer owes more, or less, by it.
type Entry struct {
	EventID string    `bson:"eventId"`
	Invoice string    `bson:"invoice"`
	Kind    string    `bson:"kind"`
	Amount  Cents     `bson:"amount"`
	At      time.Time `bson:"at"`
}

// Ledger is the data of this service, in collections of its own.
type Ledger struct {
	entries *mongo.Collection
	views   *mongo.Collection
}

// OpenLedger returns the ledger in db. It creates the unique index on eventId, which is what makes booking
// the same event twice harmless.
func OpenLedger(ctx context.Context, db *mongo.Database) (*Ledger, error) {
	l := &Ledger{entries: db.Collection("ledger"), views: db.Collection("views")}
	_, err := l.entries.Indexes().CreateOne(ctx, mongo.IndexModel{
		Keys:    bson.D{{Key: "eventId", Value: 1}},
		Options: options.Index().SetUnique(true),
	})
	if err != nil {
		return nil, fmt.Errorf("create the ledger's index: %w", err)
	}
	return l, nil
}

// Book stores entries. Those whose event was booked before are left as they are.
func (l *Ledger) Book(ctx context.Context, entries ...Entry) error {
	// Unordered: an entry that is there already does not keep the others from being stored.
	_, err := l.entries.InsertMany(ctx, entries, options.InsertMany().SetOrdered(false))
	if onlyDuplicates(err) {
		return nil
	}
	return err
}

// onlyDuplicates reports whether nothing went wrong but entries that were there already.
func onlyDuplicates(err error) bool {
	var bulk mongo.BulkWriteException
	if !errors.As(err, &bulk) || bulk.WriteConcernError != nil {
		return false
	}
	for _, e := range bulk.WriteErrors {
		if !mongo.IsDuplicateKeyError(e) {
			return false
		}
	}
	return true
}

// Seen notes that an invoice was looked at, unless a later look is known.
func (l *Ledger) Seen(ctx context.Context, invoice string, at time.Time) error {
	_, err := l.views.UpdateByID(ctx, invoice, bson.D{{Key: "$max", Value: bson.D{{Key: "at", Value: at}}}}, options.UpdateOne().SetUpsert(true))
	return err
}

// Balance is the sum of the ledger's entries of a kind, and how many there are.
type Balance struct {
	Entries int   `bson:"entries"`
	Amount  Cents `bson:"amount"`
}

// Balances sums the ledger up by kind.
func (l *Ledger) Balances(ctx context.Context) (map[string]Balance, error) {
	cursor, err := l.entries.Aggregate(ctx, mongo.Pipeline{{{Key: "$group", Value: bson.D{
		{Key: "_id", Value: "$kind"},
		{Key: "entries", Value: bson.D{{Key: "$sum", Value: 1}}},
		{Key: "amount", Value: bson.D{{Key: "$sum", Value: "$amount"}}},
	}}}})
	if err != nil {
		return nil, err
	}
	var groups []struct {
		Kind    string `bson:"_id"`
		Balance `bson:",inline"`
	}
	if err := cursor.All(ctx, &groups); err != nil {
		return nil, err
	}
	balances := map[string]Balance{}
	for _, g := range groups {
		balances[g.Kind] = g.Balance
	}
	return balances, nil
}
