package audit

import (
	"context"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// Entries reads the record of a database.
func Entries(ctx context.Context, db *mongo.Database) ([]Entry, error) {
	var entries []Entry
	cursor, err := db.Collection(Collection).Find(ctx, bson.D{})
	if err == nil {
		err = cursor.All(ctx, &entries)
	}
	if err != nil {
		return nil, fmt.Errorf("read the record of the handlers' calls: %w", err)
	}
	return entries, nil
}

// State is how a group's deliveries stand in the database.
type State struct {
	// Waiting are pending deliveries and attempts, Locked those of them that are claimed; both formats.
	Waiting, Locked int
	// Failed are deliveries that ended with an error.
	Failed int
	// Unstamped are events of committed transactions that nobody has noticed.
	Unstamped int
}

// Idle tells whether nothing is left to do.
func (s State) Idle() bool { return s.Waiting == 0 && s.Locked == 0 && s.Unstamped == 0 }

// ReadState reads how the deliveries of a group stand, or of all groups when it is empty.
func ReadState(ctx context.Context, db *mongo.Database, prefix, group string) (State, error) {
	var s State
	var failure error
	count := func(collection string, statuses []string, more ...bson.E) int {
		filter := bson.D{{Key: "status", Value: bson.D{{Key: "$in", Value: statuses}}}}
		if group != "" {
			filter = append(bson.D{{Key: "consumerGroup", Value: group}}, filter...)
		}
		n, err := db.Collection(prefix+collection).CountDocuments(ctx, append(filter, more...))
		if err != nil && failure == nil {
			failure = fmt.Errorf("count %s%s: %w", prefix, collection, err)
		}
		return int(n)
	}
	locked := bson.E{Key: "lockToken", Value: bson.D{{Key: "$type", Value: "string"}}}
	processing := count(".deliveries", []string{"v2-processing"})
	s.Waiting = processing + count(".deliveries", []string{"v2-pending", "pending"})
	s.Locked = processing + count(".history", []string{"pending"}, locked)
	s.Failed = count(".deliveries", []string{"v2-error", "error"})
	if failure != nil {
		return s, failure
	}
	n, err := db.Collection(prefix+".events").CountDocuments(ctx, bson.D{{Key: "topic", Value: nil}, {Key: "sequence", Value: nil}})
	if err != nil {
		return s, fmt.Errorf("count the events that wait for their commit to be noticed: %w", err)
	}
	s.Unstamped = int(n)
	return s, nil
}
