package pulse_test

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/matryer/is"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/orionjs/orion-go/pulse"
	"github.com/orionjs/orion-go/pulse/pulsetest"
)

// orderedRun is one call of an ordered handler.
type orderedRun struct {
	Number, Attempt int
	Client          int
}

// sequencer is an ordered handler for any number of clients: it records its calls, and whether two of them
// ever ran at the same time.
type sequencer struct {
	runs     pulsetest.Recorder[orderedRun]
	running  atomic.Int32
	overlaps atomic.Int32
	// fail decides the result of a call; nil: all succeed.
	fail func(ctx context.Context, r orderedRun) error
}

func (s *sequencer) handle(client int) func(context.Context, *pulse.Event[order]) error {
	return func(ctx context.Context, e *pulse.Event[order]) error {
		if s.running.Add(1) > 1 {
			s.overlaps.Add(1)
		}
		defer s.running.Add(-1)
		r := orderedRun{Number: e.Data.Number, Attempt: e.Attempt, Client: client}
		s.runs.Add(r)
		if s.fail == nil {
			return nil
		}
		return s.fail(ctx, r)
	}
}

var orderedTopic = pulse.NewTopic[order]("order.created")

// orderedBy are the options of an ordered subscription: order is the default.
func orderedBy(more ...pulse.SubscribeOption) []pulse.SubscribeOption {
	return append([]pulse.SubscribeOption{pulse.OffsetReset(pulse.Earliest), pulse.RetryDelay(time.Millisecond)}, more...)
}

// subscribe subscribes all clients with the sequencer.
func (s *sequencer) subscribe(t *testing.T, clients []*pulse.Client, more ...pulse.SubscribeOption) []*pulse.Subscription {
	t.Helper()
	subs := make([]*pulse.Subscription, len(clients))
	for i, c := range clients {
		sub, err := orderedTopic.Subscribe(t.Context(), c, s.handle(i), orderedBy(more...)...)
		is.New(t).NoErr(err)
		subs[i] = sub
	}
	return subs
}

// runsAs returns the event of each call, as "3" for a first attempt and "3#2" for a second one.
func runsAs(runs []orderedRun) []string {
	out := make([]string, len(runs))
	for i, r := range runs {
		out[i] = fmt.Sprint(r.Number)
		if r.Attempt > 1 {
			out[i] += fmt.Sprint("#", r.Attempt)
		}
	}
	return out
}

// upTo is what runsAs returns for n events of which none fails.
func upTo(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprint(i)
	}
	return out
}

// instead replaces the one entry of a list by several.
func instead(list []string, entry string, by ...string) []string {
	at := slices.Index(list, entry)
	return slices.Replace(list, at, at+1, by...)
}

// bySequence returns the numbers of all events of the topic in the order of the topic.
func bySequence(t *testing.T, db *mongo.Database, topic string) []string {
	t.Helper()
	is := is.New(t)
	cursor, err := eventsOf(db).Find(t.Context(), bson.D{{Key: "topic", Value: topic}},
		options.Find().SetSort(bson.D{{Key: "sequence", Value: 1}, {Key: "_id", Value: 1}}))
	is.NoErr(err)
	var docs []struct{ Data order }
	is.NoErr(cursor.All(t.Context(), &docs))
	out := make([]string, len(docs))
	for i, d := range docs {
		out[i] = fmt.Sprint(d.Data.Number)
	}
	return out
}

// settledV1 waits until n version 1 deliveries have ended, and checks that nothing is left: no attempt is
// pending or locked without an end, none counts twice, each success is one, and nothing carries a marker.
// It returns the attempts of all deliveries, by delivery, in their order.
func settledV1(t *testing.T, db *mongo.Database, n int) map[string][]bson.Raw {
	t.Helper()
	is := is.New(t)
	pulsetest.Eventually(t, fmt.Sprint(n, " deliveries have ended"), func(ctx context.Context) error {
		ended, err := deliveriesOf(db).CountDocuments(ctx, bson.D{{Key: "status", Value: bson.D{{Key: "$in", Value: bson.A{"success", "error"}}}}})
		if err == nil && int(ended) != n {
			err = fmt.Errorf("%d have", ended)
		}
		return err
	})
	deliveries, err := find(t.Context(), deliveriesOf(db), bson.D{})
	is.NoErr(err)
	is.Equal(len(deliveries), n)
	attempts := attemptsV1(t, db)
	for _, d := range deliveries {
		mine := attempts[d.Lookup("_id").StringValue()]
		is.True(len(mine) > 0)
		for i, a := range mine {
			status := a.Lookup("status").StringValue()
			is.Equal(a.Lookup("attempt").AsInt64(), int64(i+1)) // without a gap
			if i < len(mine)-1 {
				is.Equal(status, "error")
			} else {
				is.Equal(status, d.Lookup("status").StringValue())
			}
		}
		is.Equal(d.Lookup("finalAttempt").AsInt64(), int64(len(mine)))
	}
	marked := bson.D{{Key: "needsReconciliation", Value: true}}
	is.Equal(len(mustFind(t, deliveriesOf(db), marked)), 0)
	is.Equal(len(mustFind(t, historyOf(db), marked)), 0)
	return attempts
}

// attemptsV1 returns the history's attempts by delivery, in the order of their number.
func attemptsV1(t *testing.T, db *mongo.Database) map[string][]bson.Raw {
	t.Helper()
	is := is.New(t)
	cursor, err := historyOf(db).Find(t.Context(), bson.D{}, options.Find().SetSort(bson.D{{Key: "attempt", Value: 1}}))
	is.NoErr(err)
	var docs []bson.Raw
	is.NoErr(cursor.All(t.Context(), &docs))
	attempts := map[string][]bson.Raw{}
	for _, a := range docs {
		id := a.Lookup("deliveryId").StringValue()
		attempts[id] = append(attempts[id], a)
	}
	return attempts
}

func mustFind(t *testing.T, coll *mongo.Collection, filter any) []bson.Raw {
	t.Helper()
	docs, err := find(t.Context(), coll, filter)
	is.New(t).NoErr(err)
	return docs
}

// failures counts the failed attempts with a code.
func failures(attempts map[string][]bson.Raw, code string) int {
	n := 0
	for _, of := range attempts {
		for _, a := range of {
			if codeOf(a) == code {
				n++
			}
		}
	}
	return n
}

// locked matches claimed attempts of version 1.
var locked = bson.D{{Key: "status", Value: "pending"}, {Key: "lockToken", Value: bson.D{{Key: "$ne", Value: nil}}}}
