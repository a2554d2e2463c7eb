//go:build unix

package main

import (
	"os"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

// The test binary plays all the parts of a run: without more it runs the tests; with roleEnv set it is the
// pulse program; and with a first argument that starts with helperPrefix it is one of the commands and
// servers that the tests let pulse dev run. Everything is thus a real process.
const (
	roleEnv      = "PULSE_TEST_ROLE"
	helperPrefix = "helper:"
)

func TestMain(m *testing.M) {
	switch {
	case len(os.Args) > 1 && strings.HasPrefix(os.Args[1], helperPrefix):
		os.Exit(helper(strings.TrimPrefix(os.Args[1], helperPrefix), os.Args[2:]))
	case os.Getenv(roleEnv) != "":
		main()
	default:
		goleak.VerifyTestMain(m)
	}
}
