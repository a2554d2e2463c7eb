package store

import (
	"context"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/orionjs/orion-go/pulse/internal/delivery"
)

// MaxSubscriptions bounds how many subscriptions one look of an operator reads.
const MaxSubscriptions = 10_000

// Overview is a subscription with what only operators ask for.
type Overview struct {
	Subscription
	// Leader holds, or held, the discovery lease, Order the ordered one.
	Leader, Order Holder
	// Resumed is the end of the last pause; nil while there is one, or when there never was.
	Resumed *Pause
	// Marker is embeddedExecutionSeen: version 2 deliveries exist, or existed (spec 4.11).
	Marker               bool
	CreatedAt, UpdatedAt time.Time
}

// Holder is who holds a lease, and until when by the server's clock.
type Holder struct {
	Owner string
	Until time.Time
}

// Overviews reads the subscriptions of a group, of a topic, or all of them, by group and topic.
func (s *Store) Overviews(ctx context.Context, group, topic string) ([]Overview, error) {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	filter := bson.D{}
	if group != "" {
		filter = append(filter, bson.E{Key: "consumerGroup", Value: group})
	}
	if topic != "" {
		filter = append(filter, bson.E{Key: "topic", Value: topic})
	}
	cursor, err := s.subscriptions.Find(ctx, filter, options.Find().
		SetSort(bson.D{{Key: "consumerGroup", Value: 1}, {Key: "topic", Value: 1}}).SetLimit(MaxSubscriptions))
	subs, err := readAll(ctx, cursor, err, readOverview)
	if err != nil {
		return nil, fmt.Errorf("pulse: read the subscriptions: %w", err)
	}
	return subs, nil
}

func readOverview(raw bson.Raw) Overview {
	f := parse(raw)
	o := Overview{
		Subscription: readSubscription(raw),
		Leader:       Holder{f.str("discoveryLockOwner"), f.time("discoveryLockedUntil")},
		Order:        Holder{f.str("orderedLockOwner"), f.time("orderedLockedUntil")},
		CreatedAt:    f.time("createdAt"), UpdatedAt: f.time("updatedAt"),
		Resumed: readPause(f, "resumed"),
	}
	o.Marker, _ = f.bool("embeddedExecutionSeen")
	return o
}

// Backlog is what a subscription has not finished.
type Backlog struct {
	Undiscovered, Pending, Retrying, Processing, Failed Count
	// Expired are those of Processing whose lease has ended.
	Expired Count
	// Oldest is the publication of the oldest event that is not finished, or the later time that it was published for;
	// zero when there is none.
	Oldest time.Time
	// OldestRetry is since when the retry waits that waits longest: when the attempt before it ended.
	OldestRetry time.Time
}

// Count is a number that was counted up to a bound.
type Count struct {
	N int
	// AtLeast tells that there may be more.
	AtLeast bool
}

func (c *Count) add(n int, more bool) {
	c.N += n
	c.AtLeast = c.AtLeast || more
}

// backlogChunk is how many subscriptions one command counts for.
const backlogChunk = 10

// Backlogs counts what each of the subscriptions has not finished, up to limit of each kind: one command for ten
// subscriptions. Each count is one range of an index.
func (s *Store) Backlogs(ctx context.Context, subs []Overview, limit int) ([]Backlog, error) {
	backlogs := make([]Backlog, len(subs))
	for from := 0; from < len(subs); from += backlogChunk {
		to := min(from+backlogChunk, len(subs))
		if err := s.backlogs(ctx, subs[from:to], limit, backlogs[from:to]); err != nil {
			return nil, fmt.Errorf("pulse: count the backlog of %d subscriptions: %w", to-from, err)
		}
	}
	return backlogs, nil
}

func (s *Store) backlogs(ctx context.Context, subs []Overview, limit int, into []Backlog) error {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	var pipeline mongo.Pipeline
	for i, sub := range subs {
		for _, b := range s.backlogBranches(sub, limit) {
			b.pipeline = append(b.pipeline, bson.D{{Key: "$set", Value: bson.D{
				{Key: "at", Value: literal(int32(i))}, {Key: "kind", Value: literal(b.kind)},
			}}})
			if pipeline == nil {
				pipeline = b.pipeline // the first is one of the deliveries, which the command is sent to
				continue
			}
			pipeline = append(pipeline, bson.D{{Key: "$unionWith", Value: bson.D{{Key: "coll", Value: b.coll.Name()}, {Key: "pipeline", Value: b.pipeline}}}})
		}
	}
	cursor, err := s.deliveries.Aggregate(ctx, pipeline)
	_, err = readAll(ctx, cursor, err, func(raw bson.Raw) struct{} {
		f := parse(raw)
		if at, ok := f.int("at"); ok && at >= 0 && at < len(into) {
			into[at].add(f, limit)
		}
		return struct{}{}
	})
	return err
}

// backlogBranch is one count, or one look for the oldest, of one subscription.
type backlogBranch struct {
	kind     string
	coll     *mongo.Collection
	pipeline mongo.Pipeline
}

// The kinds of branches.
const (
	countPending    = "pending" // of version 2; with how many of them are retries
	countProcessing = "processing"
	countFailed     = "failed"
	countAttempts   = "attempts" // of version 1, pending: with how many of them are locked, and retries
	countEvents     = "events"
	oldestKind      = "oldest"
)

func (s *Store) backlogBranches(sub Overview, limit int) []backlogBranch {
	of := func(status string) bson.D {
		return bson.D{{Key: "consumerGroup", Value: sub.ConsumerGroup}, {Key: "topic", Value: sub.Topic}, {Key: "status", Value: status}}
	}
	count := func(kind string, coll *mongo.Collection, match bson.D, sums ...bson.E) backlogBranch {
		group := append(bson.D{{Key: "_id", Value: nil}, {Key: "n", Value: bson.D{{Key: "$sum", Value: 1}}}}, sums...)
		return backlogBranch{kind, coll, mongo.Pipeline{
			{{Key: "$match", Value: match}}, {{Key: "$limit", Value: limit + 1}}, {{Key: "$group", Value: group}},
		}}
	}
	oldest := func(coll *mongo.Collection, match bson.D, sort bson.D, date any) backlogBranch {
		return backlogBranch{oldestKind, coll, mongo.Pipeline{
			{{Key: "$match", Value: match}},
			{{Key: "$sort", Value: sort}},
			{{Key: "$limit", Value: 1}},
			{{Key: "$project", Value: bson.D{{Key: "_id", Value: 0}, {Key: "date", Value: date}}}},
		}}
	}
	sumIf := func(name string, condition bson.D) bson.E {
		return bson.E{Key: name, Value: bson.D{{Key: "$sum", Value: bson.D{{Key: "$cond", Value: bson.A{condition, 1, 0}}}}}}
	}
	longest := func(condition bson.D, since string) bson.E {
		return bson.E{Key: "oldestRetry", Value: bson.D{{Key: "$min", Value: bson.D{{Key: "$cond", Value: bson.A{condition, since, nil}}}}}}
	}
	retried := bson.D{{Key: "$gt", Value: bson.A{"$attempt", 0}}}
	locked := bson.D{{Key: "$gt", Value: bson.A{"$lockToken", nil}}}
	repeated := bson.D{{Key: "$and", Value: bson.A{
		bson.D{{Key: "$lte", Value: bson.A{"$lockToken", nil}}}, bson.D{{Key: "$gt", Value: bson.A{"$attempt", 1}}},
	}}}
	behind := bson.D{{Key: "topic", Value: sub.Topic}, {Key: "sequence", Value: bson.D{{Key: "$gt", Value: sub.Cursor.Sequence}}}}
	published := bson.D{{Key: "$max", Value: bson.A{"$createdAt", "$notBefore"}}} // no event is late before its time
	inOrder := bson.D{{Key: "eventSequence", Value: 1}, {Key: "eventId", Value: 1}}
	over := bson.D{{Key: "$lt", Value: bson.A{"$lockedUntil", literal(s.Now())}}} // or it has none
	v2Pending, v2Processing := of(delivery.StatusPending), of(delivery.StatusProcessing)
	return []backlogBranch{
		count(countPending, s.deliveries, v2Pending, sumIf("retries", retried), longest(retried, "$attemptCreatedAt")),
		count(countProcessing, s.deliveries, v2Processing, sumIf("expired", over)),
		count(countFailed, s.deliveries, of(delivery.StatusError)),
		count(countFailed, s.deliveries, of(delivery.StatusV1Error)),
		count(countAttempts, s.history, of(delivery.StatusV1Pending), sumIf("locked", locked), sumIf("retries", repeated), longest(repeated, "$createdAt"),
			sumIf("expired", bson.D{{Key: "$and", Value: bson.A{locked, over}}})),
		count(countEvents, s.events, behind),
		oldest(s.deliveries, v2Pending, inOrder, "$eventCreatedAt"),
		oldest(s.deliveries, v2Processing, inOrder, "$eventCreatedAt"),
		oldest(s.deliveries, of(delivery.StatusV1Pending), inOrder, "$eventCreatedAt"),
		oldest(s.events, behind, bySequence(1), published),
	}
}

// add takes the answer of one branch, which looked at one document more than the limit: a branch that found it has
// counted a part of each kind.
func (b *Backlog) add(f fields, limit int) {
	n, _ := f.int("n")
	retries, _ := f.int("retries")
	locked, _ := f.int("locked")
	if since := f.time("oldestRetry"); !since.IsZero() && (b.OldestRetry.IsZero() || since.Before(b.OldestRetry)) {
		b.OldestRetry = since
	}
	expired, _ := f.int("expired")
	more := n > limit
	b.Expired.add(expired, more && f.has("expired"))
	switch first := n - retries - locked; f.str("kind") {
	case countPending:
		b.Pending.add(first, more)
		b.Retrying.add(retries, more)
	case countProcessing:
		b.Processing.add(n, more)
	case countFailed:
		b.Failed.add(n, more)
	case countAttempts:
		b.Pending.add(first, more)
		b.Retrying.add(retries, more)
		b.Processing.add(locked, more)
	case countEvents:
		b.Undiscovered.add(n, more)
	case oldestKind:
		if date := f.time("date"); !date.IsZero() && (b.Oldest.IsZero() || date.Before(b.Oldest)) {
			b.Oldest = date
		}
	}
}
