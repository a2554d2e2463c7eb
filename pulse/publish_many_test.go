package pulse_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/matryer/is"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/orionjs/orion-go/pulse"
	"github.com/orionjs/orion-go/pulse/pulsetest"
)

// numbers makes messages of 0 to n-1.
func numbers(n int) []pulse.Message[int] {
	messages := make([]pulse.Message[int], n)
	for i := range messages {
		messages[i].Data = i
	}
	return messages
}

// watched is a publisher whose commands are counted from now on.
func watched(t *testing.T, change ...func(*options.ClientOptions)) (*pulse.Client, *pulsetest.CommandMonitor, string) {
	t.Helper()
	db := pulsetest.Database(t)
	config := fast(db)
	config.DisableChangeStreams = true
	commands := pulsetest.NewCommandMonitor()
	c, err := pulse.New(t.Context(), pulsetest.Client(t, append(change, commands.Watch)...), config)
	is.New(t).NoErr(err)
	t.Cleanup(func() { is.New(t).NoErr(c.Close(context.Background())) })
	commands.Reset()
	return c, commands, db.Name()
}

func TestPublishMany_1_2_OneInsertForEachThousand(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	c, commands, name := watched(t)
	results, err := pulse.NewTopic[int]("count").PublishMany(t.Context(), c, numbers(2500))
	is.NoErr(err)
	is.Equal(commands.String(), "insert 3")

	is.Equal(len(results), 2500)
	ids := map[string]int{}
	for i, r := range results {
		is.NoErr(r.Err)
		is.Equal(r.Event.Data, i) // the results are in the order of the messages
		is.True(!r.Event.Duplicate)
		ids[r.Event.ID] = i
	}
	stored := events(t, pulsetest.Client(t).Database(name))
	is.Equal(len(stored), 2500)
	for _, doc := range stored {
		i, ok := ids[doc.Lookup("_id").StringValue()]
		is.True(ok)
		is.Equal(doc.Lookup("data").AsInt64(), int64(i))
		delete(ids, doc.Lookup("_id").StringValue())
	}
	is.Equal(len(ids), 0)
}

func TestPublishMany_1_2_CutsAtTheSizeOfAMessage(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	c, commands, name := watched(t)
	large := pulse.Message[[]byte]{Data: make([]byte, 6<<20)}
	results, err := pulse.NewTopic[[]byte]("large").PublishMany(t.Context(), c, []pulse.Message[[]byte]{large, large, large})
	is.NoErr(err)
	is.Equal(len(results), 3)
	is.Equal(commands.String(), "insert 2") // 12 and 6 MiB
	n, err := pulsetest.Client(t).Database(name).Collection("orionjs.pulse.events").CountDocuments(t.Context(), bson.D{})
	is.NoErr(err)
	is.Equal(n, int64(3))
}

func TestPublishMany_1_2_ReportsPerEvent(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	c, commands, name := watched(t)
	topic := pulse.NewTopic[order]("order.created")
	first, err := topic.Publish(t.Context(), c, order{1, "stored"}, pulse.WithID("stored"), pulse.WithHeaders(map[string]string{"by": "first"}))
	is.NoErr(err)
	_, err = pulse.NewTopic[order]("order.paid").Publish(t.Context(), c, order{2, "paid"}, pulse.WithID("elsewhere"))
	is.NoErr(err)
	commands.Reset()

	results, err := topic.PublishMany(t.Context(), c, []pulse.Message[order]{
		0: {Data: order{10, "new"}},
		1: {ID: "stored", Data: order{1, "stored"}, Headers: map[string]string{"by": "second"}},
		2: {ID: "stored", Data: order{1, "changed"}},
		3: {ID: "elsewhere", Data: order{2, "paid"}},
		4: {ID: "twice", Data: order{4, "twice"}},
		5: {ID: "twice", Data: order{4, "twice"}},
		6: {ID: "twice", Data: order{4, "thrice"}},
		7: {Data: order{17, "last"}},
	})
	is.Equal(commands.String(), "find 1, insert 1")
	is.Equal(len(results), 8)
	is.True(err != nil)
	const conflict = `pulse: topic order.created: an event with the ID "stored" is stored already, with other data: an ID names one event for as long as it is retained`
	is.Equal(err.Error(), "pulse: topic order.created: 3 of 8 events were not stored, each result says why; the first: "+conflict)

	for _, i := range []int{0, 4, 7} {
		is.NoErr(results[i].Err)
		is.True(!results[i].Event.Duplicate)
	}
	is.Equal(results[7].Event.Data, order{17, "last"}) // what lies behind a failure is stored
	for _, i := range []int{1, 5} {
		is.NoErr(results[i].Err)
		is.True(results[i].Event.Duplicate)
	}
	want := *first
	want.Duplicate = true
	is.Equal(*results[1].Event, want) // the stored event, with its time and headers
	for i, wrong := range map[int]pulse.ConflictError{
		2: {ID: "stored", Topic: "order.created", StoredTopic: "order.created"},
		3: {ID: "elsewhere", Topic: "order.created", StoredTopic: "order.paid"},
		6: {ID: "twice", Topic: "order.created", StoredTopic: "order.created"},
	} {
		is.True(results[i].Event == nil)
		var got *pulse.ConflictError
		is.True(errors.As(results[i].Err, &got))
		is.Equal(*got, wrong)
	}
	is.Equal(results[3].Err.Error(), `pulse: topic order.created: an event with the ID "elsewhere" is stored already, with the topic order.paid: an ID names one event for as long as it is retained`)

	stored := map[string]string{}
	for _, doc := range events(t, pulsetest.Client(t).Database(name)) {
		stored[doc.Lookup("data", "note").StringValue()] = doc.Lookup("topic").StringValue()
	}
	is.Equal(stored, map[string]string{
		"stored": "order.created", "paid": "order.paid", "new": "order.created", "twice": "order.created", "last": "order.created",
	})
}

func TestPublishMany_1_2_NothingToPublish(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	c, commands, _ := watched(t)
	results, err := pulse.NewTopic[int]("count").PublishMany(t.Context(), c, nil)
	is.NoErr(err)
	is.Equal(len(results), 0)
	is.Equal(commands.Count(), 0)
}

func TestPublishMany_1_6_AllBadInputTogetherStoresNothing(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	c, commands, _ := watched(t)
	results, err := pulse.NewTopic[any]("bad").PublishMany(t.Context(), c, []pulse.Message[any]{
		{Data: 1},
		{Data: make(chan int)},
		{Data: 2, ID: "\xff"},
		{Data: 3, Headers: map[string]string{"h": "\xff"}},
		{Data: 4},
	})
	is.True(results == nil)
	is.True(err != nil)
	is.Equal(err.Error(), strings.Join([]string{
		"pulse: topic bad: 3 of 5 messages cannot be stored; nothing was stored: message 1: cannot encode data of type chan int as BSON: no encoder found for chan int",
		`message 2: the event's ID "\xff" is not valid UTF-8`,
		`message 3: header "h" is not valid UTF-8`,
	}, "\n"))
	is.Equal(commands.Count(), 0)
}

// The answer to an insert gets lost after the server has executed it, once or more often.
func TestPublishMany_1_2_LostAnswer(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		retries bool // the driver sends retryable writes again
		lost    int
	}{
		{"driver repeats", true, 1},
		{"driver gives up, we repeat", true, 2},
		{"driver does not repeat", false, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			wire := newLossy(t, "insert", test.lost)
			c, _, name := watched(t, wire.use, func(o *options.ClientOptions) { o.SetRetryWrites(test.retries) })
			messages := numbers(5)
			messages[1].ID, messages[3].ID, messages[4].ID = "one", "three", "three"
			messages[4].Data = 3
			results, err := pulse.NewTopic[int]("count").PublishMany(t.Context(), c, messages)
			is.Equal(int(wire.lost.Load()), test.lost)
			is.NoErr(err)
			for i, r := range results {
				is.NoErr(r.Err)
				is.Equal(r.Event.Data, min(i, 3))
				is.Equal(r.Event.Duplicate, i == 4) // what our own first try has stored is no duplicate
			}
			is.Equal(len(events(t, pulsetest.Client(t).Database(name))), 4)
		})
	}
}

func TestPublishMany_1_2_ServerOutOfReach(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	wire := newLossy(t, "insert", 1000)
	c, _, name := watched(t, wire.use, func(o *options.ClientOptions) { o.SetRetryWrites(false) })
	results, err := pulse.NewTopic[int]("count").PublishMany(t.Context(), c, []pulse.Message[int]{{ID: "a", Data: 1}, {ID: "b", Data: 2}})
	is.True(err != nil)
	is.Equal(len(results), 2)
	for i, r := range results {
		is.True(r.Event == nil)
		is.True(strings.HasPrefix(r.Err.Error(), fmt.Sprintf("pulse: topic count: publish event %c (it may have been stored): ", 'a'+i)))
	}
	is.True(strings.HasPrefix(err.Error(), "pulse: topic count: 2 of 2 events were not stored, each result says why; the first: pulse: topic count: publish event a (it may have been stored): "))
	// They were stored indeed; publishing again under the same IDs finds them.
	again := newClient(t, pulsetest.Client(t).Database(name), fast(pulsetest.Client(t).Database(name)))
	results, err = pulse.NewTopic[int]("count").PublishMany(t.Context(), again, []pulse.Message[int]{{ID: "a", Data: 1}, {ID: "b", Data: 2}})
	is.NoErr(err)
	is.True(results[0].Event.Duplicate && results[1].Event.Duplicate)
}

func TestPublish_1_1_LostAnswer(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	wire := newLossy(t, "insert", 1)
	c, _, name := watched(t, wire.use) // with the driver's own retry
	event, err := pulse.NewTopic[int]("count").Publish(t.Context(), c, 1)
	is.NoErr(err)
	is.Equal(int(wire.lost.Load()), 1)
	stored := events(t, pulsetest.Client(t).Database(name))
	is.Equal(len(stored), 1)
	is.Equal(stored[0].Lookup("_id").StringValue(), event.ID)
	is.True(!event.Duplicate)
}

func TestPublishMany_1_2_EndedContext(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	c, _, name := watched(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	results, err := pulse.NewTopic[int]("count").PublishMany(ctx, c, numbers(1500))
	is.True(errors.Is(err, context.Canceled))
	is.Equal(len(results), 1500)
	is.True(errors.Is(results[1499].Err, context.Canceled))
	is.Equal(len(events(t, pulsetest.Client(t).Database(name))), 0)
}
