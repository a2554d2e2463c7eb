package store_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/matryer/is"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/orionjs/orion-go/pulse/internal/store"
	"github.com/orionjs/orion-go/pulse/pulsetest"
)

const indexPrefix = "orionjs.pulse"

// wantIndexes is the list of storage.md, written down a second time: what other clients look for.
var wantIndexes = []string{
	`deliveries pulse_deliveries_expires_at_ttl {"expiresAt":1} ttl=0`,
	`deliveries pulse_deliveries_group_event_unique {"consumerGroup":1,"eventId":1} unique`,
	`deliveries pulse_deliveries_reconciliation {"consumerGroup":1,"topic":1} {"needsReconciliation":true}`,
	`deliveries pulse_deliveries_sequence_acquisition {"consumerGroup":1,"topic":1,"status":1,"eventSequence":1,"eventId":1}`,
	`deliveries pulse_deliveries_v2_pending {"consumerGroup":1,"nextAttemptAt":1,"createdAt":1,"topic":1} {"status":"v2-pending"}`,
	`deliveries pulse_deliveries_v2_processing {"consumerGroup":1,"lockedUntil":1,"topic":1} {"status":"v2-processing"}`,
	`events pulse_events_expires_at_ttl {"expiresAt":1} ttl=0`,
	`events pulse_events_topic_sequence_id {"topic":1,"sequence":1,"_id":1}`,
	`history pulse_history_delivery_attempt_unique {"deliveryId":1,"attempt":1} unique`,
	`history pulse_history_event {"eventId":1,"createdAt":-1}`,
	`history pulse_history_expires_at_ttl {"expiresAt":1} ttl=0`,
	`history pulse_history_group_dead_locks {"consumerGroup":1,"status":1,"lockedUntil":1}`,
	`history pulse_history_group_topic_created {"consumerGroup":1,"topic":1,"createdAt":-1,"_id":-1}`,
	`history pulse_history_pending_acquisition {"consumerGroup":1,"topic":1,"status":1,"nextAttemptAt":1,"createdAt":1}`,
	`history pulse_history_reconciliation {"consumerGroup":1,"topic":1} {"needsReconciliation":true}`,
	`subscriptions pulse_subscriptions_discovery_lease {"consumerGroup":1,"discoveryLockedUntil":1}`,
	`subscriptions pulse_subscriptions_group_topic_unique {"consumerGroup":1,"topic":1} unique`,
}

// readIndexes reads all indexes but those on _id in the form of wantIndexes.
func readIndexes(t *testing.T, db *mongo.Database) []string {
	t.Helper()
	is := is.New(t)
	var lines []string
	for _, suffix := range []string{"events", "subscriptions", "deliveries", "history"} {
		cursor, err := db.Collection(indexPrefix + "." + suffix).Indexes().List(t.Context())
		is.NoErr(err)
		var entries []bson.Raw
		is.NoErr(cursor.All(t.Context(), &entries))
		for _, x := range entries {
			name := x.Lookup("name").StringValue()
			if name == "_id_" {
				continue
			}
			line := fmt.Sprintf("%s %s %s", suffix, name, indexJSON(t, x.Lookup("key").Document()))
			if unique, _ := x.Lookup("unique").BooleanOK(); unique {
				line += " unique"
			}
			if filter, ok := x.Lookup("partialFilterExpression").DocumentOK(); ok {
				line += " " + indexJSON(t, filter)
			}
			if seconds, ok := x.Lookup("expireAfterSeconds").AsInt64OK(); ok {
				line += fmt.Sprintf(" ttl=%d", seconds)
			}
			lines = append(lines, line)
		}
	}
	slices.Sort(lines)
	return lines
}

func indexJSON(t *testing.T, document any) string {
	t.Helper()
	text, err := bson.MarshalExtJSON(document, false, false)
	is.New(t).NoErr(err)
	return string(text)
}

// createIndex puts an index there before EnsureIndexes looks.
func createIndex(t *testing.T, db *mongo.Database, suffix string, keys bson.D, opts *options.IndexOptionsBuilder) {
	t.Helper()
	_, err := db.Collection(indexPrefix+"."+suffix).Indexes().CreateOne(t.Context(), mongo.IndexModel{Keys: keys, Options: opts})
	is.New(t).NoErr(err)
}

func indexKeys(names ...string) bson.D {
	var keys bson.D
	for _, name := range names {
		keys = append(keys, bson.E{Key: name, Value: 1})
	}
	return keys
}

func indexError(t *testing.T, err error) *store.IndexError {
	t.Helper()
	var found *store.IndexError
	if !errors.As(err, &found) {
		t.Fatalf("want an IndexError, got %v", err)
	}
	return found
}

// shellCommand is the form of every command that an IndexError tells to run.
var shellCommand = regexp.MustCompile(`^db\.getSiblingDB\("([^"]+)"\)\.(?:getCollection\("([^"]+)"\)\.)?(\w+)\((.*)\)$`)

// runShell does what mongosh does with the commands and returns what the last aggregate answered.
func runShell(t *testing.T, client *mongo.Client, commands []string) (answer []bson.M) {
	t.Helper()
	is := is.New(t)
	for _, command := range commands {
		parts := shellCommand.FindStringSubmatch(command)
		if parts == nil {
			t.Fatalf("not a command: %s", command)
		}
		var parsed struct{ Args bson.A }
		is.NoErr(bson.UnmarshalExtJSON([]byte(`{"args":[`+parts[4]+`]}`), false, &parsed))
		args, db := parsed.Args, client.Database(parts[1])
		run := func(command bson.D) { is.NoErr(db.RunCommand(t.Context(), command).Err()) }
		switch parts[3] {
		case "dropIndex":
			run(bson.D{{Key: "dropIndexes", Value: parts[2]}, {Key: "index", Value: args[0]}})
		case "createIndex":
			spec := append(bson.D{{Key: "key", Value: args[0]}}, args[1].(bson.D)...)
			run(bson.D{{Key: "createIndexes", Value: parts[2]}, {Key: "indexes", Value: bson.A{spec}}})
		case "unhideIndex":
			index := bson.D{{Key: "name", Value: args[0]}, {Key: "hidden", Value: false}}
			run(bson.D{{Key: "collMod", Value: parts[2]}, {Key: "index", Value: index}})
		case "runCommand":
			run(args[0].(bson.D))
		case "aggregate":
			cursor, err := db.Collection(parts[2]).Aggregate(t.Context(), args[0])
			is.NoErr(err)
			is.NoErr(cursor.All(t.Context(), &answer))
		default:
			t.Fatalf("unknown command: %s", command)
		}
	}
	return answer
}

func TestEnsureIndexes_6_1_CreatesTheListAndThenOnlyReads(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	db := pulsetest.Database(t)
	commands := pulsetest.NewCommandMonitor()
	watched := pulsetest.Client(t, commands.Watch).Database(db.Name())

	warnings, err := store.EnsureIndexes(t.Context(), watched, indexPrefix)
	is.NoErr(err)
	is.Equal(len(warnings), 0)
	is.Equal(readIndexes(t, db), wantIndexes)
	is.Equal(commands.Counts(), map[string]int{"listIndexes": 4, "createIndexes": 4})

	commands.Reset()
	warnings, err = store.EnsureIndexes(t.Context(), watched, indexPrefix)
	is.NoErr(err)
	is.Equal(len(warnings), 0)
	is.Equal(commands.Counts(), map[string]int{"listIndexes": 4})
}

func TestEnsureIndexes_6_1_CreatesOnlyWhatIsMissing(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	db := pulsetest.Database(t)
	commands := pulsetest.NewCommandMonitor()
	watched := pulsetest.Client(t, commands.Watch).Database(db.Name())
	_, err := store.EnsureIndexes(t.Context(), db, indexPrefix)
	is.NoErr(err)
	is.NoErr(db.Collection(indexPrefix+".history").Indexes().DropOne(t.Context(), "pulse_history_event"))
	is.NoErr(db.Collection(indexPrefix + ".events").Drop(t.Context()))

	_, err = store.EnsureIndexes(t.Context(), watched, indexPrefix)
	is.NoErr(err)
	is.Equal(readIndexes(t, db), wantIndexes)
	is.Equal(commands.Counts(), map[string]int{"listIndexes": 4, "createIndexes": 2})
}

func TestEnsureIndexes_6_1_ComparesByMeaning(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	db := pulsetest.Database(t)
	// The same written differently: directions as floating point, a filter with an operator, a long TTL.
	createIndex(t, db, "deliveries", bson.D{
		{Key: "consumerGroup", Value: 1.0},
		{Key: "lockedUntil", Value: int64(1)},
		{Key: "topic", Value: 1},
	}, options.Index().SetName("pulse_deliveries_v2_processing").
		SetPartialFilterExpression(bson.D{{Key: "status", Value: bson.D{{Key: "$eq", Value: "v2-processing"}}}}))
	// The name that newer Node clients give it, and all of them accept: nothing to say.
	createIndex(t, db, "deliveries", indexKeys("consumerGroup", "nextAttemptAt", "createdAt", "topic"),
		options.Index().SetName("pulse_deliveries_concurrent_pending").SetPartialFilterExpression(bson.D{{Key: "status", Value: "v2-pending"}}))
	// Another name: accepted, with a warning.
	createIndex(t, db, "events", indexKeys("expiresAt"), options.Index().SetName("events_ttl").SetExpireAfterSeconds(0))
	// The same keys serving another purpose: not ours, left alone.
	createIndex(t, db, "deliveries", indexKeys("consumerGroup", "topic"), options.Index().SetName("own"))

	warnings, err := store.EnsureIndexes(t.Context(), db, indexPrefix)
	is.NoErr(err)
	is.Equal(len(warnings), 1)
	if want := `index "events_ttl" of ` + db.Name() + `.orionjs.pulse.events does the work of "pulse_events_expires_at_ttl"`; !strings.Contains(warnings[0], want) {
		t.Errorf("warning %q, want %s", warnings[0], want)
	}
	is.Equal(len(readIndexes(t, db)), len(wantIndexes)+1)

	// The warning's commands rename it.
	runShell(t, db.Client(), strings.Split(warnings[0][strings.Index(warnings[0], "db."):], "; "))
	warnings, err = store.EnsureIndexes(t.Context(), db, indexPrefix)
	is.NoErr(err)
	is.Equal(len(warnings), 0)
}

func TestEnsureIndexes_6_1_ConflictsSayHowToMendThem(t *testing.T) {
	t.Parallel()
	v2Pending := indexKeys("consumerGroup", "nextAttemptAt", "createdAt", "topic")
	for _, c := range []struct {
		name, suffix, index string
		keys                bson.D
		opts                *options.IndexOptionsBuilder
		problem, command    string
	}{
		{
			"other keys", "events", "pulse_events_topic_sequence_id", indexKeys("topic", "_id", "sequence"), options.Index(),
			`has the keys {"topic":1,"_id":1,"sequence":1} instead of {"topic":1,"sequence":1,"_id":1}`, "dropIndex",
		},
		{
			"other direction", "history", "pulse_history_event", indexKeys("eventId", "createdAt"), options.Index(),
			`instead of {"eventId":1,"createdAt":-1}`, "dropIndex",
		},
		{
			"not unique", "subscriptions", "pulse_subscriptions_group_topic_unique", indexKeys("consumerGroup", "topic"), options.Index(),
			"is not unique", "dropIndex",
		},
		{
			"unique", "subscriptions", "pulse_subscriptions_discovery_lease", indexKeys("consumerGroup", "discoveryLockedUntil"), options.Index().SetUnique(true),
			"is unique and must not be", "dropIndex",
		},
		{
			"sparse", "history", "pulse_history_group_dead_locks", indexKeys("consumerGroup", "status", "lockedUntil"), options.Index().SetSparse(true),
			"is sparse", "dropIndex",
		},
		{
			"no filter", "deliveries", "pulse_deliveries_v2_pending", v2Pending, options.Index(),
			`covers all documents instead of {"status":"v2-pending"}`, "dropIndex",
		},
		{
			"other filter", "deliveries", "pulse_deliveries_v2_pending", v2Pending,
			options.Index().SetPartialFilterExpression(bson.D{{Key: "status", Value: "pending"}}),
			`covers {"status":"pending"} instead of {"status":"v2-pending"}`, "dropIndex",
		},
		{
			"a filter too many", "deliveries", "pulse_deliveries_group_event_unique", indexKeys("consumerGroup", "eventId"),
			options.Index().SetUnique(true).SetPartialFilterExpression(bson.D{{Key: "status", Value: "success"}}),
			`covers only {"status":"success"}`, "dropIndex",
		},
		{
			"later expiry", "events", "pulse_events_expires_at_ttl", indexKeys("expiresAt"), options.Index().SetExpireAfterSeconds(3600),
			"deletes documents 3600 seconds after their date", "collMod",
		},
		{
			"no expiry", "history", "pulse_history_expires_at_ttl", indexKeys("expiresAt"), options.Index(),
			"does not delete expired documents", "dropIndex",
		},
		{
			"hidden", "events", "pulse_events_topic_sequence_id", indexKeys("topic", "sequence", "_id"), options.Index().SetHidden(true),
			"is hidden", "unhideIndex",
		},
		{
			"collation", "events", "pulse_events_topic_sequence_id", indexKeys("topic", "sequence", "_id"),
			options.Index().SetCollation(&options.Collation{Locale: "en", Strength: 2}),
			"has the collation", "dropIndex",
		},
		{
			"same keys, later expiry, other name", "deliveries", "pulse_deliveries_expires_at_ttl:mine", indexKeys("expiresAt"),
			options.Index().SetExpireAfterSeconds(60),
			`index "mine" has the same keys and stands in its way: it deletes documents 60 seconds after`, "dropIndex",
		},
		{
			"same meaning but hidden, other name", "history", "pulse_history_event:mine",
			bson.D{{Key: "eventId", Value: 1}, {Key: "createdAt", Value: -1}},
			options.Index().SetHidden(true),
			`index "mine" has the same keys and stands in its way: it is hidden`, "dropIndex",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			db := pulsetest.Database(t)
			index, name, other := strings.Cut(c.index, ":")
			if !other {
				name = index
			}
			createIndex(t, db, c.suffix, c.keys, c.opts.SetName(name))
			before := readIndexes(t, db)

			_, err := store.EnsureIndexes(t.Context(), db, indexPrefix)
			found := indexError(t, err)
			is.Equal(len(found.Problems), 1)
			p := found.Problems[0]
			is.Equal([]string{p.Collection, p.Index}, []string{indexPrefix + "." + c.suffix, index})
			if !strings.Contains(p.Problem, c.problem) {
				t.Errorf("problem %q, want %q", p.Problem, c.problem)
			}
			if !strings.Contains(p.Commands[0], c.command) {
				t.Errorf("commands %q, want %s", p.Commands, c.command)
			}
			is.True(strings.Contains(err.Error(), p.Commands[0]))
			after := readIndexes(t, db)
			is.Equal(len(after), len(wantIndexes)) // the others were created
			for _, line := range before {
				is.True(slices.Contains(after, line)) // and nothing was changed
			}

			runShell(t, db.Client(), p.Commands)
			warnings, err := store.EnsureIndexes(t.Context(), db, indexPrefix)
			is.NoErr(err)
			is.Equal(len(warnings), 0)
			is.Equal(readIndexes(t, db), wantIndexes)
		})
	}
}

func TestEnsureIndexes_6_1_ReportsAllProblemsTogether(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	db := pulsetest.Database(t)
	createIndex(t, db, "events", indexKeys("topic"), options.Index().SetName("pulse_events_topic_sequence_id"))
	createIndex(t, db, "events", indexKeys("expiresAt"), options.Index().SetName("pulse_events_expires_at_ttl").SetExpireAfterSeconds(1))
	createIndex(t, db, "history", indexKeys("eventId"), options.Index().SetName("pulse_history_event"))
	duplicate := func(id string) bson.D {
		return bson.D{{Key: "_id", Value: id}, {Key: "consumerGroup", Value: "g"}, {Key: "eventId", Value: "e"}}
	}
	deliveries := db.Collection(indexPrefix + ".deliveries")
	_, err := deliveries.InsertMany(t.Context(), []any{duplicate("d1"), duplicate("d2")})
	is.NoErr(err)

	_, err = store.EnsureIndexes(t.Context(), db, indexPrefix)
	found := indexError(t, err)
	is.Equal(found.Database, db.Name())
	var names []string
	for _, p := range found.Problems {
		names = append(names, p.Index)
	}
	is.Equal(names, []string{
		"pulse_events_topic_sequence_id", "pulse_events_expires_at_ttl",
		"pulse_deliveries_group_event_unique", "pulse_history_event",
	})
	is.True(strings.Contains(err.Error(), "4 index problems"))
	is.True(mongo.IsDuplicateKeyError(err)) // the server's answer is kept

	// The duplicates are listed by the first command; with one removed the second builds the index.
	commands := found.Problems[2].Commands
	groups := runShell(t, db.Client(), commands[:1])
	is.Equal(len(groups), 1)
	is.Equal(groups[0]["ids"], bson.A{"d1", "d2"})
	_, err = deliveries.DeleteOne(t.Context(), bson.D{{Key: "_id", Value: "d2"}})
	is.NoErr(err)
	runShell(t, db.Client(), commands[1:])
	for _, i := range []int{0, 1, 3} {
		runShell(t, db.Client(), found.Problems[i].Commands)
	}
	_, err = store.EnsureIndexes(t.Context(), db, indexPrefix)
	is.NoErr(err)
	is.Equal(readIndexes(t, db), wantIndexes)
}

func TestEnsureIndexes_6_1_TwentyReplicasAtOnce(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	db := pulsetest.Database(t)
	const replicas = 20
	clients := make([]*mongo.Client, replicas)
	for i := range clients {
		clients[i] = pulsetest.Client(t)
		is.NoErr(clients[i].Ping(t.Context(), nil))
	}
	errs := make([]error, replicas)
	start := make(chan struct{})
	var all sync.WaitGroup
	for i, client := range clients {
		all.Go(func() {
			<-start
			var warnings []string
			warnings, errs[i] = store.EnsureIndexes(t.Context(), client.Database(db.Name()), indexPrefix)
			if len(warnings) > 0 {
				t.Errorf("replica %d: %q", i, warnings)
			}
		})
	}
	close(start)
	all.Wait()
	is.NoErr(errors.Join(errs...))
	is.Equal(readIndexes(t, db), wantIndexes)
}

func TestEnsureIndexes_IsBoundedByItsContext(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	db := pulsetest.Database(t)
	proxy := pulsetest.NewProxy(t)
	far := pulsetest.Client(t, proxy.Use).Database(db.Name())
	is.NoErr(far.Client().Ping(t.Context(), nil))
	proxy.BlackHole()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, err := store.EnsureIndexes(ctx, far, indexPrefix)
	is.True(errors.Is(err, context.DeadlineExceeded))
	is.True(strings.Contains(err.Error(), db.Name()+".orionjs.pulse.history")) // says where
}
