package pulsetest

import (
	"context"
	"crypto/rand"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// uriVariable names the environment variable with the server of the tests.
const uriVariable = "MONGODB_URI"

// cleanupTimeout bounds what happens after a test: dropping its database and closing its clients.
const cleanupTimeout = 15 * time.Second

// URI returns the server of the tests, the environment variable MONGODB_URI. Under -short the test is
// skipped. Without the variable it fails: a suite that silently tests nothing is worse than a red one.
func URI(t testing.TB) string {
	t.Helper()
	if testing.Short() {
		t.Skip("needs a MongoDB server; not run under -short")
	}
	uri := os.Getenv(uriVariable)
	if uri == "" {
		t.Fatalf("%s is not set: run `go tool pulse dev -- go test ./...`, which brings up a server (once before: go get -tool github.com/orionjs/orion-go/cmd/pulse; in that repository itself: make test), or set it to a server of yours; -short leaves out what needs one", uriVariable)
	}
	return uri
}

// Database returns a database that is this test's own: it is empty, its name is short and unique, it is
// dropped when the test and its subtests have ended, and its client, which no other test shares, is
// disconnected. See URI for what happens without a server.
func Database(t testing.TB) *mongo.Database {
	t.Helper()
	client := Client(t)
	db := client.Database("pt_" + strings.ToLower(rand.Text()[:12]))
	t.Cleanup(func() { // before the client's own clean-up: last in, first out
		ctx, cancel := context.WithTimeout(context.Background(), cleanupTimeout)
		defer cancel()
		if err := db.Drop(ctx); err != nil {
			t.Errorf("drop the test's database %s: %v", db.Name(), err)
		}
	})
	return db
}

// Client returns a connected client of its own on URI, disconnected when the test and its subtests have
// ended. The functions change its options before it connects: a command monitor, an application name, the
// address of a Proxy. A test that plays several processes on one database takes its name from Database and
// a client for each of them.
//
// Disconnecting ends the driver's goroutines, so that goleak in TestMain finds none of them. A test that
// checks with goleak.VerifyNone must do so in a Cleanup that it registers before it calls Database or Client.
func Client(t testing.TB, configure ...func(*options.ClientOptions)) *mongo.Client {
	t.Helper()
	opts := options.Client().ApplyURI(URI(t))
	for _, f := range configure {
		f(opts)
	}
	client, err := mongo.Connect(opts)
	if err != nil {
		t.Fatalf("connect to %s: %v", uriVariable, err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), cleanupTimeout)
		defer cancel()
		// A test may have disconnected it already.
		if err := client.Disconnect(ctx); err != nil && !errors.Is(err, mongo.ErrClientDisconnected) {
			t.Errorf("disconnect the test's client: %v", err)
		}
	})
	return client
}
