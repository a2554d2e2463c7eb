package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/matryer/is"
	"go.uber.org/goleak"

	"github.com/orionjs/orion-go/echoes"
	"github.com/orionjs/orion-go/examples/migration/orders"
	"github.com/orionjs/orion-go/pulse/pulsetest"
)

// asProgram makes the test binary the program itself: the test starts the demo, and that its replicas, as
// processes of their own.
const asProgram = "MIGRATION_TEST_RUN"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

var summary = regexp.MustCompile(`(\d+) orders were published, and each is booked exactly once: (\d+) over Kafka, (\d+) over Pulse\.
(\d+) of them failed at first and were retried\. (\d+) events came again after they were booked, (\d+) of them over the other transport\.`)

// The demo with real servers: replicas and publishers are restarted at each step, one replica is killed, and no
// order is lost or booked twice.
func TestMigration_7_5_NoOrderIsLostNoneBookedTwice(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	brokers := strings.Join(pulsetest.Brokers(t), ",")
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), asProgram+"=1", "MONGODB_URI="+pulsetest.URI(t), "KAFKA_BROKERS="+brokers)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		t.Fatalf("the demo failed: %v\n%s", err, out.String())
	}
	for _, s := range steps {
		is.True(strings.Contains(out.String(), "Step "+s.name+": "+s.about+".\n"))
	}
	found := summary.FindStringSubmatch(out.String())
	if found == nil {
		t.Fatalf("no summary:\n%s", out.String())
	}
	number := func(i int) int { n, _ := strconv.Atoi(found[i]); return n }
	is.True(number(1) >= len(steps)*ordersPerStep)
	is.True(number(2) >= ordersPerStep) // over Kafka
	is.True(number(3) >= ordersPerStep) // over Pulse
	is.True(number(4) > 0)              // retried
	is.True(number(6) >= publishers)    // came again over the other transport
	t.Logf("%s", found[0])
}

// What the demo concludes would be worthless if it could not fail.
func TestCompare_FindsWhatIsLostTwiceOrWrong(t *testing.T) {
	t.Parallel()
	published := map[string]int64{"a": 1, "b": 2}
	entry := func(id string, amount int64) orders.Entry { return orders.Entry{EventID: id, Amount: amount} }
	for name, c := range map[string]struct {
		entries []orders.Entry
		want    string
	}{
		"right": {[]orders.Entry{entry("b", 2), entry("a", 1)}, ""},
		"lost":  {[]orders.Entry{entry("a", 1)}, "the book is wrong in 1 places: b is not booked"},
		"twice": {[]orders.Entry{entry("a", 1), entry("b", 2), entry("a", 1)}, "the book is wrong in 1 places: a is booked twice"},
		"wrong": {[]orders.Entry{entry("a", 2), entry("b", 2)}, "the book is wrong in 1 places: a is booked with 2 instead of 1"},
	} {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			err := compare(published, c.entries)
			if c.want == "" {
				is.NoErr(err)
				return
			}
			is.True(err != nil)
			is.Equal(err.Error(), c.want)
		})
	}
}

func TestRun_SaysWhatIsMissing(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	for _, servers := range [][2]string{{"", "b:1"}, {"mongodb://db", ""}} {
		err := run(context.Background(), nil, servers[0], servers[1], io.Discard)
		is.True(err != nil)
		is.True(strings.HasPrefix(err.Error(), "the environment variables MONGODB_URI and KAFKA_BROKERS are not both set: start this with `go run ./cmd/pulse dev --kafka -- go run ./examples/migration`"))
	}
	err := run(context.Background(), nil, "mongodb://127.0.0.1:1/?serverSelectionTimeoutMS=50", "b:1", io.Discard)
	is.True(err != nil)
	is.True(strings.HasPrefix(err.Error(), "MongoDB does not answer where MONGODB_URI points: "))
}

// Every step is one that a deployment can start with.
func TestSteps_7_6_CanBeStarted(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := servers{client: pulsetest.Client(t), brokers: []string{"127.0.0.1:9092"}, group: "orders"}
	for _, at := range steps {
		app, err := echoes.New(s.config(at), &orders.Orders{})
		is.NoErr(err)
		is.NoErr(app.Check())
	}
}

func TestAwait_GivesUpWithTheLastError(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	ctx, cancel := context.WithCancel(t.Context())
	broken := errors.New("broken")
	looks := 0
	err := await(ctx, func(context.Context) (bool, error) {
		if looks++; looks == 2 {
			cancel()
		}
		return false, broken
	})
	is.True(errors.Is(err, broken))
	is.True(errors.Is(err, context.Canceled))
	is.True(looks >= 2)
}
