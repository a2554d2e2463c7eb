package pulse_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/matryer/is"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/orionjs/orion-go/pulse"
)

// suite is one cell of the matrix of the semantic suite: a group of clients, and the way in which they
// subscribe. The tests TestSuite_… run in every cell, {change streams, polling} x {one client, three} x
// {version 2, version 1, ordered, batch}, since what they check holds in all of them.
type suite struct {
	*group
	kind
}

// everyCell runs the test in every cell, in parallel.
func everyCell(t *testing.T, test func(t *testing.T, is *is.I, s *suite)) {
	t.Helper()
	cellsOf(t, []kind{v2Kind, v1Kind, orderedKind, batchKind}, test)
}

// cellsOf runs the test in the cells of these kinds, in parallel.
func cellsOf(t *testing.T, kinds []kind, test func(t *testing.T, is *is.I, s *suite)) {
	t.Helper()
	t.Parallel()
	for _, k := range kinds {
		for _, at := range []setup{{true, 1}, {true, 3}, {false, 1}, {false, 3}} {
			t.Run(k.name+"/"+at.String(), func(t *testing.T) {
				t.Parallel()
				test(t, is.New(t), &suite{newGroup(t, at), k})
			})
		}
	}
}

// suiteHandler gets the events of one invocation: of a batch, or a single one.
type suiteHandler func(ctx context.Context, es []*pulse.Event[order]) error

// attach subscribes one client in the way of the cell.
func (s *suite) attach(t *testing.T, topic pulse.Topic[order], c *pulse.Client, handle suiteHandler, more ...pulse.SubscribeOption) *pulse.Subscription {
	t.Helper()
	var sub *pulse.Subscription
	var err error
	opts := append(slices.Clone(s.opts), more...)
	if s.batch > 0 {
		sub, err = topic.SubscribeBatch(t.Context(), c, s.batch, handle, opts...)
	} else {
		sub, err = topic.Subscribe(t.Context(), c, func(ctx context.Context, e *pulse.Event[order]) error {
			return handle(ctx, []*pulse.Event[order]{e})
		}, opts...)
	}
	is.New(t).NoErr(err)
	return sub
}

// attachAll subscribes all clients to orderedTopic.
func (s *suite) attachAll(t *testing.T, handle suiteHandler, more ...pulse.SubscribeOption) {
	t.Helper()
	for _, c := range s.clients {
		s.attach(t, orderedTopic, c, handle, more...)
	}
}

// oneByOne makes batches of one event, for tests of single deliveries.
func (s *suite) oneByOne() { s.batch = min(s.batch, 1) }

// inHistory tells where the kind stores its attempts: in the history, or on the delivery.
func (s *suite) inHistory() bool { return s.batch == 0 && s.name != v2Kind.name }

// state is the kind's name of a delivery's state pending, success or error.
func (s *suite) state(state string) string {
	if s.inHistory() {
		return state
	}
	return "v2-" + state
}

// suiteDelivery is a delivery with its attempts, wherever they are stored.
type suiteDelivery struct {
	bson.Raw
	attempts []bson.Raw
}

// ended waits until exactly n deliveries of the group have ended as success or error, with everything that
// belongs to the end, and returns them in the order of their events.
func (s *suite) ended(t *testing.T, state string, n int) []suiteDelivery {
	t.Helper()
	docs := eventually(t, n, deliveriesOf(s.db), bson.D{
		{Key: "consumerGroup", Value: "billing"}, {Key: "status", Value: s.state(state)}, {Key: "needsReconciliation", Value: nil},
	})
	return s.withAttempts(t, docs)
}

// all returns the group's deliveries as they are now.
func (s *suite) all(t *testing.T) []suiteDelivery {
	t.Helper()
	return s.withAttempts(t, mustFind(t, deliveriesOf(s.db), bson.D{{Key: "consumerGroup", Value: "billing"}}))
}

// withAttempts reads the attempts of deliveries, and sorts these by their events.
func (s *suite) withAttempts(t *testing.T, docs []bson.Raw) []suiteDelivery {
	t.Helper()
	history := attemptsV1(t, s.db)
	out := make([]suiteDelivery, len(docs))
	for i, d := range docs {
		out[i] = suiteDelivery{d, history[d.Lookup("_id").StringValue()]}
		if !s.inHistory() {
			is.New(t).Equal(len(out[i].attempts), 0) // nothing in the history
			out[i].attempts = attemptsIn(d)
		}
	}
	slices.SortFunc(out, func(a, b suiteDelivery) int { return a.sequence().Compare(b.sequence()) })
	return out
}

func (d suiteDelivery) sequence() bson.Timestamp {
	t, i := d.Lookup("eventSequence").Timestamp()
	return bson.Timestamp{T: t, I: i}
}

// waiting checks that the delivery waits for its first attempt as if it had never been claimed.
func (s *suite) waiting(t *testing.T, d suiteDelivery) {
	t.Helper()
	is := is.New(t)
	is.Equal(d.Lookup("status").StringValue(), s.state("pending"))
	claim := d.Raw
	if s.inHistory() {
		is.Equal(len(d.attempts), 1)
		claim = d.attempts[0]
		is.Equal(claim.Lookup("status").StringValue(), "pending")
		is.Equal(claim.Lookup("attempt").AsInt64(), int64(1))
	} else {
		is.Equal(len(d.attempts), 0)
		is.Equal(claim.Lookup("attempt").AsInt64(), int64(0))
	}
	token := claim.Lookup("lockToken")
	is.True(token.Type == 0 || token.Type == bson.TypeNull)
}

// delays returns the pauses that were scheduled between the attempts.
func (d suiteDelivery) delays() []time.Duration {
	var out []time.Duration
	for i := 1; i < len(d.attempts); i++ {
		out = append(out, dateIn(d.attempts[i], "nextAttemptAt").Sub(dateIn(d.attempts[i-1], "endedAt")))
	}
	return out
}

// numbered returns the numbers of events.
func numbered(es []*pulse.Event[order]) []int {
	out := make([]int, len(es))
	for i, e := range es {
		out[i] = e.Data.Number
	}
	return out
}

// another starts a client of another group in the database.
func another(t *testing.T, db *mongo.Database, group string) *pulse.Client {
	t.Helper()
	config := fast(db)
	config.ConsumerGroup = group
	return newClient(t, db, config)
}

// publishFrom publishes n orders with headers, numbered from first, with one insert.
func publishFrom(t *testing.T, c *pulse.Client, first, n int) []*pulse.Event[order] {
	t.Helper()
	is := is.New(t)
	messages := make([]pulse.Message[order], n)
	for i := range messages {
		messages[i] = pulse.Message[order]{Data: order{first + i, "note"}, Headers: map[string]string{"n": fmt.Sprint(first + i)}}
	}
	results, err := orderedTopic.PublishMany(t.Context(), c, messages)
	is.NoErr(err)
	out := make([]*pulse.Event[order], n)
	for i, r := range results {
		is.NoErr(r.Err)
		out[i] = r.Event
	}
	return out
}
