package bench

import (
	"context"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/orionjs/orion-go/cmd/pulse/internal/fleet"
)

// follow takes each event from a change stream, stores a delivery for it that is claimed already, and completes it
// behind the time that is measured: whoever stores who handles an event before it is handled has at least the stream
// and this one write in front of the handler.
func (f floor) follow(ctx context.Context, events, deliveries *mongo.Collection, m *fleet.Member, report *measured) error {
	stream, err := events.Watch(ctx, mongo.Pipeline{{{Key: "$match", Value: bson.D{{Key: "operationType", Value: "insert"}}}}},
		options.ChangeStream().SetMaxAwaitTime(time.Second))
	if err != nil {
		return err
	}
	defer func() { _ = stream.Close(context.WithoutCancel(ctx)) }()
	claimed := make(chan []string, f.Events)
	completing := make(chan error, 1)
	go func() {
		var err error
		for ids := range claimed {
			if err == nil {
				err = f.complete(ctx, deliveries, ids, f.Group, time.Now())
			}
		}
		completing <- err
	}()
	for done := 0; done < f.Events && err == nil; {
		var page []storedEvent
		page, err = nextPage(ctx, stream)
		if err != nil || len(page) == 0 {
			continue
		}
		docs, ids := make([]bson.D, len(page)), make([]string, len(page))
		for i := range page {
			docs[i] = append(append(f.delivery(page[i:i+1]), f.lock(f.Group, time.Now())...), bson.E{Key: "attempt", Value: 1})
			ids[i] = docs[i][0].Value.(string)
		}
		if _, err = deliveries.InsertMany(ctx, docs, options.InsertMany().SetOrdered(false)); err != nil {
			continue
		}
		now := time.Now().UnixMicro()
		for _, e := range page {
			report.Latencies = append(report.Latencies, now-e.Data.Document().Lookup("at").AsInt64())
		}
		claimed <- ids
		if done += len(page); done < f.Events { // the last ones are to be completed first
			m.Tell(fleet.Message{Handled: done})
		}
	}
	close(claimed)
	if completed := <-completing; err == nil {
		err = completed
	}
	return err
}

// nextPage waits for events and returns all that came together.
func nextPage(ctx context.Context, stream *mongo.ChangeStream) (page []storedEvent, err error) {
	for more := stream.Next(ctx); more; more = stream.RemainingBatchLength() > 0 && stream.Next(ctx) {
		var notice struct {
			Event storedEvent `bson:"fullDocument"`
		}
		if err := stream.Decode(&notice); err != nil {
			return nil, err
		}
		page = append(page, notice.Event)
	}
	return page, stream.Err()
}
