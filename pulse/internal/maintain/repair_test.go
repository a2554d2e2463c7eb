package maintain

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/matryer/is"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

func (f *fixture) history() *mongo.Collection { return f.deliveries.Database().Collection("p.history") }

// halfDone is what a crash left of a version 1 delivery.
type halfDone struct {
	name     string
	delivery bson.D   // nil: there is none
	attempts []bson.D // in order
	// What a repair must make of it.
	status   string
	final    int64
	code     string // of the delivery's error
	numbered int    // attempts afterwards
	due      time.Time
	expires  bool
}

var (
	happened = time.Now().UTC().Truncate(time.Millisecond).Add(-time.Minute)
	marked   = bson.E{Key: "needsReconciliation", Value: true}
	boom     = bson.E{Key: "error", Value: bson.D{{Key: "code", Value: "handler_error"}, {Key: "name", Value: "Error"}, {Key: "message", Value: "boom"}}}
)

func attemptV1(status string, more ...bson.E) bson.D {
	a := bson.D{{Key: "status", Value: status}, {Key: "createdAt", Value: happened}, {Key: "nextAttemptAt", Value: happened}}
	if status != "pending" {
		a = append(a, bson.E{Key: "endedAt", Value: happened}, bson.E{Key: "startedAt", Value: happened}, bson.E{Key: "durationMs", Value: int32(0)})
	}
	return append(a, more...)
}

func deliveryV1(status string, more ...bson.E) bson.D {
	d := bson.D{{Key: "status", Value: status}, {Key: "createdAt", Value: happened}, {Key: "updatedAt", Value: happened}}
	return append(d, more...)
}

// Every state between two steps of a version 1 delivery (storage.md), of a topic with two retries.
var halfDones = []halfDone{
	{
		name: "the first attempt is missing", delivery: deliveryV1("pending", marked),
		status: "pending", numbered: 1, due: happened,
	},
	{
		name: "the first attempt is there, the marker too", delivery: deliveryV1("pending", marked), attempts: []bson.D{attemptV1("pending")},
		status: "pending", numbered: 1, due: happened,
	},
	{
		name: "the next attempt is missing", delivery: deliveryV1("pending"), attempts: []bson.D{attemptV1("error", marked, boom)},
		status: "pending", numbered: 2, due: happened.Add(time.Minute),
	},
	{
		name: "the next attempt is there, the marker too", delivery: deliveryV1("pending"),
		attempts: []bson.D{attemptV1("error", marked, boom), attemptV1("pending")},
		status:   "pending", numbered: 2, due: happened,
	},
	{
		name: "a success, and a pending delivery", delivery: deliveryV1("pending"), attempts: []bson.D{attemptV1("success", marked)},
		status: "success", final: 1, numbered: 1, expires: true,
	},
	{
		name: "a second attempt's success, and a pending delivery", delivery: deliveryV1("pending"),
		attempts: []bson.D{attemptV1("error", boom), attemptV1("success", marked)},
		status:   "success", final: 2, numbered: 2, expires: true,
	},
	{
		name: "the last failure, and a pending delivery", delivery: deliveryV1("pending"),
		attempts: []bson.D{attemptV1("error", boom), attemptV1("error", boom), attemptV1("error", marked, boom)},
		status:   "error", final: 3, code: "handler_error", numbered: 3, expires: true,
	},
	{
		name: "an ended delivery whose attempts have no retention", delivery: deliveryV1("error", marked, boom, bson.E{Key: "endedAt", Value: happened}, bson.E{Key: "finalAttempt", Value: int32(2)}),
		attempts: []bson.D{attemptV1("error", boom), attemptV1("error", marked, boom)},
		status:   "error", final: 2, code: "handler_error", numbered: 2, expires: true,
	},
	{
		name: "an ended delivery, the marker on the attempt alone", delivery: deliveryV1("success", bson.E{Key: "endedAt", Value: happened}, bson.E{Key: "finalAttempt", Value: int32(1)}),
		attempts: []bson.D{attemptV1("success", marked)},
		status:   "success", final: 1, numbered: 1, expires: true,
	},
	{
		name: "attempts whose delivery is gone", attempts: []bson.D{attemptV1("success", marked), attemptV1("error", boom)},
		numbered: 2, expires: true,
	},
}

func (f *fixture) leave(t *testing.T, h halfDone, id string) {
	t.Helper()
	is := is.New(t)
	common := bson.D{{Key: "consumerGroup", Value: "billing"}, {Key: "topic", Value: "led"}, {Key: "eventId", Value: "e" + id}}
	if h.delivery != nil {
		d := append(append(bson.D{{Key: "_id", Value: id}}, common...), h.delivery...)
		_, err := f.deliveries.InsertOne(t.Context(), d)
		is.NoErr(err)
	}
	for i, a := range h.attempts {
		d := append(append(bson.D{{Key: "_id", Value: fmt.Sprint(id, ".", i+1)}, {Key: "deliveryId", Value: id}, {Key: "attempt", Value: int32(i + 1)}}, common...), a...)
		_, err := f.history().InsertOne(t.Context(), d)
		is.NoErr(err)
	}
}

func read(t *testing.T, coll *mongo.Collection, filter any) []bson.Raw {
	t.Helper()
	is := is.New(t)
	cursor, err := coll.Find(t.Context(), filter, options.Find().SetSort(bson.D{{Key: "attempt", Value: 1}}))
	is.NoErr(err)
	var docs []bson.Raw
	is.NoErr(cursor.All(t.Context(), &docs))
	return docs
}

// check tells whether the delivery is as it must be.
func (f *fixture) check(t *testing.T, h halfDone, id string) {
	t.Helper()
	is := is.New(t)
	attempts := read(t, f.history(), bson.D{{Key: "deliveryId", Value: id}})
	is.Equal(len(attempts), h.numbered)
	for i, a := range attempts {
		is.Equal(a.Lookup("attempt").AsInt64(), int64(i+1))
		_, unmarked := a.LookupErr("needsReconciliation")
		is.True(unmarked != nil)
		expires, ok := a.Lookup("expiresAt").TimeOK()
		is.Equal(ok, h.expires)
		if ok && h.delivery != nil {
			is.True(expires.Equal(happened.Add(time.Hour)))
		}
	}
	if h.delivery == nil {
		return
	}
	d := read(t, f.deliveries, bson.D{{Key: "_id", Value: id}})[0]
	is.Equal(d.Lookup("status").StringValue(), h.status)
	_, unmarked := d.LookupErr("needsReconciliation")
	is.True(unmarked != nil)
	_, expires := d.Lookup("expiresAt").TimeOK()
	is.Equal(expires, h.expires)
	code, _ := d.Lookup("error", "code").StringValueOK()
	is.Equal(code, h.code)
	if h.final > 0 {
		is.Equal(d.Lookup("finalAttempt").AsInt64(), h.final)
		is.True(d.Lookup("endedAt").Time().Equal(happened))
	}
	if h.status == "pending" {
		last := attempts[len(attempts)-1]
		is.Equal(last.Lookup("status").StringValue(), "pending")
		is.True(last.Lookup("nextAttemptAt").Time().Equal(h.due))
	}
}

func TestRepair_4_8_FinishesEachHalfDoneStep(t *testing.T) {
	t.Parallel()
	for _, h := range halfDones {
		t.Run(h.name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			f := newFixture(t, 2)
			f.leave(t, h, "d")
			more, err := f.repairOnce(t.Context())
			is.NoErr(err)
			is.True(!more)
			f.check(t, h, "d")
			_, err = f.repairOnce(t.Context()) // a second time nothing changes
			is.NoErr(err)
			f.check(t, h, "d")
		})
	}
}

// A backlog of half-done steps drains in batches, though several replicas repair it at the same time.
func TestRepair_4_8_ReplicasRepairTheSame(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	f := newFixture(t, 2)
	_, err := f.history().Indexes().CreateOne(t.Context(), mongo.IndexModel{
		Keys: bson.D{{Key: "deliveryId", Value: 1}, {Key: "attempt", Value: 1}}, Options: options.Index().SetUnique(true),
	})
	is.NoErr(err)
	for i := range 60 {
		f.leave(t, halfDones[i%len(halfDones)], fmt.Sprint("d", i))
	}
	var all sync.WaitGroup
	errs := make([]error, 3)
	for replica := range errs {
		all.Go(func() {
			for more := true; more && errs[replica] == nil; {
				more, errs[replica] = f.repairOnce(t.Context())
			}
		})
	}
	all.Wait()
	for _, err := range errs {
		is.NoErr(err)
	}
	for i := range 60 {
		f.check(t, halfDones[i%len(halfDones)], fmt.Sprint("d", i))
	}
}

// Marked documents that nobody can repair neither hide the others nor keep the repairer busy.
func TestRepair_6_3_HostileDocumentsAreLeftAlone(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	f := newFixture(t, 2)
	for i := range 2 * repairBatch {
		hostile := bson.D{{Key: "consumerGroup", Value: "billing"}, {Key: "topic", Value: "led"}, marked, {Key: "attempt", Value: "one"}}
		for key, value := range map[string]any{"deliveryId": []any{nil, 7, bson.D{}}[i%3], "status": []any{nil, "pending", 1}[i%3]} {
			if value != nil {
				hostile = append(hostile, bson.E{Key: key, Value: value})
			}
		}
		_, err := f.history().InsertOne(t.Context(), hostile)
		is.NoErr(err)
		_, err = f.deliveries.InsertOne(t.Context(), bson.D{{Key: "consumerGroup", Value: "billing"}, {Key: "topic", Value: "led"}, marked, {Key: "status", Value: int32(1)}, {Key: "eventId", Value: i}})
		is.NoErr(err)
	}
	for i, h := range halfDones {
		f.leave(t, h, fmt.Sprint("d", i))
	}
	for range 20 {
		more, err := f.repairOnce(t.Context())
		is.NoErr(err)
		if !more {
			for i, h := range halfDones {
				f.check(t, h, fmt.Sprint("d", i))
			}
			return
		}
	}
	t.Fatal("the repairer goes on for ever")
}
