package pulsetest

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/matryer/is"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/orionjs/orion-go/pulse/internal/clock"
)

func TestURI_MissingServerSaysWhatToRun(t *testing.T) {
	if testing.Short() {
		t.Skip("URI skips under -short")
	}
	t.Setenv(uriVariable, "")
	wantParts(t, (&fakeT{TB: t}).run(func(t testing.TB) { Database(t) }),
		"MONGODB_URI is not set", "go tool pulse dev -- go test ./...", "make test")
}

func TestDatabase_IsTheTestsOwnAndDroppedAfterIt(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	client := Client(t)
	var names []string
	var used *mongo.Client
	t.Run("use", func(t *testing.T) {
		for range 2 {
			db := Database(t)
			_, err := db.Collection("things").InsertOne(t.Context(), bson.D{})
			is.NoErr(err)
			names, used = append(names, db.Name()), db.Client()
			is.True(len(db.Name()) <= 20)
		}
		is.True(names[0] != names[1])
		found, err := client.ListDatabaseNames(t.Context(), bson.D{})
		is.NoErr(err)
		is.True(slices.Contains(found, names[0]) && slices.Contains(found, names[1]))
	})
	found, err := client.ListDatabaseNames(t.Context(), bson.D{})
	is.NoErr(err)
	is.True(!slices.Contains(found, names[0]) && !slices.Contains(found, names[1]))
	is.True(errors.Is(used.Ping(t.Context(), nil), mongo.ErrClientDisconnected))
}

func TestClient_MayBeDisconnectedByTheTest(t *testing.T) {
	t.Parallel()
	is.New(t).NoErr(Client(t).Disconnect(t.Context()))
}

func TestCommandMonitor_CountsByName(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	commands := NewCommandMonitor()
	things := Client(t, commands.Watch).Database(Database(t).Name()).Collection("things")
	for range 3 {
		_, err := things.InsertOne(t.Context(), bson.D{})
		is.NoErr(err)
	}
	is.NoErr(things.FindOne(t.Context(), bson.D{}).Err())
	is.Equal(commands.Counts(), map[string]int{"insert": 3, "find": 1})
	is.Equal([]int{commands.Count(), commands.Count("insert"), commands.Count("find", "update")}, []int{4, 3, 1})
	is.Equal(commands.String(), "find 1, insert 3")
	commands.Reset()
	is.Equal(commands.Count(), 0)
}

// ping asks the server with little patience.
func ping(t *testing.T, client *mongo.Client, patience time.Duration) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	return client.Ping(ctx, nil)
}

func TestProxy_FailsAsItIsTold(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	proxy := NewProxy(t)
	client := Client(t, proxy.Use, func(o *options.ClientOptions) { o.SetHeartbeatInterval(500 * time.Millisecond) })
	works := func(what string) {
		t.Helper()
		Eventually(t, what, func(ctx context.Context) error { return client.Ping(ctx, nil) })
	}
	works("the proxy passes bytes")

	proxy.Cut()
	is.True(ping(t, client, 200*time.Millisecond) != nil)
	proxy.Restore()
	works("the connection returns after Cut")

	proxy.BlackHole()
	proxy.BlackHole() // the same again changes nothing
	is.True(mongo.IsTimeout(ping(t, client, 200*time.Millisecond)))
	proxy.Restore()
	works("the connection returns after BlackHole")

	proxy.Delay(50 * time.Millisecond)
	start := clock.Now()
	works("a slow connection")
	is.True(clock.Since(start) >= 100*time.Millisecond) // there and back
	proxy.Restore()

	other, err := mongo.Connect(options.Client().ApplyURI(proxy.URI()))
	is.NoErr(err)
	is.NoErr(other.Ping(t.Context(), nil))
	is.NoErr(other.Disconnect(t.Context()))
}

func TestFailPoint_FailsOneApplicationOnly(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	db := Database(t)
	app := db.Name()
	things := Client(t, func(o *options.ClientOptions) {
		o.SetAppName(app).SetRetryWrites(false)
	}).Database(app).Collection("things")
	insert := func(c *mongo.Collection) error {
		_, err := c.InsertOne(t.Context(), bson.D{})
		return err
	}
	fail := NewFailPoint(t, db.Client())

	fail.Set(Failure{AppName: app, Commands: []string{"insert"}, Times: 1, ErrorCode: 112, ErrorLabels: []string{"TransientTransactionError"}})
	is.NoErr(insert(db.Collection("things"))) // another application
	var answer mongo.ServerError
	is.True(errors.As(insert(things), &answer))
	is.True(answer.HasErrorCode(112) && answer.HasErrorLabel("TransientTransactionError"))
	is.NoErr(insert(things)) // once only

	fail.Set(Failure{AppName: app, Commands: []string{"insert"}, Times: 1, CloseConnection: true})
	is.True(mongo.IsNetworkError(insert(things)))

	fail.Set(Failure{AppName: app, Commands: []string{"insert"}, Block: 100 * time.Millisecond})
	start := clock.Now()
	is.NoErr(insert(things))
	is.NoErr(insert(things))
	is.True(clock.Since(start) >= 200*time.Millisecond)
	fail.Off()

	wantParts(t, (&fakeT{TB: t}).run(func(t testing.TB) {
		(&FailPoint{t: t}).Set(Failure{Commands: []string{"insert"}})
	}), "needs AppName")
}
