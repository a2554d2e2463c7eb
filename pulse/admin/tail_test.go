package admin_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/matryer/is"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/orionjs/orion-go/pulse"
	"github.com/orionjs/orion-go/pulse/admin"
	"github.com/orionjs/orion-go/pulse/pulsetest"
)

// following collects the IDs of events that Tail passes on, until stop.
func following(t *testing.T, a *admin.Admin, from time.Time) (ids *pulsetest.Recorder[string], stop func() error) {
	t.Helper()
	ids = &pulsetest.Recorder[string]{}
	ctx, cancel := context.WithCancelCause(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- a.Tail(ctx, orders.Name(), from, func(e admin.Event) error {
			ids.Add(e.ID)
			return nil
		})
	}()
	return ids, func() error {
		cancel(errPlanned)
		return <-ended
	}
}

func publishAs(t *testing.T, c *pulse.Client, id string) {
	t.Helper()
	_, err := pulse.NewTopic[bson.M](orders.Name()).Publish(t.Context(), c, bson.M{"n": 1}, pulse.WithID(id))
	is.New(t).NoErr(err)
}

// Events are passed on as they come, in order, once; also one that becomes visible behind others.
func TestTail_3_5_FollowsATopic(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	db := pulsetest.Database(t)
	c := start(t, config(db))
	publishAs(t, c, "old")
	fromNow, stopNow := following(t, open(t, db), time.Time{})
	fromThen, stopThen := following(t, open(t, db), time.Now().Add(-time.Hour))
	fromThen.Wait(t, 1)

	// The one from now on begins behind what is stored when it starts, and tells nobody when that was.
	for n := 0; fromNow.Len() == 0; n++ {
		publishAs(t, c, fmt.Sprint("probe-", n))
		fromThen.Wait(t, n+2)
	}
	publishAs(t, c, "a")
	fromNow.WaitFor(t, "event a", func(ids []string) bool { return ids[len(ids)-1] == "a" })
	var stored struct{ Sequence bson.Timestamp }
	is.NoErr(collection(db, "events").FindOne(t.Context(), bson.D{{Key: "_id", Value: "a"}}).Decode(&stored))
	publishAs(t, c, "c")
	for _, ids := range []*pulsetest.Recorder[string]{fromNow, fromThen} {
		ids.WaitFor(t, "event c", func(ids []string) bool { return ids[len(ids)-1] == "c" })
	}
	// Its number is lower than that of c, which everybody has seen.
	_, err := collection(db, "events").InsertOne(t.Context(), bson.D{
		{Key: "_id", Value: "late"},
		{Key: "topic", Value: orders.Name()},
		{Key: "data", Value: bson.D{}},
		{Key: "createdAt", Value: time.Now()},
		{Key: "sequence", Value: bson.Timestamp{T: stored.Sequence.T, I: stored.Sequence.I + 1}},
	})
	is.NoErr(err)
	for _, ids := range []*pulsetest.Recorder[string]{fromNow, fromThen} {
		ids.WaitFor(t, "the late event", func(ids []string) bool { return ids[len(ids)-1] == "late" })
	}
	is.True(errors.Is(stopNow(), errPlanned))
	is.True(errors.Is(stopThen(), errPlanned))
	is.True(fromNow.Values()[0] != "old")
	is.Equal(fromThen.Values()[0], "old")
	seen := map[string]int{}
	for _, id := range append(fromThen.Values(), "old") {
		seen[id]++
	}
	for id, n := range seen {
		is.Equal(n, map[bool]int{true: 2, false: 1}[id == "old"]) // the one that was added here
	}
}

// A scan passes on what is stored, over several pages, and ends.
func TestScan_3_2_ReadsWhatIsStored(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	db := pulsetest.Database(t)
	c := start(t, config(db))
	messages := make([]pulse.Message[bson.M], 450)
	for i := range messages {
		messages[i] = pulse.Message[bson.M]{ID: fmt.Sprintf("e-%04d", i), Data: bson.M{"n": i}, Headers: map[string]string{"h": "v"}}
	}
	_, err := pulse.NewTopic[bson.M](orders.Name()).PublishMany(t.Context(), c, messages)
	is.NoErr(err)
	a := open(t, db)
	var seen []admin.Event
	collect := func(e admin.Event) error {
		seen = append(seen, e)
		return nil
	}
	is.NoErr(a.Scan(t.Context(), orders.Name(), time.Time{}, collect))
	is.Equal(len(seen), len(messages))
	for i, e := range seen {
		is.Equal(e.ID, messages[i].ID)
	}
	is.Equal(seen[0].Headers, map[string]string{"h": "v"})
	is.Equal(seen[0].Data.Document().Lookup("n").AsInt64(), int64(0))

	seen = nil
	is.NoErr(a.Scan(t.Context(), orders.Name(), time.Now().Add(time.Hour), collect))
	is.NoErr(a.Scan(t.Context(), "another", time.Time{}, collect))
	is.Equal(len(seen), 0)
	is.Equal(a.Scan(t.Context(), orders.Name(), time.Time{}, func(admin.Event) error { return errPlanned }), errPlanned)
	is.Equal(a.Tail(t.Context(), orders.Name(), time.Unix(0, 0), func(admin.Event) error { return errPlanned }), errPlanned)
	var wrong *admin.QueryError
	is.True(errors.As(a.Scan(t.Context(), "", time.Time{}, collect), &wrong))
	is.True(errors.As(a.Tail(t.Context(), "", time.Time{}, collect), &wrong))
}
