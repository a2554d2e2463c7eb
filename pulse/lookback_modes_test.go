package pulse_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/matryer/is"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/orionjs/orion-go/pulse"
	"github.com/orionjs/orion-go/pulse/pulsetest"
)

// lateEvents stores events whose sequences lie among those that were delivered, right before and right behind
// the given position, as if they had become visible only now.
func lateEvents(t *testing.T, db *mongo.Database, number int, at bson.Timestamp) {
	t.Helper()
	is := is.New(t)
	for i, sequence := range []bson.Timestamp{{T: at.T, I: at.I}, {T: at.T - 1, I: 1 << 30}} {
		_, err := eventsOf(db).InsertOne(t.Context(), bson.D{
			{Key: "_id", Value: uuid.NewString()},
			{Key: "topic", Value: orderedTopic.Name()},
			{Key: "data", Value: order{Number: number + i}},
			{Key: "createdAt", Value: time.Now()},
			{Key: "sequence", Value: sequence},
		})
		is.NoErr(err)
	}
}

// The leadership and the kind of the receiver change again and again while events appear behind the cursor:
// each is delivered once, what was delivered in another format is not delivered again.
func TestLookBack_3_5_TakeoverAndModeChanges(t *testing.T) {
	t.Parallel()
	for _, walk := range [][]kind{
		{v2Kind, batchKind, v2Kind, batchKind},
		{orderedKind, batchKind, v1Kind, v2Kind},
		{batchKind, batchKind, orderedKind, orderedKind},
	} {
		t.Run(fmt.Sprint(walk[0].name, ",", walk[1].name, ",", walk[2].name, ",", walk[3].name), func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			db := pulsetest.Database(t)
			publisher := shop(t, db)
			var seen pulsetest.Recorder[int]
			n, version := 0, 0
			var at bson.Timestamp
			late := func() {
				lateEvents(t, db, n, at)
				n += 2
			}
			for step, k := range walk {
				if step > 0 {
					late() // while nobody leads
					if k.name != walk[step-1].name {
						version++
					}
				}
				c := startClient(t, fast(db))
				k.subscribe(t, c, &seen, pulse.ConfigVersion(version), pulse.OffsetReset(pulse.Earliest))
				for range 12 {
					published(t, orderedTopic, publisher, n)
					n++
				}
				seen.Wait(t, n)
				events := mustFind(t, eventsOf(db), bson.D{})
				slices.SortFunc(events, compareSequence)
				s, i := events[len(events)-6].Lookup("sequence").Timestamp()
				at = bson.Timestamp{T: s, I: i}
				late() // while it leads: found by the next poll
				seen.Wait(t, n)
				closeClient(t, c)
			}
			eachOnce(t, seen.Values(), n)
			delivered := map[string]int{}
			for _, d := range mustFind(t, deliveriesOf(db), bson.D{}) {
				for _, id := range eventsIn(d) {
					delivered[id]++
				}
			}
			is.Equal(len(delivered), n)
			for _, times := range delivered {
				is.Equal(times, 1)
			}
		})
	}
}

func compareSequence(a, b bson.Raw) int {
	x, y := a.Lookup("sequence"), b.Lookup("sequence")
	xt, xi := x.Timestamp()
	yt, yi := y.Timestamp()
	return bson.Timestamp{T: xt, I: xi}.Compare(bson.Timestamp{T: yt, I: yi})
}

// What is settled may end in the middle of a batch, and the next leader may cut its batches elsewhere: it finds
// the old one by its last event, and delivers none of it again.
func TestLookBack_3_5_BatchAcrossTheSettledSequence(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	db := pulsetest.Database(t)
	publisher := shop(t, db)
	var seen pulsetest.Recorder[int]
	publishMany(t, orderedTopic, publisher, 10)
	start := func(size, version int) *pulse.Client {
		c := startClient(t, fast(db))
		kind{batch: size}.subscribe(t, c, &seen, pulse.OffsetReset(pulse.Earliest), pulse.ConfigVersion(version))
		return c
	}
	first := start(10, 0)
	seen.Wait(t, 10)
	closeClient(t, first)
	is.Equal(len(eventsIn(only(t, deliveriesOf(db), bson.D{}))), 10)
	events := mustFind(t, eventsOf(db), bson.D{})
	slices.SortFunc(events, compareSequence)
	_, err := subscriptionsOf(db).UpdateOne(t.Context(), bson.D{}, bson.D{{Key: "$set", Value: bson.D{{Key: "settledSequence", Value: events[4].Lookup("sequence")}}}})
	is.NoErr(err)
	for i := range 3 {
		published(t, orderedTopic, publisher, 10+i)
	}
	second := start(4, 1) // no batch of this size ends where the old one did
	seen.Wait(t, 13)
	closeClient(t, second)
	eachOnce(t, seen.Values(), 13)
	is.Equal(len(mustFind(t, deliveriesOf(db), bson.D{})), 2)
}
