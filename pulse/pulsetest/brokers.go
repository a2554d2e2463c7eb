package pulsetest

import (
	"os"
	"strings"
	"testing"
)

// brokersVariable names the environment variable with the Kafka broker of the tests.
const brokersVariable = "KAFKA_BROKERS"

// Brokers returns the addresses of the Kafka broker of the tests, those of the environment variable
// KAFKA_BROKERS, which commas separate. Topics and groups are shared by all tests: give them names of their
// own. Under -short the test is skipped; without the variable it fails.
//
// Tests that stop or kill a broker start their own with package kafkaserver.
func Brokers(t testing.TB) []string {
	t.Helper()
	if testing.Short() {
		t.Skip("needs a Kafka broker; not run under -short")
	}
	var brokers []string
	for addr := range strings.SplitSeq(os.Getenv(brokersVariable), ",") {
		if addr = strings.TrimSpace(addr); addr != "" {
			brokers = append(brokers, addr)
		}
	}
	if len(brokers) == 0 {
		t.Fatalf("%s is not set: run `go tool pulse dev --kafka -- go test ./...`, which brings up a broker (once before: go get -tool github.com/orionjs/orion-go/cmd/pulse; in that repository itself: make test), or set it to the addresses of a broker of yours; -short leaves out what needs one", brokersVariable)
	}
	return brokers
}
