package github

import (
	"context"

	"go.mongodb.org/mongo-driver/v2/mongo"
)

// Collection is a feed in a collection of MongoDB, a document for each activity.
type Collection struct{ *mongo.Collection }

// Add stores the activity. Its _id is the ID of the delivery: one that is handled again changes nothing.
func (c Collection) Add(ctx context.Context, a Activity) error {
	_, err := c.InsertOne(ctx, a)
	if mongo.IsDuplicateKeyError(err) {
		return nil
	}
	return err
}
