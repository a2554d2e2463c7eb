//go:build unix

package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"testing"

	"github.com/matryer/is"

	"github.com/orionjs/orion-go/cmd/pulse/internal/soak"
	"github.com/orionjs/orion-go/cmd/pulse/internal/stress"
	"github.com/orionjs/orion-go/pulse/pulsetest"
)

// measure runs a pulse command, with real processes, on the server of the tests, and returns its output.
func measure(t *testing.T, args ...string) []byte {
	t.Helper()
	uri := pulsetest.URI(t)
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
	cmd.Env = append(os.Environ(), roleEnv+"=pulse", "MONGODB_URI="+uri, "GORACE=atexit_sleep_ms=0")
	var out, log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &log
	if err := cmd.Run(); err != nil {
		t.Fatalf("pulse %q: %v\n%s\n%s", args, err, out.Bytes(), log.Bytes())
	}
	return out.Bytes()
}

func TestStress_8_1_KeepsAllPromisesOnASmallScale(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	var results []stress.Result
	is.NoErr(json.Unmarshal(measure(t, "stress", "--scale", "0.02", "--json"), &results))
	is.Equal(len(results), 5)
	events := 0
	for _, r := range results {
		is.Equal(r.Lost+r.Duplicates+r.Stranded+r.Failed+len(r.Violations), 0) // r
		is.True(r.Calls > 0)
		events += r.Events
	}
	is.Equal(events, 600+300+300+400+72)
}

// Faults come, and what was promised is kept. A seed is chosen whose plan kills and cuts within seconds.
func TestSoak_6_2_NothingIsLostWhileProcessesAreKilled(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	var result soak.Result
	is.NoErr(json.Unmarshal(measure(t, "stress", "--soak", "10s", "--seed", "23", "--rate", "70", "--json"), &result))
	is.Equal(result.Lost+result.Duplicates+result.Stranded+result.Failed+len(result.Violations), 0) // result
	is.True(result.Events > 0 && len(result.Faults) > 0)
}
