package store_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/orionjs/orion-go/pulse/internal/store"
	"github.com/orionjs/orion-go/pulse/pulsetest"
)

// restrictedUser returns the database as a user sees it who may do everything but create indexes. A server
// that runs without access control lets any user do anything: there the same answers come from a fail
// point.
func restrictedUser(t *testing.T, db *mongo.Database) *mongo.Database {
	t.Helper()
	is := is.New(t)
	admin := db.Client().Database("admin")
	name := db.Name()
	is.NoErr(admin.RunCommand(t.Context(), bson.D{
		{Key: "createRole", Value: name},
		{Key: "privileges", Value: bson.A{bson.D{
			{Key: "resource", Value: bson.D{{Key: "db", Value: name}, {Key: "collection", Value: ""}}},
			{Key: "actions", Value: bson.A{"find", "insert", "update", "remove", "listIndexes", "changeStream"}},
		}}},
		{Key: "roles", Value: bson.A{}},
	}).Err())
	is.NoErr(admin.RunCommand(t.Context(), bson.D{
		{Key: "createUser", Value: name},
		{Key: "pwd", Value: "secret"},
		{Key: "roles", Value: bson.A{bson.D{{Key: "role", Value: name}, {Key: "db", Value: "admin"}}}},
	}).Err())
	t.Cleanup(func() {
		is.NoErr(admin.RunCommand(context.Background(), bson.D{{Key: "dropUser", Value: name}}).Err())
		is.NoErr(admin.RunCommand(context.Background(), bson.D{{Key: "dropRole", Value: name}}).Err())
	})
	user := pulsetest.Client(t, func(o *options.ClientOptions) {
		o.SetAppName(name).SetAuth(options.Credential{AuthSource: "admin", Username: name, Password: "secret"})
	}).Database(name)
	probe := mongo.IndexModel{Keys: indexKeys("a")}
	if _, err := user.Collection("probe").Indexes().CreateOne(t.Context(), probe); err == nil {
		t.Log("the server runs without access control: its refusals come from a fail point")
		pulsetest.NewFailPoint(t, db.Client()).Set(pulsetest.Failure{
			AppName: name, Commands: []string{"createIndexes"}, ErrorCode: 13,
		})
		_, err = user.Collection("probe").Indexes().CreateOne(t.Context(), mongo.IndexModel{Keys: indexKeys("b")})
		is.True(err != nil)
	}
	return user
}

func TestEnsureIndexes_6_1_WithoutTheRightToCreate(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	db := pulsetest.Database(t)
	user := restrictedUser(t, db)

	// Nothing is there: every index is named, with its command.
	_, err := store.EnsureIndexes(t.Context(), user, indexPrefix)
	found := indexError(t, err)
	is.Equal(len(found.Problems), len(wantIndexes))
	for _, p := range found.Problems {
		is.True(strings.Contains(p.Problem, "lacks the right"))
		is.True(strings.Contains(err.Error(), p.Commands[0]))
	}

	// Somebody with the right runs the commands; then the user can start.
	for _, p := range found.Problems {
		runShell(t, db.Client(), p.Commands)
	}
	is.Equal(readIndexes(t, db), wantIndexes)
	warnings, err := store.EnsureIndexes(t.Context(), user, indexPrefix)
	is.NoErr(err)
	is.Equal(len(warnings), 0)
}

func TestEnsureIndexes_6_1_RacesAreReadAgain(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		code int
	}{
		{"collection created meanwhile", 48},
		{"index created meanwhile under another name", 85},
		{"index created meanwhile", 86},
		{"index build running", 285},
		{"primary changed", 10107},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			db := pulsetest.Database(t)
			client := pulsetest.Client(t, func(o *options.ClientOptions) {
				// A new primary is looked for at the next heartbeat.
				o.SetAppName(db.Name()).SetHeartbeatInterval(500 * time.Millisecond)
			})
			// Four first tries and a few of the second.
			pulsetest.NewFailPoint(t, db.Client()).Set(pulsetest.Failure{
				AppName: db.Name(), Commands: []string{"createIndexes"}, Times: 7, ErrorCode: c.code,
			})
			warnings, err := store.EnsureIndexes(t.Context(), client.Database(db.Name()), indexPrefix)
			is.NoErr(err)
			is.Equal(len(warnings), 0)
			is.Equal(readIndexes(t, db), wantIndexes)
		})
	}
}

func TestEnsureIndexes_6_1_LastingRefusal(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	db := pulsetest.Database(t)
	createIndex(t, db, "deliveries", indexKeys("consumerGroup", "topic"), options.Index().SetName("own"))
	client := pulsetest.Client(t, func(o *options.ClientOptions) { o.SetAppName(db.Name()) })
	// What a server answers that does not tell a partial index from a full one.
	pulsetest.NewFailPoint(t, db.Client()).Set(pulsetest.Failure{
		AppName: db.Name(), Commands: []string{"createIndexes"}, ErrorCode: 85,
	})
	_, err := store.EnsureIndexes(t.Context(), client.Database(db.Name()), indexPrefix)
	found := indexError(t, err)
	is.Equal(len(found.Problems), len(wantIndexes))
	for _, p := range found.Problems {
		if p.Index == "pulse_deliveries_reconciliation" {
			is.True(strings.Contains(p.Problem, `index "own" has the same keys and stands in its way`))
			is.True(strings.Contains(p.Commands[0], `dropIndex("own")`))
		} else {
			is.True(strings.Contains(p.Problem, "the server does not create it"))
		}
	}
}

func TestEnsureIndexes_6_1_WithoutTheRightToList(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	db := pulsetest.Database(t)
	client := pulsetest.Client(t, func(o *options.ClientOptions) { o.SetAppName(db.Name()) })
	pulsetest.NewFailPoint(t, db.Client()).Set(pulsetest.Failure{
		AppName: db.Name(), Commands: []string{"listIndexes"}, ErrorCode: 13,
	})
	_, err := store.EnsureIndexes(t.Context(), client.Database(db.Name()), indexPrefix)
	for _, suffix := range []string{"events", "subscriptions", "deliveries", "history"} {
		is.True(strings.Contains(err.Error(), "list the indexes of "+db.Name()+".orionjs.pulse."+suffix))
	}
	is.True(strings.Contains(err.Error(), "grant this user the action listIndexes"))
}
