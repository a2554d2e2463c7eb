package sales

import (
	"context"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// Collection is a Table in MongoDB.
type Collection struct{ C *mongo.Collection }

// Load stores the rows with one command.
func (c Collection) Load(ctx context.Context, rows []Row) error {
	upserts := make([]mongo.WriteModel, len(rows))
	for i, row := range rows {
		upserts[i] = mongo.NewUpdateOneModel().
			SetFilter(bson.D{{Key: "_id", Value: row.EventID}}).
			SetUpdate(bson.D{{Key: "$setOnInsert", Value: row}}).
			SetUpsert(true)
	}
	// Not ordered: the rows have nothing to do with each other.
	_, err := c.C.BulkWrite(ctx, upserts, options.BulkWrite().SetOrdered(false))
	return err
}

// Total is what was sold on a day in a store.
type Total struct {
	Store string    `bson:"store"`
	Day   time.Time `bson:"day"`
	Sold  int       `bson:"sold"`
	Cents int64     `bson:"cents"`
}

// Totals sums the rows up, by store and day.
func (c Collection) Totals(ctx context.Context) ([]Total, error) {
	cursor, err := c.C.Aggregate(ctx, mongo.Pipeline{
		{{Key: "$group", Value: bson.D{
			{Key: "_id", Value: bson.D{{Key: "store", Value: "$store"}, {Key: "day", Value: "$day"}}},
			{Key: "store", Value: bson.D{{Key: "$first", Value: "$store"}}},
			{Key: "day", Value: bson.D{{Key: "$first", Value: "$day"}}},
			{Key: "sold", Value: bson.D{{Key: "$sum", Value: "$sold"}}},
			{Key: "cents", Value: bson.D{{Key: "$sum", Value: "$cents"}}},
		}}},
		{{Key: "$sort", Value: bson.D{{Key: "store", Value: 1}, {Key: "day", Value: 1}}}},
	})
	if err != nil {
		return nil, err
	}
	var totals []Total
	err = cursor.All(ctx, &totals)
	return totals, err
}
