package store_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/matryer/is"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/orionjs/orion-go/pulse/internal/delivery"
	"github.com/orionjs/orion-go/pulse/internal/store"
)

// ended is a delivery that ended at an instant and is kept for a time; none for ever.
func ended(number int, group, status string, at time.Time, retention time.Duration, events int) bson.D {
	id := fmt.Sprintf("d%05d", number)
	doc := bson.D{
		{Key: "_id", Value: id},
		{Key: "eventId", Value: id},
		{Key: "consumerGroup", Value: group},
		{Key: "topic", Value: topic},
		{Key: "status", Value: status},
		{Key: "endedAt", Value: at},
		{Key: "eventSequence", Value: bson.Timestamp{T: uint32(at.Unix()), I: uint32(number + 1)}},
	}
	if events > 1 {
		doc = append(doc, bson.E{Key: "eventIds", Value: make([]string, events)})
	}
	if retention > 0 {
		doc = append(doc, bson.E{Key: "expiresAt", Value: at.Add(retention)})
	}
	return doc
}

// What ended is counted by slice and subscription, of both formats, singles and batches, with groups that keep
// it for different times, by an index that is there for another purpose.
func TestFinished_CountsBySliceOfTheEnd(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s, db, sub := newStore(t)
	const week, day = 7 * 24 * time.Hour, 24 * time.Hour
	now := time.Now().UTC().Truncate(10 * time.Second)
	other := sub
	other.ConsumerGroup = "shipping"
	forever := sub
	forever.ConsumerGroup = "archive"
	_, err := deliveries(db).InsertMany(t.Context(), []any{
		ended(1, group, delivery.StatusSuccess, now.Add(-time.Hour), week, 1), // before the first slice
		ended(2, group, delivery.StatusSuccess, now.Add(-19*time.Second), week, 1),
		ended(3, group, delivery.StatusV1Success, now.Add(-11*time.Second), week, 1),
		ended(4, group, delivery.StatusError, now.Add(-10*time.Second), week, 1),
		ended(5, group, delivery.StatusSuccess, now.Add(-time.Second), week+100*time.Millisecond, 30), // a second reading of the clock
		ended(6, "shipping", delivery.StatusV1Error, now.Add(-2*time.Second), day, 1),
		// To be deleted in the same minute as those of shipping, and ended long ago.
		ended(7, group, delivery.StatusSuccess, now.Add(-week+day), week, 1),
		ended(8, "archive", delivery.StatusSuccess, now.Add(-time.Second), 0, 1), // kept for ever
		append(ended(10, group, delivery.StatusError, now.Add(-3*time.Second), week, 1),
			bson.E{Key: "error", Value: bson.D{{Key: "code", Value: delivery.CodeOperatorCancelled}}}), // by no worker
		// Nothing stored can stop the count.
		bson.D{{Key: "_id", Value: 9}, {Key: "eventId", Value: "x"}, {Key: "consumerGroup", Value: group}, {Key: "status", Value: 1}, {Key: "endedAt", Value: "now"}, {Key: "expiresAt", Value: now.Add(week)}},
	})
	is.NoErr(err)

	kept, err := s.Retentions(t.Context(), []store.Subscription{sub, other, forever})
	is.NoErr(err)
	is.Equal(kept, map[string][]time.Duration{group: {week}, "shipping": {day}})
	got, from, err := s.Finished(t.Context(), store.FinishedQuery{
		Since: now.Add(-20 * time.Second), Slice: 10 * time.Second, Retentions: []time.Duration{week, day}, Limit: 100,
	})
	is.NoErr(err)
	is.Equal(from, now.Add(-20*time.Second))
	slices.SortFunc(got, func(a, b store.Finished) int {
		if c := a.Start.Compare(b.Start); c != 0 {
			return c
		}
		return len(a.ConsumerGroup) - len(b.ConsumerGroup)
	})
	is.Equal(got, []store.Finished{
		{ConsumerGroup: group, Topic: topic, Start: now.Add(-20 * time.Second), Succeeded: 2, Events: 2},
		{ConsumerGroup: group, Topic: topic, Start: now.Add(-10 * time.Second), Succeeded: 1, Failed: 1, Events: 31},
		{ConsumerGroup: "shipping", Topic: topic, Start: now.Add(-10 * time.Second), Failed: 1, Events: 1},
	})
}

// Under load only the newest are read, and the answer tells from when on it is whole.
func TestFinished_IsBounded(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s, db, _ := newStore(t)
	now := time.Now().UTC().Truncate(10 * time.Second)
	var docs []any
	for i := range 50 {
		docs = append(docs, ended(i, group, delivery.StatusSuccess, now.Add(time.Duration(i-50)*time.Second), time.Hour, 1))
	}
	_, err := deliveries(db).InsertMany(t.Context(), docs)
	is.NoErr(err)
	got, from, err := s.Finished(t.Context(), store.FinishedQuery{
		Since: now.Add(-time.Minute), Slice: 10 * time.Second, Retentions: []time.Duration{time.Hour}, Limit: 15,
	})
	is.NoErr(err)
	is.Equal(from, now.Add(-15*time.Second))
	is.Equal(len(got), 2)
	is.Equal(got[0].Succeeded+got[1].Succeeded, 15)

	got, _, err = s.Finished(t.Context(), store.FinishedQuery{Since: now.Add(-time.Minute), Slice: 10 * time.Second, Limit: 15})
	is.NoErr(err)
	is.Equal(len(got), 0) // nobody keeps anything: nothing is asked
}
