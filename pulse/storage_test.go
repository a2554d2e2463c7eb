package pulse_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/orionjs/orion-go/pulse"
	"github.com/orionjs/orion-go/pulse/pulsetest"
)

// uuidV7 matches the IDs that Pulse makes.
var uuidV7 = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)

// layoutOf writes a document as one line a field, sorted: its name, its type, and its value where that is the
// same in every run.
func layoutOf(d bson.Raw) []string {
	elements, _ := d.Elements()
	var lines []string
	for _, e := range elements {
		value := layoutOfValue(e.Value())
		if e.Key() == "durationMs" && e.Value().Type == bson.TypeInt32 {
			value = "milliseconds"
		}
		lines = append(lines, e.Key()+" "+value)
	}
	slices.Sort(lines)
	return lines
}

func layoutOfValue(v bson.RawValue) string {
	switch v.Type {
	case bson.TypeDateTime:
		return "date"
	case bson.TypeTimestamp:
		return "timestamp"
	case bson.TypeString:
		switch s := v.StringValue(); {
		case uuidV7.MatchString(s):
			return "id"
		case strings.HasPrefix(s, "go:"):
			return "owner"
		case len(s) == 36 && strings.Count(s, "-") == 4:
			return "token"
		default:
			return fmt.Sprintf("%q", s)
		}
	case bson.TypeArray:
		values, _ := v.Array().Values()
		var parts []string
		for _, element := range values {
			parts = append(parts, layoutOfValue(element))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case bson.TypeEmbeddedDocument:
		return "{" + strings.Join(layoutOf(v.Document()), ", ") + "}"
	default:
		return v.String()
	}
}

// plus returns the lines and further ones, in order.
func plus(lines []string, more ...string) []string {
	return slices.Sorted(slices.Values(append(slices.Clone(lines), more...)))
}

// dateIn returns a date of a document.
func dateIn(d bson.Raw, key string) time.Time { return d.Lookup(key).Time() }

var (
	activeFields = []string{"attemptCreatedAt date", "attemptId id", "nextAttemptAt date"}
	claimFields  = []string{"heartbeatAt date", "lockOwner owner", "lockToken token", "lockedAt date", "lockedUntil date", "startedAt date"}
	baseFields   = []string{"_id id", "consumerGroup \"billing\"", "createdAt date", "eventCreatedAt date", "eventId id", "eventSequence timestamp", "topic \"order.created\"", "updatedAt date"}
	endFields    = []string{"endedAt date", "expiresAt date"}
	notYet       = `error {code "handler_error", message "not yet", name "*errors.errorString"}`
)

// attemptLayout is a completed attempt, with its error if it has one.
func attemptLayout(n int, status, notYet string) string {
	fields := []string{
		fmt.Sprint("attempt ", `{"$numberInt":"`, n, `"}`), "_id id", "createdAt date", "durationMs milliseconds", "endedAt date", "heartbeatAt date",
		"lockOwner owner", "lockToken token", "lockedAt date", "lockedUntil date", "nextAttemptAt date", "startedAt date", fmt.Sprintf("status %q", status),
	}
	if notYet != "" {
		fields = append(fields, notYet)
	}
	return "{" + strings.Join(slices.Sorted(slices.Values(fields)), ", ") + "}"
}

func int32Field(name string, n int) string { return fmt.Sprintf(`%s {"$numberInt":"%d"}`, name, n) }

// Each step of a delivery's life, as stored, for a single event and for a batch.
func TestStorage_4_10_DocumentsAtEachStep(t *testing.T) {
	t.Parallel()
	for _, batch := range []bool{false, true} {
		t.Run(fmt.Sprint("batch=", batch), func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			db := pulsetest.Database(t)
			config := fast(db)
			config.WorkerCount = 1
			c := startClient(t, config)
			size, base := 1, append(slices.Clone(baseFields), int32Field("executionVersion", 2))
			if batch {
				size, base = 2, append(slices.Clone(baseFields), "eventIds [id, id]") // and no executionVersion: the bridge would run it
			}
			// Nobody handles it yet: the only worker is busy with another topic.
			blocked, begun := make(chan struct{}), make(chan struct{})
			blocker := pulse.NewTopic[order]("blocker")
			_, err := blocker.Subscribe(t.Context(), c, func(context.Context, *pulse.Event[order]) error {
				close(begun)
				<-blocked
				return nil
			}, unordered()...)
			is.NoErr(err)
			published(t, blocker, c, 0)
			<-begun
			publishMany(t, deliverOrders, c, size)
			results := make(chan error)
			running := make(chan int)
			handle := func(attempt int) error {
				running <- attempt
				return <-results
			}
			opts := []pulse.SubscribeOption{pulse.OffsetReset(pulse.Earliest), pulse.MaxRetries(1), pulse.RetryDelay(time.Hour)}
			if batch {
				_, err = deliverOrders.SubscribeBatch(t.Context(), c, 2, func(_ context.Context, es []*pulse.Event[order]) error { return handle(es[0].Attempt) }, opts...)
			} else {
				_, err = deliverOrders.Subscribe(t.Context(), c, func(_ context.Context, e *pulse.Event[order]) error { return handle(e.Attempt) }, unordered(opts...)...)
			}
			is.NoErr(err)
			mine := bson.D{{Key: "topic", Value: "order.created"}}

			pending := eventually(t, 1, deliveriesOf(db), mine)[0]
			is.Equal(layoutOf(pending), plus(plus(base, activeFields...), `status "v2-pending"`, int32Field("attempt", 0), "attempts []"))
			is.True(!dateIn(pending, "nextAttemptAt").After(time.Now().Add(time.Minute)))

			close(blocked)
			is.Equal(<-running, 1)
			claimed := only(t, deliveriesOf(db), mine)
			is.Equal(layoutOf(claimed), plus(plus(plus(base, activeFields...), claimFields...), `status "v2-processing"`, int32Field("attempt", 1), "attempts []"))
			for _, field := range []string{"attemptId", "attemptCreatedAt", "nextAttemptAt", "createdAt"} {
				is.Equal(claimed.Lookup(field), pending.Lookup(field)) // as scheduled
			}
			is.Equal(claimed.Lookup("lockedUntil").Time().Sub(claimed.Lookup("lockedAt").Time()), 30*time.Second)

			results <- errors.New("not yet")
			retry := eventually(t, 1, deliveriesOf(db), append(bson.D{{Key: "status", Value: "v2-pending"}}, mine...))[0]
			first := attemptLayout(1, "error", notYet)
			is.Equal(layoutOf(retry), plus(plus(base, activeFields...), `status "v2-pending"`, int32Field("attempt", 1), "attempts ["+first+"]"))
			is.True(!retry.Lookup("attemptId").Equal(claimed.Lookup("attemptId"))) // new for each attempt
			attempt := attemptsIn(retry)[0]
			is.Equal(attempt.Lookup("_id"), claimed.Lookup("attemptId"))
			is.Equal(attempt.Lookup("lockToken"), claimed.Lookup("lockToken"))
			is.Equal(dateIn(attempt, "createdAt"), dateIn(claimed, "attemptCreatedAt"))
			is.Equal(dateIn(retry, "attemptCreatedAt"), dateIn(attempt, "endedAt"))
			is.Equal(dateIn(retry, "nextAttemptAt"), dateIn(attempt, "endedAt").Add(time.Hour))
			is.Equal(dateIn(attempt, "endedAt").Sub(dateIn(attempt, "startedAt")).Milliseconds(), attempt.Lookup("durationMs").AsInt64())

			// As if the hour had passed.
			_, err = deliveriesOf(db).UpdateMany(t.Context(), mine, bson.D{{Key: "$set", Value: bson.D{{Key: "nextAttemptAt", Value: dateIn(pending, "createdAt")}}}})
			is.NoErr(err)
			is.Equal(<-running, 2)
			again := only(t, deliveriesOf(db), mine)
			is.Equal(layoutOf(again), plus(plus(plus(base, activeFields...), claimFields...), `status "v2-processing"`, int32Field("attempt", 2), "attempts ["+first+"]"))
			is.True(!again.Lookup("lockToken").Equal(claimed.Lookup("lockToken"))) // a fresh one for each claim

			results <- errors.New("not yet")
			failed := eventually(t, 1, deliveriesOf(db), append(bson.D{{Key: "status", Value: "v2-error"}}, mine...))[0]
			is.Equal(layoutOf(failed), plus(plus(base, endFields...), `status "v2-error"`, notYet, int32Field("attempt", 2), int32Field("finalAttempt", 2),
				"attempts ["+first+", "+attemptLayout(2, "error", notYet)+"]"))
			is.Equal(dateIn(failed, "expiresAt"), dateIn(failed, "endedAt").Add(7*24*time.Hour))
			is.Equal(dateIn(failed, "endedAt"), dateIn(attemptsIn(failed)[1], "endedAt"))

			publishMany(t, deliverOrders, c, size)
			is.Equal(<-running, 1)
			results <- nil
			done := eventually(t, 1, deliveriesOf(db), append(bson.D{{Key: "status", Value: "v2-success"}}, mine...))[0]
			is.Equal(layoutOf(done), plus(plus(base, endFields...), `status "v2-success"`, int32Field("attempt", 1), int32Field("finalAttempt", 1),
				"attempts ["+attemptLayout(1, "success", "")+"]"))
			is.Equal(dateIn(done, "expiresAt"), dateIn(done, "endedAt").Add(7*24*time.Hour))
			closeClient(t, c)
			n, err := historyOf(db).CountDocuments(t.Context(), bson.D{})
			is.NoErr(err)
			is.Equal(n, int64(0)) // nothing in the history
		})
	}
}

// A normal success is one claim, which is stored with the delivery when its leader has room for it, and one completion:
// nothing else is written to it.
func TestStorage_4_10_OneClaimAndOneCompletion(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	db := pulsetest.Database(t)
	var writes pulsetest.Recorder[string]
	c := startClient(t, slow(db), func(o *options.ClientOptions) {
		o.SetMonitor(&event.CommandMonitor{Started: func(_ context.Context, e *event.CommandStartedEvent) {
			if coll, _ := e.Command.Lookup(e.CommandName).StringValueOK(); strings.HasSuffix(coll, ".deliveries") && e.CommandName != "find" && e.CommandName != "aggregate" {
				writes.Add(e.CommandName)
			}
		}})
	})
	g := &group{db: db, clients: []*pulse.Client{c}}
	g.handleAll(t)
	var want []string
	for i := range 10 {
		published(t, deliverOrders, c, i)
		eventually(t, i+1, deliveriesOf(db), bson.D{{Key: "status", Value: "v2-success"}})
		want = append(want, "insert", "update")
	}
	g.close(t)
	is.Equal(writes.Values()[2:], want) // after listIndexes and createIndexes
}

// A backlog takes far fewer commands than it has events.
func TestStorage_4_10_CommandsForEachEvent(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name          string
		batch, events int
		atMost        int // of all commands, for each hundred events
	}{
		{"single", 0, 600, 100},
		{"batches of 100", 100, 2000, 9},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			db := pulsetest.Database(t)
			publishMany(t, deliverOrders, startClient(t, fast(db)), c.events)
			commands := pulsetest.NewCommandMonitor()
			g := &group{db: db, clients: []*pulse.Client{startClient(t, slow(db), commands.Watch)}}
			commands.Reset()
			if c.batch > 0 {
				g.handleBatches(t, c.batch).WaitFor(t, "all events", holds(c.events))
			} else {
				g.handleAll(t).Wait(t, c.events)
			}
			g.close(t)
			n, err := deliveriesOf(db).CountDocuments(t.Context(), bson.D{{Key: "status", Value: "v2-success"}})
			is.NoErr(err)
			is.Equal(int(n), c.events/max(c.batch, 1))
			t.Log(commands)
			is.True(commands.Count() <= c.atMost*c.events/100)
		})
	}
}

// slow is fast without the polls and renewals of short intervals, which a count would measure too.
func slow(db *mongo.Database) pulse.Config {
	config := fast(db)
	config.PollInterval, config.DiscoveryLockTimeout = never, time.Minute
	return config
}
