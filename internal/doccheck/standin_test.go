//go:build unix

package doccheck

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// excused are the commands, by how they begin, that no test runs, and why.
var excused = map[string]string{
	"COMMAND":                  "stands for a command of the reader's",
	"docker build":             "needs a container daemon",
	"docker run":               "needs a container daemon",
	"kafka-consumer-groups.sh": "is part of an installation of Kafka",
	"make test":                "is the run that this test is part of",
	"make lint":                "takes minutes, and the continuous integration runs it",
	"go run ./cmd/pulse dev -- go test ./internal/doccheck": "is this test",
}

// adapted are the commands, by a part of them, that get more arguments here, so that they take seconds or leave the
// ports of this machine alone. ADDRESS is a free one. The first that fits counts.
var adapted = []struct{ part, more string }{
	{"pulse bench", "--events=20 --idle=1s"},
	{"pulse stress --soak", "--soak=2s"},
	{"pulse stress", "--scale=0.01"},
	{"pulse console", "--listen=ADDRESS"},
	{"go run ./examples/telemetry", "-listen=ADDRESS"},
	{"go run ./examples/webhooks", "-addr=ADDRESS"},
}

// untilCtrlC are commands that go on, by what their blocks contain, and what they print when they are ready. The blocks
// that follow on the page are run beside them.
var untilCtrlC = map[string]string{
	"pulse console":                  "http://",
	"go run ./examples/container":    "ready",
	"go run ./examples/invoices -se": "Handling the events",
	"go run ./examples/telemetry":    "takes orders",
	"go run ./examples/webhooks":     "receiving webhooks",
	"go run . -publish 5":            "waiting for events",
	"go run . -step":                 "waiting for events",
}

// documentedAddress is the one that pages have for services.
const documentedAddress = "localhost:8080"

// Variables by which a stand-in knows its part.
const (
	standInEnv = "DOCCHECK_STAND_IN" // the folder of the stand-ins
	topEnv     = "DOCCHECK_TOP"      // the repository
	seenEnv    = "DOCCHECK_SEEN"     // the file that a stand-in writes to
	uriEnv     = "DOCCHECK_URI"      // the server, whichever one a page names
	addressEnv = "ADDR"              // which examples/container reads itself
)

// answerNo is the exit status of pulse that is an answer like another.
const answerNo = 3

// TestMain lets the test binary be the programs that pages name, under whose names links lead to it: each writes down
// how it was called, runs the real program unless that is excused, and writes down how it ended.
func TestMain(m *testing.M) {
	if dir := os.Getenv(standInEnv); dir != "" && filepath.Ext(os.Args[0]) != ".test" {
		os.Exit(standIn(dir))
	}
	os.Exit(m.Run())
}

func standIn(dir string) int {
	name, args := filepath.Base(os.Args[0]), os.Args[1:]
	line := strings.Join(append([]string{name}, args...), " ")
	if prefix, ok := excuse(line); ok {
		see("excused", prefix)
		return 0
	}
	// The real program is the next one on the PATH. What it runs are stand-ins again, but for the go command below
	// go run, which puts its own folder first.
	for _, folder := range filepath.SplitList(os.Getenv("PATH")) {
		if path := filepath.Join(folder, name); folder != dir && isProgram(path) {
			status := carryOut(path, argumentsHere(name, line, args))
			see(fmt.Sprint(status), line)
			if status == answerNo && name == "pulse" {
				return 0
			}
			return status
		}
	}
	see("127", line)
	fmt.Fprintln(os.Stderr, name, "is not installed")
	return 127
}

// excuse finds the beginning of the command among those that are not run.
func excuse(line string) (string, bool) {
	for begin := range excused {
		if strings.HasPrefix(line, begin) {
			return begin, true
		}
	}
	return "", false
}

func argumentsHere(name, line string, args []string) []string {
	args = slices.Clone(args)
	if name == "curl" {
		for i := range args {
			args[i] = strings.ReplaceAll(args[i], documentedAddress, os.Getenv(addressEnv))
		}
	}
	if path, ok := strings.CutPrefix(line, "go get "); ok { // no version is tagged yet: a clone stands for it, as pages say
		path, tool := strings.CutPrefix(path, "-tool ")
		args = []string{"mod", "edit", "-replace=" + self + "=" + os.Getenv(topEnv)}
		if tool {
			path, _, _ = strings.Cut(path, "@")
			args = append(args, "-tool="+path)
		}
		return args
	}
	for i := range args {
		args[i] = strings.Replace(args[i], "=PATH/TO/CLONE", "="+os.Getenv(topEnv), 1)
	}
	for _, a := range adapted {
		if strings.Contains(line, a.part) {
			return append(args, strings.Fields(strings.ReplaceAll(a.more, "ADDRESS", os.Getenv(addressEnv)))...)
		}
	}
	return args
}

func isProgram(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0
}

// carryOut runs the program. Ctrl-C is for the program: the stand-in waits for its end.
func carryOut(path string, args []string) int {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	cmd := exec.CommandContext(context.Background(), path, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), "MONGODB_URI="+os.Getenv(uriEnv))
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit) && exit.ExitCode() > 0:
		return exit.ExitCode()
	case err != nil:
		fmt.Fprintln(os.Stderr, path, err)
		return 126
	}
	return 0
}

// see appends a line to what the test reads: one write, as several programs do it.
func see(what, line string) {
	file, err := os.OpenFile(os.Getenv(seenEnv), os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	defer func() { _ = file.Close() }()
	_, _ = file.WriteString(what + " " + strings.ReplaceAll(line, "\n", " ") + "\n")
}
