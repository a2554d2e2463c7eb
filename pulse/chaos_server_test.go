package pulse_test

import (
	"context"
	"crypto/rand"
	"errors"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/matryer/is"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/orionjs/orion-go/pulse/pulsetest"
	"github.com/orionjs/orion-go/pulse/pulsetest/mongoserver"
)

// chaosServer is a server of the tests that kill processes: the first of them starts it, TestMain stops it. The open
// transaction of a killed process holds up whoever needs what it wrote and, on some servers, all change streams,
// until the server aborts it: after three seconds here, by default after a minute. The other tests have their own
// server, and notice nothing.
type chaosServer struct {
	standalone bool
	once       sync.Once
	server     *mongoserver.Server
	err        error
}

var chaos, chaosAlone = &chaosServer{}, &chaosServer{standalone: true} // with transactions, and without

func (c *chaosServer) uri(t *testing.T) string {
	t.Helper()
	pulsetest.URI(t) // skips under -short
	c.once.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if c.server, c.err = mongoserver.Start(ctx, mongoserver.Options{Standalone: c.standalone}); c.err != nil || c.standalone {
			return
		}
		var client *mongo.Client
		if client, c.err = mongo.Connect(options.Client().ApplyURI(c.server.URI())); c.err != nil {
			return
		}
		defer client.Disconnect(ctx)
		c.err = client.Database("admin").RunCommand(ctx, bson.D{{Key: "setParameter", Value: 1}, {Key: "transactionLifetimeLimitSeconds", Value: 3}}).Err()
	})
	is.New(t).NoErr(c.err)
	return c.server.URI()
}

func (c *chaosServer) stop() error {
	if c.server == nil {
		return nil
	}
	return c.server.Stop()
}

func chaosURI(t *testing.T) string {
	t.Helper()
	return chaos.uri(t)
}

// chaosDatabase returns a database of the test's own on that server.
func chaosDatabase(t *testing.T) *mongo.Database {
	t.Helper()
	return chaos.database(t)
}

func (c *chaosServer) database(t *testing.T) *mongo.Database {
	t.Helper()
	db := pulsetest.Client(t, onServer(c.uri(t))).Database("chaos_" + strings.ToLower(rand.Text()[:12]))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
		defer cancel()
		_ = db.Drop(ctx) // what a killed process has locked may stay: the server ends with the tests
	})
	return db
}

// soaking says how long tests of chance go on beyond what they always do: PULSE_SOAK=1h go test -timeout 2h -run ...
func soaking(t *testing.T) time.Duration {
	t.Helper()
	text := os.Getenv("PULSE_SOAK")
	if text == "" {
		return 0
	}
	d, err := time.ParseDuration(text)
	is.New(t).NoErr(err)
	return d
}

// onServer makes a client connect to another server than that of the tests.
func onServer(uri string) func(*options.ClientOptions) {
	return func(opts *options.ClientOptions) { *opts = *options.Client().ApplyURI(uri) }
}

// withChaos stops those servers, if they run, behind the last test.
type withChaos struct{ *testing.M }

func (m withChaos) Run() int {
	code := m.M.Run()
	if err := errors.Join(chaos.stop(), chaosAlone.stop()); err != nil {
		panic(err)
	}
	return code
}
