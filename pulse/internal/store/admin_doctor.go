package store

import (
	"context"
	"fmt"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"

	"github.com/orionjs/orion-go/pulse/internal/delivery"
)

// What a doctor looks for. It reads only; what can be mended is mended by what maintenance uses.

// CheckIndexes compares the indexes as EnsureIndexes does, and creates nothing. Missing are those that it would create.
func (s *Store) CheckIndexes(ctx context.Context) (missing, conflicts []IndexProblem, warnings []string, err error) {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	opts := options.Collection().SetReadPreference(readpref.Primary()).SetRegistry(bson.NewRegistry()).SetBSONOptions(&options.BSONOptions{})
	for _, c := range pulseIndexes {
		keeper := indexKeeper{coll: s.db.Collection(s.prefix+"."+c.suffix, opts), specs: c.specs}
		keeper.shell = shell{s.db.Name(), keeper.coll.Name()}
		stored, err := keeper.list(ctx)
		if err != nil {
			return nil, nil, nil, fmt.Errorf("pulse: list the indexes of %s: %w", keeper.namespace(), hint(err, "listIndexes"))
		}
		report := keeper.compare(stored)
		conflicts, warnings = append(conflicts, report.problems...), append(warnings, report.warnings...)
		for _, spec := range report.missing {
			missing = append(missing, IndexProblem{
				Collection: keeper.coll.Name(), Index: spec.name, Problem: "it is missing", Commands: []string{keeper.shell.create(spec, false)},
			})
		}
	}
	return missing, conflicts, warnings, nil
}

// ClockAhead is how far the server's clock is ahead of this machine's, as it was last measured.
func (s *Store) ClockAhead() time.Duration { return time.Duration(s.offset.Load()) }

// Sample is how many documents have something in common, up to a bound, and some of their IDs.
type Sample struct {
	Count
	IDs []string
}

// sampleIDs is how many IDs a sample has.
const sampleIDs = 5

// sample reads up to limit documents that match.
func (s *Store) sample(ctx context.Context, coll *mongo.Collection, filter bson.D, limit int) (Sample, error) {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	cursor, err := coll.Find(ctx, filter, options.Find().SetLimit(int64(limit+1)).SetProjection(bson.D{{Key: "_id", Value: 1}}))
	return readSample(ctx, cursor, err, limit)
}

// readSample reads the documents of a cursor, of which there is one more than the limit when there may be others.
func readSample(ctx context.Context, cursor *mongo.Cursor, err error, limit int) (Sample, error) {
	ids, err := readAll(ctx, cursor, err, func(raw bson.Raw) string { return fmt.Sprint(parse(raw).any("_id")) })
	found := Sample{IDs: ids[:min(len(ids), sampleIDs)]}
	found.add(min(len(ids), limit), len(ids) > limit)
	return found, err
}

// look is what a sample is taken of.
type look struct {
	coll   *mongo.Collection
	filter bson.D
}

// samples adds up samples.
func (s *Store) samples(ctx context.Context, limit int, looks ...look) (all Sample, err error) {
	for _, l := range looks {
		found, err := s.sample(ctx, l.coll, l.filter, limit)
		if err != nil {
			return Sample{}, err
		}
		all.add(found.N, found.AtLeast)
		all.IDs = append(all.IDs, found.IDs...)
	}
	return all, nil
}

// UnknownStates samples the deliveries of a subscription in a state that no version knows.
func (s *Store) UnknownStates(ctx context.Context, group, topic string, limit int) (Sample, error) {
	found, err := s.sample(ctx, s.deliveries, bson.D{
		{Key: "consumerGroup", Value: group}, {Key: "topic", Value: topic}, {Key: "status", Value: bson.D{{Key: "$nin", Value: delivery.Statuses}}},
	}, limit)
	if err != nil {
		err = fmt.Errorf("pulse: consumer group %s, topic %s: look for unknown states: %w", group, topic, err)
	}
	return found, err
}

// HalfDone samples the documents of a subscription whose marker of version 1 has stood since before a time.
func (s *Store) HalfDone(ctx context.Context, group, topic string, before time.Time, limit int) (Sample, error) {
	marked := bson.D{
		{Key: "consumerGroup", Value: group}, {Key: "topic", Value: topic}, {Key: "needsReconciliation", Value: true},
	}
	since := func(field string) bson.D {
		return append(slices.Clone(marked), bson.E{Key: field, Value: bson.D{{Key: "$not", Value: bson.D{{Key: "$gt", Value: before}}}}})
	}
	found, err := s.samples(ctx, limit, look{s.deliveries, since("updatedAt")}, look{s.history, since("endedAt")})
	if err != nil {
		err = fmt.Errorf("pulse: consumer group %s, topic %s: look for half-done steps: %w", group, topic, err)
	}
	return found, err
}

// Unstamped samples events that have waited for their place in the order since before a time: committed ones of
// transactions, and those whose later time has come.
func (s *Store) Unstamped(ctx context.Context, before time.Time, limit int) (Sample, error) {
	committed := append(pending(), bson.E{Key: "createdAt", Value: bson.D{{Key: "$lt", Value: before}}})
	found, err := s.samples(ctx, limit, look{s.events, committed}, look{s.events, waiting(before)})
	if err != nil {
		err = fmt.Errorf("pulse: look for events that wait for their place in the order: %w", err)
	}
	return found, err
}

// EventRetention tells for how long the newest event of a topic is kept: 0 is for ever. It is not known while the topic
// has none.
func (s *Store) EventRetention(ctx context.Context, topic string) (retention time.Duration, known bool, err error) {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	cursor, err := s.events.Find(ctx, bson.D{{Key: "topic", Value: topic}}, options.Find().SetSort(bySequence(-1)).SetLimit(1).
		SetProjection(bson.D{{Key: "createdAt", Value: 1}, {Key: "notBefore", Value: 1}, {Key: "expiresAt", Value: 1}}))
	newest, err := readAll(ctx, cursor, err, parse)
	if err != nil {
		return 0, false, fmt.Errorf("pulse: topic %s: read the newest event: %w", topic, err)
	}
	if len(newest) == 0 {
		return 0, false, nil
	}
	created, ok := newest[0].date("createdAt")
	if due, later := newest[0].date("notBefore"); later && due.After(created) {
		created = due // its retention counts from there
	}
	expires, kept := newest[0].date("expiresAt")
	if !kept {
		return 0, ok, nil
	}
	return expires.Sub(created), ok, nil
}

// Large is a document that is near the limit of 16 MB.
type Large struct {
	ID   string
	Size int
}

// LargeDocuments reads which of the newest look events of a topic, or deliveries of a group's topic when the group is
// named, are larger than size bytes.
func (s *Store) LargeDocuments(ctx context.Context, group, topic string, size, look int) ([]Large, error) {
	coll, match, sort := s.events, bson.D{{Key: "topic", Value: topic}}, bySequence(-1)
	if group != "" {
		coll, match = s.deliveries, bson.D{{Key: "consumerGroup", Value: group}, {Key: "topic", Value: topic}, {Key: "status", Value: delivery.StatusPending}}
		sort = bson.D{{Key: "eventSequence", Value: -1}, {Key: "eventId", Value: -1}}
	}
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	cursor, err := coll.Aggregate(ctx, mongo.Pipeline{
		{{Key: "$match", Value: match}},
		{{Key: "$sort", Value: sort}},
		{{Key: "$limit", Value: look}},
		{{Key: "$project", Value: bson.D{{Key: "size", Value: bson.D{{Key: "$bsonSize", Value: "$$ROOT"}}}}}},
		{{Key: "$match", Value: bson.D{{Key: "size", Value: bson.D{{Key: "$gt", Value: size}}}}}},
		{{Key: "$limit", Value: sampleIDs}},
	})
	large, err := readAll(ctx, cursor, err, func(raw bson.Raw) Large {
		f := parse(raw)
		l := Large{ID: fmt.Sprint(f.any("_id"))}
		l.Size, _ = f.int("size")
		return l
	})
	if err != nil {
		return nil, fmt.Errorf("pulse: topic %s: look for large documents: %w", topic, err)
	}
	return large, nil
}

// Skipped reads the IDs of events behind a subscription's cursor that have no delivery and should have one, of the
// newest look events. The leader itself still looks at what is not settled, so only settled events count. And a
// delivery that is missing may have been deleted: only events count that were published after the end of a success that
// is still kept, for theirs would be kept as well.
func (s *Store) Skipped(ctx context.Context, sub Overview, look int) ([]string, error) {
	fail := func(err error) ([]string, error) {
		return nil, fmt.Errorf("pulse: consumer group %s, topic %s: look for events without a delivery: %w", sub.ConsumerGroup, sub.Topic, err)
	}
	kept, err := s.oldestKept(ctx, sub)
	if err != nil || kept.IsZero() || sub.Settled.IsZero() {
		if err != nil {
			return fail(err)
		}
		return nil, nil
	}
	from := bson.Timestamp{T: uint32(kept.Unix()) + 1}
	if sub.Start.Sequence.Compare(from) > 0 {
		from = sub.Start.Sequence
	}
	find, cancel := s.deadline(ctx)
	defer cancel()
	cursor, err := s.events.Find(find,
		bson.D{{Key: "topic", Value: sub.Topic}, {Key: "sequence", Value: bson.D{{Key: "$gt", Value: from}, {Key: "$lte", Value: sub.Settled}}}},
		options.Find().SetSort(bySequence(-1)).SetLimit(int64(look)).SetProjection(bson.D{{Key: "sequence", Value: 1}}))
	keys, err := readAll(find, cursor, err, readKey)
	if err != nil {
		return fail(err)
	}
	if len(keys) == 0 {
		return nil, nil
	}
	// Deliveries from the oldest of these on, in all states, and as the events of batches.
	delivered, err := s.Delivered(ctx, sub.ConsumerGroup, sub.Topic, keys[len(keys)-1].Sequence, nil)
	if err != nil {
		return fail(err)
	}
	var skipped []string
	for _, k := range keys {
		if !delivered[k.EventID] && !k.After(sub.Cursor) {
			skipped = append(skipped, k.EventID)
		}
	}
	return skipped, nil
}

// oldestKept is when the success of the oldest event ended that is still kept; zero when there is none.
func (s *Store) oldestKept(ctx context.Context, sub Overview) (time.Time, error) {
	var oldest time.Time
	for _, status := range successes {
		find, cancel := s.deadline(ctx)
		cursor, err := s.deliveries.Find(find,
			bson.D{{Key: "consumerGroup", Value: sub.ConsumerGroup}, {Key: "topic", Value: sub.Topic}, {Key: "status", Value: status}},
			options.Find().SetSort(bson.D{{Key: "eventSequence", Value: 1}, {Key: "eventId", Value: 1}}).SetLimit(1).SetProjection(bson.D{{Key: "endedAt", Value: 1}}))
		found, err := readAll(find, cursor, err, parse)
		cancel()
		if err != nil {
			return time.Time{}, err
		}
		for _, f := range found {
			if at := f.time("endedAt"); oldest.IsZero() || at.Before(oldest) {
				oldest = at
			}
		}
	}
	return oldest, nil
}
