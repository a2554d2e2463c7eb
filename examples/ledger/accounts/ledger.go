package accounts

import (
	"context"
	"errors"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// Entry is what became of a movement. The entries are the inbox as well: one for each event, under its ID.
type Entry struct {
	EventID string `bson:"_id"`
	Account string `bson:"account"`
	// Number counts the entries of the account, from 1.
	Number int   `bson:"number"`
	Cents  int64 `bson:"cents"`
	// Balance is the account's after the movement. A movement that it does not cover is Refused, and changes nothing.
	Balance int64 `bson:"balance"`
	Refused bool  `bson:"refused,omitempty"`
}

// Ledger keeps entries and balances in two collections.
type Ledger struct {
	client            *mongo.Client
	entries, balances *mongo.Collection
}

// OpenLedger returns the ledger in db. The unique index has two entries of one number refused: what is booked in
// order has none, so it guards against a mistake of ours.
func OpenLedger(ctx context.Context, db *mongo.Database) (*Ledger, error) {
	l := &Ledger{client: db.Client(), entries: db.Collection("entries"), balances: db.Collection("balances")}
	_, err := l.entries.Indexes().CreateOne(ctx, mongo.IndexModel{
		Keys:    bson.D{{Key: "account", Value: 1}, {Key: "number", Value: 1}},
		Options: options.Index().SetUnique(true),
	})
	if err != nil {
		return nil, fmt.Errorf("create the index of the entries: %w", err)
	}
	return l, nil
}

// Book books a movement, or returns the entry of an event that was booked before. The balance is changed and the
// entry stored in one transaction: there is no balance without its entry, so a repetition always shows.
func (l *Ledger) Book(ctx context.Context, eventID, account string, cents int64) (Entry, error) {
	session, err := l.client.StartSession()
	if err != nil {
		return Entry{}, err
	}
	defer session.EndSession(context.WithoutCancel(ctx))
	result, err := session.WithTransaction(ctx, func(ctx context.Context) (any, error) {
		var entry Entry
		err := l.entries.FindOne(ctx, bson.D{{Key: "_id", Value: eventID}}).Decode(&entry)
		if !errors.Is(err, mongo.ErrNoDocuments) {
			return entry, err
		}
		return l.book(ctx, Entry{EventID: eventID, Account: account, Cents: cents})
	})
	entry, _ := result.(Entry)
	return entry, err
}

func (l *Ledger) book(ctx context.Context, entry Entry) (Entry, error) {
	var now struct{ Number, Cents int64 }
	err := l.balances.FindOne(ctx, bson.D{{Key: "_id", Value: entry.Account}}).Decode(&now)
	if err != nil && !errors.Is(err, mongo.ErrNoDocuments) {
		return Entry{}, err
	}
	entry.Number, entry.Balance = int(now.Number)+1, now.Cents+entry.Cents
	if entry.Balance < 0 {
		entry.Balance, entry.Refused = now.Cents, true
	}
	_, err = l.balances.UpdateByID(ctx, entry.Account,
		bson.D{{Key: "$set", Value: bson.D{{Key: "number", Value: entry.Number}, {Key: "cents", Value: entry.Balance}}}},
		options.UpdateOne().SetUpsert(true))
	if err != nil {
		return Entry{}, err
	}
	_, err = l.entries.InsertOne(ctx, entry)
	return entry, err
}

// Entries returns the entries of an account, in the order of their booking.
func (l *Ledger) Entries(ctx context.Context, account string) ([]Entry, error) {
	cursor, err := l.entries.Find(ctx, bson.D{{Key: "account", Value: account}}, options.Find().SetSort(bson.D{{Key: "number", Value: 1}}))
	if err != nil {
		return nil, err
	}
	var entries []Entry
	err = cursor.All(ctx, &entries)
	return entries, err
}

// Balance returns the balance of an account in cents.
func (l *Ledger) Balance(ctx context.Context, account string) (int64, error) {
	var now struct{ Cents int64 }
	err := l.balances.FindOne(ctx, bson.D{{Key: "_id", Value: account}}).Decode(&now)
	if errors.Is(err, mongo.ErrNoDocuments) {
		return 0, nil
	}
	return now.Cents, err
}
