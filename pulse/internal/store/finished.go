package store

import (
	"context"
	"fmt"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/orionjs/orion-go/pulse/internal/delivery"
)

// Finished counts the deliveries of a subscription that ended within one slice of time.
type Finished struct {
	ConsumerGroup, Topic string
	// Start is the begin of the slice.
	Start time.Time
	// Succeeded and Failed are deliveries, Events the events that they carried: a batch carries many.
	Succeeded, Failed, Events int
}

// FinishedQuery selects the slices.
type FinishedQuery struct {
	// Since is the begin of the first slice. It should be a multiple of Slice since the Unix epoch.
	Since time.Time
	Slice time.Duration
	// Retentions are the times for which the groups keep what has ended, as Retentions tells them, each once.
	Retentions []time.Duration
	// Limit bounds the deliveries read for each retention; the newest are taken.
	Limit int
}

// unit is how exactly retentions are told apart. It covers a client that reads the clock once for the end and
// again for the expiry.
const unit = time.Second

// ahead is how far the clock of a client that ends deliveries may be ahead of this one's.
const ahead = 10 * time.Second

// oneAnswer is a number of small documents that come without asking for more.
const oneAnswer = 10_000

// subscriptionsPerCommand keeps Retentions below the number of stages that MongoDB accepts in one pipeline.
const subscriptionsPerCommand = 100

// Finished counts what workers have ended since q.Since, by subscription and slice. The counts are whole from the
// returned time on, which is later than q.Since if there were more deliveries than the limit.
//
// No index has the end of a delivery, but a delivery is kept for a constant time after it. So the index of what
// is to be deleted, on expiresAt, is an index by end for whoever knows that time. What is kept for ever cannot be
// counted this way.
func (s *Store) Finished(ctx context.Context, q FinishedQuery) ([]Finished, time.Time, error) {
	from := q.Since
	if len(q.Retentions) == 0 {
		return nil, from, nil
	}
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	branches := make([]mongo.Pipeline, len(q.Retentions))
	for i, retention := range q.Retentions {
		branches[i] = q.branch(i, retention, s.Now())
	}
	cursor, err := s.deliveries.Aggregate(ctx, s.union(branches), options.Aggregate().SetBatchSize(oneAnswer))
	type slice struct {
		Finished
		branch, deliveries int
		oldest             time.Time
	}
	counts, err := readAll(ctx, cursor, err, func(raw bson.Raw) slice {
		f := parse(raw)
		id, _ := f["_id"].DocumentOK()
		key := parse(id)
		read := slice{Finished: Finished{ConsumerGroup: key.str("g"), Topic: key.str("t")}, oldest: f.time("oldest")}
		number, _ := key.int("s")
		read.Start = time.UnixMilli(int64(number) * q.Slice.Milliseconds()).UTC()
		read.branch, _ = key.int("r")
		read.deliveries, _ = f.int("n")
		read.Events, _ = f.int("events")
		read.Failed, _ = f.int("failed")
		read.Succeeded = read.deliveries - read.Failed
		return read
	})
	if err != nil {
		return nil, from, fmt.Errorf("pulse: count the deliveries that ended: %w", err)
	}
	total, oldest := make([]int, len(branches)), make([]time.Time, len(branches))
	out := make([]Finished, 0, len(counts))
	for _, read := range counts {
		out = append(out, read.Finished)
		total[read.branch] += read.deliveries
		if at := &oldest[read.branch]; at.IsZero() || read.oldest.Before(*at) {
			*at = read.oldest
		}
	}
	for i, n := range total {
		if n >= q.Limit && oldest[i].After(from) {
			from = oldest[i]
		}
	}
	return out, from, nil
}

// branch counts what has ended with one of the retentions.
func (q FinishedQuery) branch(number int, retention time.Duration, now time.Time) mongo.Pipeline {
	isDate := func(field string) bson.D {
		return bson.D{{Key: "$eq", Value: bson.A{bson.D{{Key: "$type", Value: field}}, "date"}}}
	}
	// The types are asked for here too: a server may evaluate this before it compares the fields.
	kept := bson.D{{Key: "$cond", Value: bson.A{
		bson.D{{Key: "$and", Value: bson.A{isDate("$endedAt"), isDate("$expiresAt")}}},
		bson.D{{Key: "$dateDiff", Value: bson.D{
			{Key: "startDate", Value: "$endedAt"}, {Key: "endDate", Value: "$expiresAt"}, {Key: "unit", Value: "millisecond"},
		}}},
		-1,
	}}}
	sliceNumber := bson.D{{Key: "$floor", Value: bson.D{{Key: "$divide", Value: bson.A{
		bson.D{{Key: "$toLong", Value: "$endedAt"}}, q.Slice.Milliseconds(),
	}}}}}
	events := bson.D{{Key: "$cond", Value: bson.A{bson.D{{Key: "$isArray", Value: "$eventIds"}}, bson.D{{Key: "$size", Value: "$eventIds"}}, 1}}}
	failed := bson.D{{Key: "$in", Value: bson.A{"$status", bson.A{delivery.StatusError, delivery.StatusV1Error}}}}
	return mongo.Pipeline{
		{{Key: "$match", Value: bson.D{
			// An index range of nothing but these, unless another retention has deliveries to delete in it.
			{Key: "expiresAt", Value: bson.D{{Key: "$gte", Value: q.Since.Add(retention - unit)}, {Key: "$lt", Value: now.Add(retention + ahead)}}},
			{Key: "endedAt", Value: bson.D{{Key: "$gte", Value: q.Since}}},
			{Key: "error.code", Value: bson.D{{Key: "$ne", Value: delivery.CodeOperatorCancelled}}}, // nobody worked on it
			{Key: "$expr", Value: bson.D{{Key: "$and", Value: bson.A{
				bson.D{{Key: "$gte", Value: bson.A{kept, (retention - unit/2).Milliseconds()}}},
				bson.D{{Key: "$lt", Value: bson.A{kept, (retention + unit/2).Milliseconds()}}},
			}}}},
		}}},
		{{Key: "$sort", Value: bson.D{{Key: "expiresAt", Value: -1}}}},
		{{Key: "$limit", Value: q.Limit}},
		{{Key: "$group", Value: bson.D{
			{Key: "_id", Value: bson.D{
				{Key: "g", Value: "$consumerGroup"}, {Key: "t", Value: "$topic"}, {Key: "s", Value: sliceNumber}, {Key: "r", Value: literal(number)},
			}},
			{Key: "n", Value: bson.D{{Key: "$sum", Value: 1}}},
			{Key: "failed", Value: bson.D{{Key: "$sum", Value: bson.D{{Key: "$cond", Value: bson.A{failed, 1, 0}}}}}},
			{Key: "events", Value: bson.D{{Key: "$sum", Value: events}}},
			{Key: "oldest", Value: bson.D{{Key: "$min", Value: "$endedAt"}}},
		}}},
	}
}

// Retentions tells for how long each consumer group keeps a delivery that has ended, to the second, by the newest of
// each of the subscriptions: several times while a change takes effect, none if the group keeps them for ever or
// has ended none. It takes one command for each hundred subscriptions.
func (s *Store) Retentions(ctx context.Context, subs []Subscription) (map[string][]time.Duration, error) {
	out := map[string][]time.Duration{}
	for some := range slices.Chunk(subs, subscriptionsPerCommand) {
		newest, err := s.newestEnded(ctx, some)
		if err != nil {
			return nil, fmt.Errorf("pulse: read for how long ended deliveries are kept: %w", err)
		}
		for _, f := range newest {
			ended, ok := f.date("endedAt")
			expires, kept := f.date("expiresAt")
			group, retention := f.str("consumerGroup"), expires.Sub(ended).Round(unit)
			if ok && kept && retention > 0 && !slices.Contains(out[group], retention) {
				out[group] = append(out[group], retention)
			}
		}
	}
	return out, nil
}

// newestEnded reads, of each subscription and each state that ends a delivery, the one of the newest event.
func (s *Store) newestEnded(ctx context.Context, subs []Subscription) ([]fields, error) {
	var branches []mongo.Pipeline
	for _, sub := range subs {
		for _, status := range []string{delivery.StatusSuccess, delivery.StatusV1Success, delivery.StatusError, delivery.StatusV1Error} {
			branches = append(branches, mongo.Pipeline{
				{{Key: "$match", Value: bson.D{{Key: "consumerGroup", Value: sub.ConsumerGroup}, {Key: "topic", Value: sub.Topic}, {Key: "status", Value: status}}}},
				{{Key: "$sort", Value: bson.D{{Key: "eventSequence", Value: -1}, {Key: "eventId", Value: -1}}}},
				{{Key: "$limit", Value: 1}},
				{{Key: "$project", Value: bson.D{{Key: "consumerGroup", Value: 1}, {Key: "endedAt", Value: 1}, {Key: "expiresAt", Value: 1}}}},
			})
		}
	}
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	cursor, err := s.deliveries.Aggregate(ctx, s.union(branches))
	return readAll(ctx, cursor, err, parse)
}

// union runs several pipelines over the deliveries, one after the other, as one command.
func (s *Store) union(branches []mongo.Pipeline) mongo.Pipeline {
	all := slices.Clone(branches[0])
	for _, branch := range branches[1:] {
		all = append(all, bson.D{{Key: "$unionWith", Value: bson.D{{Key: "coll", Value: s.deliveries.Name()}, {Key: "pipeline", Value: branch}}}})
	}
	return all
}
