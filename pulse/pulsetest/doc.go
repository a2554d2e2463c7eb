// Package pulsetest helps to test services that publish and handle events.
//
// Every test gets a database of its own and may run in parallel with all others. Tests wait for what
// happens and never sleep: Recorder collects what handlers received, Eventually asks a database until it
// says what the test expects. CommandMonitor counts what a client sends, Proxy cuts, stalls and delays its
// connection, FailPoint makes the server refuse or delay its commands.
//
// The server is the one that the environment variable MONGODB_URI names; `go tool pulse dev -- go test ./...`
// brings one up for the run and sets it, where go.mod names the tool github.com/orionjs/orion-go/cmd/pulse.
// Tests that need the server fail without it and are skipped under -short. Brokers does the same for a Kafka
// broker and KAFKA_BROKERS, with `pulse dev --kafka`.
package pulsetest
