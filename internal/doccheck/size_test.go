package doccheck

import (
	"context"
	"testing"

	"github.com/matryer/is"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/orionjs/orion-go/pulse"
	"github.com/orionjs/orion-go/pulse/pulsetest"
)

// TestOperating_SizesOfDocuments measures what docs/operating.md sizes disks with: a delivery that was handled at its
// first attempt takes about 0.7 KB in version 2, and 0.3 KB in version 1, with 0.5 KB for each attempt.
func TestOperating_SizesOfDocuments(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	db := pulsetest.Database(t)
	topics := map[string][]pulse.SubscribeOption{
		"invoice.created": {pulse.Unordered(), pulse.ExecutionVersion(2)},
		"invoice.viewed":  {},
	}
	client, err := pulse.New(t.Context(), db.Client(), pulse.Config{ConsumerGroup: "billing", Database: db.Name()})
	is.NoErr(err)
	handled := make(chan struct{}, len(topics))
	for topic, opts := range topics {
		_, err := pulse.NewTopic[string](topic).Subscribe(t.Context(), client, func(context.Context, *pulse.Event[string]) error {
			handled <- struct{}{}
			return nil
		}, opts...)
		is.NoErr(err)
		_, err = pulse.NewTopic[string](topic).Publish(t.Context(), client, "paid")
		is.NoErr(err)
	}
	for range topics {
		<-handled
	}
	is.NoErr(client.Close(t.Context())) // stores the outcomes
	within := func(collection, topic string, least, most int) {
		t.Helper()
		size := sizeOf(t, db.Collection("orionjs.pulse."+collection), topic)
		if size < least || size > most {
			t.Errorf("%s, %s: %d bytes, want %d to %d: docs/operating.md sizes disks with that", collection, topic, size, least, most)
		}
	}
	within("deliveries", "invoice.created", 600, 800)
	within("deliveries", "invoice.viewed", 250, 400)
	within("history", "invoice.viewed", 400, 600)
}

// sizeOf is the size of the topic's one document.
func sizeOf(t *testing.T, c *mongo.Collection, topic string) int {
	t.Helper()
	is := is.New(t)
	cursor, err := c.Aggregate(t.Context(), mongo.Pipeline{
		{{Key: "$match", Value: bson.D{{Key: "topic", Value: topic}}}},
		{{Key: "$project", Value: bson.D{{Key: "size", Value: bson.D{{Key: "$bsonSize", Value: "$$ROOT"}}}}}},
	})
	is.NoErr(err)
	var found []struct{ Size int }
	is.NoErr(cursor.All(t.Context(), &found))
	is.Equal(len(found), 1)
	return found[0].Size
}
