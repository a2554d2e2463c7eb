package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/orionjs/orion-go/cmd/pulse/internal/fleet"
	"github.com/orionjs/orion-go/cmd/pulse/internal/load"
)

const floorRole = "bench-floor"

// floor is the order of a process that drives the server with the bare driver: the least commands that store the
// same documents, and take the same deliveries through the same states, under the same indexes. It has no leases
// to renew, no retries, no competition, it recovers from nothing and decodes nothing: what the server can do at
// most for anybody, and no way to handle events.
type floor struct {
	load.Client
	Kind        string // the scenario
	Topic       string
	Events, Pad int
	Batch       int
	// Claimers claim and complete deliveries side by side.
	Claimers int
}

// How the floor is driven. Some servers are faster with one claimer, others with several: the better one counts.
const (
	floorPage  = 1000 // events read, and deliveries inserted, at a time
	floorClaim = 250  // deliveries claimed and completed at a time
)

var floorClaimers = []int{1, 4}

func serveFloor(ctx context.Context, raw json.RawMessage, m *fleet.Member) (any, error) {
	var order floor
	if err := json.Unmarshal(raw, &order); err != nil {
		return nil, err
	}
	var watch monitor
	connections, err := watch.connect(order.URI)
	if err != nil {
		return nil, err
	}
	defer func() { _ = connections.Disconnect(context.Background()) }()
	if err := connections.Ping(ctx, nil); err != nil {
		return nil, err
	}
	if err := m.Begin(ctx); err != nil {
		return nil, err
	}
	db := connections.Database(order.Database)
	events, deliveries := db.Collection(load.Prefix+".events"), db.Collection(load.Prefix+".deliveries")
	used, report := newMeter(&watch), measured{Events: order.Events}
	switch order.Kind {
	case "publish":
		err = order.publish(ctx, events)
	case "publish-many":
		err = order.publishMany(ctx, events)
	case "latency-idle", "latency-rate":
		err = order.follow(ctx, events, deliveries, m, &report)
	default:
		err = order.consume(ctx, events, deliveries)
	}
	if err != nil {
		return nil, err
	}
	report.Last = time.Now().UnixMicro()
	used.read(&report)
	m.Tell(fleet.Message{Handled: order.Events})
	<-ctx.Done()
	return report, nil
}

func (f floor) event(n int) bson.D {
	now := time.Now()
	return bson.D{
		{Key: "_id", Value: newID()},
		{Key: "topic", Value: f.Topic},
		{Key: "data", Value: load.NewItem(n, f.Pad)},
		{Key: "publisher", Value: f.Group},
		{Key: "createdAt", Value: now},
		{Key: "sequence", Value: bson.Timestamp{}},
		{Key: "expiresAt", Value: now.Add(7 * 24 * time.Hour)},
	}
}

func newID() string { return uuid.Must(uuid.NewV7()).String() }

func (f floor) publish(ctx context.Context, events *mongo.Collection) error {
	var next atomic.Int64
	return sideBySide(f.Workers, func() error {
		for {
			n := int(next.Add(1)) - 1
			if n >= f.Events {
				return nil
			}
			if _, err := events.InsertOne(ctx, f.event(n)); err != nil {
				return err
			}
		}
	})
}

func (f floor) publishMany(ctx context.Context, events *mongo.Collection) error {
	for n := 0; n < f.Events; {
		var docs []bson.D
		for ; n < f.Events && len(docs) < load.Chunk; n++ {
			docs = append(docs, f.event(n))
		}
		if _, err := events.InsertMany(ctx, docs, options.InsertMany().SetOrdered(false)); err != nil {
			return err
		}
	}
	return nil
}

// consume makes deliveries of all events, page by page, and claims and completes those of one page while the
// next is made.
func (f floor) consume(ctx context.Context, events, deliveries *mongo.Collection) error {
	made := make(chan []string, 2*f.Claimers)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	making := make(chan struct{})
	go func() {
		defer close(making)
		defer close(made)
		if err := f.materialize(ctx, events, deliveries, made); err != nil {
			cancel(err)
		}
	}()
	err := sideBySide(f.Claimers, func() error {
		for ids := range made {
			if err := f.handle(ctx, deliveries, ids); err != nil {
				cancel(err)
				return err
			}
		}
		return nil
	})
	<-making
	return errors.Join(err, context.Cause(ctx))
}

type storedEvent struct {
	ID        string         `bson:"_id"`
	Sequence  bson.Timestamp `bson:"sequence"`
	CreatedAt time.Time      `bson:"createdAt"`
	Data      bson.RawValue  `bson:"data"`
}

func (f floor) materialize(ctx context.Context, events, deliveries *mongo.Collection, made chan<- []string) error {
	after, done := bson.Timestamp{I: 1}, 0
	for done < f.Events {
		cursor, err := events.Find(ctx,
			bson.D{{Key: "topic", Value: f.Topic}, {Key: "sequence", Value: bson.D{{Key: "$gt", Value: after}}}},
			options.Find().SetSort(bson.D{{Key: "sequence", Value: 1}, {Key: "_id", Value: 1}}).SetLimit(floorPage).SetBatchSize(floorPage+1))
		if err != nil {
			return err
		}
		var page []storedEvent
		if err := cursor.All(ctx, &page); err != nil {
			return err
		}
		if len(page) == 0 {
			return fmt.Errorf("%d of %d events were found", done, f.Events)
		}
		done += len(page)
		after = page[len(page)-1].Sequence
		var docs []bson.D
		var ids []string
		for chunk := range slices.Chunk(page, max(f.Batch, 1)) {
			doc := f.delivery(chunk)
			docs = append(docs, append(doc, pending...))
			ids = append(ids, doc[0].Value.(string))
		}
		if _, err := deliveries.InsertMany(ctx, docs, options.InsertMany().SetOrdered(false)); err != nil {
			return err
		}
		for claim := range slices.Chunk(ids, floorClaim) {
			select {
			case made <- claim:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
	}
	return nil
}

// pending is the state of a new delivery.
var pending = bson.D{{Key: "status", Value: "v2-pending"}, {Key: "attempt", Value: 0}}

// delivery is one of version 2, as Pulse stores it, but for its state.
func (f floor) delivery(events []storedEvent) bson.D {
	now, last := time.Now(), events[len(events)-1]
	doc := bson.D{{Key: "_id", Value: newID()}, {Key: "eventId", Value: last.ID}}
	if f.Batch > 0 {
		ids := make([]string, len(events))
		for i, e := range events {
			ids[i] = e.ID
		}
		doc = append(doc, bson.E{Key: "eventIds", Value: ids})
	} else {
		doc = append(doc, bson.E{Key: "executionVersion", Value: 2})
	}
	return append(doc, bson.D{
		{Key: "consumerGroup", Value: f.Group},
		{Key: "topic", Value: f.Topic},
		{Key: "eventCreatedAt", Value: last.CreatedAt},
		{Key: "eventSequence", Value: last.Sequence},
		{Key: "attemptId", Value: newID()},
		{Key: "attemptCreatedAt", Value: now},
		{Key: "nextAttemptAt", Value: now},
		{Key: "attempts", Value: bson.A{}},
		{Key: "createdAt", Value: now},
	}...)
}

func (f floor) handle(ctx context.Context, deliveries *mongo.Collection, ids []string) error {
	now, token := time.Now(), newID()
	_, err := deliveries.UpdateMany(ctx, bson.D{{Key: "_id", Value: bson.D{{Key: "$in", Value: ids}}}, {Key: "status", Value: "v2-pending"}}, bson.D{
		{Key: "$set", Value: f.lock(token, now)},
		{Key: "$inc", Value: bson.D{{Key: "attempt", Value: 1}}},
	})
	if err != nil {
		return err
	}
	return f.complete(ctx, deliveries, ids, token, now)
}

// lock is what a claim sets.
func (f floor) lock(token string, now time.Time) bson.D {
	return bson.D{
		{Key: "status", Value: "v2-processing"},
		{Key: "startedAt", Value: now},
		{Key: "lockOwner", Value: "floor"},
		{Key: "lockToken", Value: token},
		{Key: "lockedAt", Value: now},
		{Key: "lockedUntil", Value: now.Add(30 * time.Second)},
		{Key: "heartbeatAt", Value: now},
		{Key: "updatedAt", Value: now},
	}
}

func (f floor) complete(ctx context.Context, deliveries *mongo.Collection, ids []string, token string, now time.Time) error {
	var gone bson.D
	for _, field := range []string{"attemptId", "attemptCreatedAt", "nextAttemptAt", "startedAt", "lockOwner", "lockToken", "lockedAt", "lockedUntil", "heartbeatAt"} {
		gone = append(gone, bson.E{Key: field, Value: ""})
	}
	attempt := bson.D{
		{Key: "_id", Value: token},
		{Key: "attempt", Value: 1},
		{Key: "status", Value: "success"},
		{Key: "createdAt", Value: now},
		{Key: "nextAttemptAt", Value: now},
		{Key: "startedAt", Value: now},
		{Key: "lockedAt", Value: now},
		{Key: "lockedUntil", Value: now},
		{Key: "heartbeatAt", Value: now},
		{Key: "lockOwner", Value: "floor"},
		{Key: "lockToken", Value: token},
		{Key: "endedAt", Value: now},
		{Key: "durationMs", Value: 0},
	}
	_, err := deliveries.UpdateMany(ctx, bson.D{{Key: "_id", Value: bson.D{{Key: "$in", Value: ids}}}, {Key: "status", Value: "v2-processing"}, {Key: "lockToken", Value: token}}, bson.D{
		{Key: "$set", Value: bson.D{
			{Key: "status", Value: "v2-success"},
			{Key: "endedAt", Value: now},
			{Key: "finalAttempt", Value: 1},
			{Key: "expiresAt", Value: now.Add(7 * 24 * time.Hour)},
			{Key: "updatedAt", Value: now},
		}},
		{Key: "$unset", Value: gone},
		{Key: "$push", Value: bson.D{{Key: "attempts", Value: attempt}}},
	})
	return err
}

// sideBySide runs f so many times at once.
func sideBySide(n int, f func() error) error {
	errs := make([]error, n)
	var running sync.WaitGroup
	for i := range errs {
		running.Go(func() { errs[i] = f() })
	}
	running.Wait()
	return errors.Join(errs...)
}
