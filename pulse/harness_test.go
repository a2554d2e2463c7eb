package pulse_test

import (
	"flag"
	"fmt"
	"io"
	"log/slog"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.uber.org/goleak"

	"github.com/orionjs/orion-go/pulse"
	"github.com/orionjs/orion-go/pulse/pulsetest"
)

func TestMain(m *testing.M) {
	// Tests mostly wait, for leases and for the server: more of them may run at once than there are cores. A
	// -parallel flag on the command line wins, since it is read later.
	_ = flag.Set("test.parallel", "8")
	goleak.VerifyTestMain(withChaos{m})
}

// order is the payload of most tests.
type order struct {
	Number int
	Note   string
}

// setup is one way to run a semantic test: how wake-ups arrive, and how many clients share the group.
type setup struct {
	streams bool
	clients int
}

func (s setup) String() string {
	source := "polling"
	if s.streams {
		source = "streams"
	}
	return fmt.Sprintf("%s/clients=%d", source, s.clients)
}

// everySetup runs the test in parallel for change streams and polling only, with one client and three.
func everySetup(t *testing.T, test func(t *testing.T, g *group)) {
	t.Helper()
	t.Parallel()
	for _, s := range []setup{{true, 1}, {true, 3}, {false, 1}, {false, 3}} {
		t.Run(s.String(), func(t *testing.T) {
			t.Parallel()
			test(t, newGroup(t, s))
		})
	}
}

// group is a consumer group in a database of its own, with its clients.
type group struct {
	db      *mongo.Database
	clients []*pulse.Client
}

// fast is a configuration for tests: quick polls, so that polling-only setups do not slow the suite.
// Leases stay long, since the test server may stall for seconds.
func fast(db *mongo.Database) pulse.Config {
	return pulse.Config{
		ConsumerGroup: "billing", Database: db.Name(), PollInterval: 100 * time.Millisecond,
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	}
}

func newGroup(t *testing.T, s setup) *group {
	t.Helper()
	g := &group{db: pulsetest.Database(t)}
	for range s.clients {
		config := fast(g.db)
		config.DisableChangeStreams = !s.streams
		g.clients = append(g.clients, newClient(t, g.db, config))
	}
	return g
}

// newClient starts a client with connections of its own, closed at the end of the test.
func newClient(t *testing.T, db *mongo.Database, config pulse.Config) *pulse.Client {
	t.Helper()
	return startOver(t, pulsetest.Client(t), config)
}

// unordered is what a subscription of single events needs for now, before other options.
func unordered(more ...pulse.SubscribeOption) []pulse.SubscribeOption {
	return append([]pulse.SubscribeOption{pulse.Unordered(), pulse.ExecutionVersion(2)}, more...)
}
