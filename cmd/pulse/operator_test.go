//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"
	"github.com/rogpeppe/go-internal/testscript"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/orionjs/orion-go/internal/masked"
	"github.com/orionjs/orion-go/internal/replica"
	"github.com/orionjs/orion-go/pulse"
	"github.com/orionjs/orion-go/pulse/pulsetest"
)

// TestOperator runs the scripts of testdata/operator, each with a database of its own and the program as a user has it.
func TestOperator(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/operator/*.txtar")
	is.New(t).NoErr(err)
	is.New(t).True(len(files) > 0)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			testscript.Run(t, testscript.Params{
				Files: []string{file},
				Setup: func(env *testscript.Env) error {
					for _, e := range d.environ() {
						name, value, _ := strings.Cut(e, "=")
						env.Setenv(name, value)
					}
					return nil
				},
				Cmds: map[string]func(*testscript.TestScript, bool, []string){
					"exits": exits, "until": until, "golden": golden, "set": set, "service": d.scriptService, "drop": d.scriptDrop,
				},
			})
		})
	}
}

// desk is where an operator sits: a shell that finds the program, and a database that it works on.
type desk struct {
	t   testing.TB
	bin string
	db  *mongo.Database

	services map[string]*pulse.Client
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	is := is.New(t)
	d := &desk{t: t, bin: t.TempDir(), db: pulsetest.Database(t), services: map[string]*pulse.Client{}}
	self, err := os.Executable()
	is.NoErr(err)
	is.NoErr(os.Symlink(self, filepath.Join(d.bin, "pulse")))
	return d
}

// environ is what the operator's shell has set.
func (d *desk) environ() []string {
	return []string{
		"GORACE=atexit_sleep_ms=0", roleEnv + "=pulse",
		"PATH=" + d.bin + string(os.PathListSeparator) + os.Getenv("PATH"),
		"MONGODB_URI=" + pulsetest.URI(d.t), "PULSE_DATABASE=" + d.db.Name(),
	}
}

// serve starts a replica of a group.
func (d *desk) serve(group, topic string, opts ...pulse.SubscribeOption) {
	d.t.Helper()
	d.services[group] = replica.Serve(d.t, d.db, group, topic, opts...)
}

// stop ends a replica in an orderly way.
func (d *desk) stop(group string) {
	d.t.Helper()
	is.New(d.t).NoErr(d.services[group].Close(d.t.Context()))
}

// scriptService is the script command `service start|stop GROUP TOPIC`.
func (d *desk) scriptService(ts *testscript.TestScript, _ bool, args []string) {
	switch {
	case len(args) == 3 && args[0] == "start":
		d.serve(args[1], args[2])
	case len(args) == 2 && args[0] == "stop":
		d.stop(args[1])
	default:
		ts.Fatalf("usage: service start GROUP TOPIC | service stop GROUP")
	}
}

// scriptDrop is the script command `drop COLLECTION INDEX`.
func (d *desk) scriptDrop(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: drop COLLECTION INDEX")
	}
	ts.Check(d.db.Collection("orionjs.pulse."+args[0]).Indexes().DropOne(d.t.Context(), args[1]))
}

// set is the script command `set NAME REGEXP`: it sets a variable to what the group of the expression matches in the
// standard output of the last command.
func set(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: set NAME REGEXP")
	}
	m := regexp.MustCompile(args[1]).FindStringSubmatch(ts.ReadFile("stdout"))
	if m == nil {
		ts.Fatalf("%q is not in the output", args[1])
	}
	ts.Setenv(args[0], m[1])
}

// exits is the script command `exits STATUS PROGRAM ARG...`.
func exits(ts *testscript.TestScript, _ bool, args []string) {
	err := ts.Exec(args[1], args[2:]...)
	var exit *exec.ExitError
	if !errors.As(err, &exit) || fmt.Sprint(exit.ExitCode()) != args[0] {
		ts.Fatalf("%v, want the exit status %s", err, args[0])
	}
}

// until is the script command `until REGEXP PROGRAM ARG...`: it repeats the program until its standard output matches.
func until(ts *testscript.TestScript, _ bool, args []string) {
	expr := regexp.MustCompile(args[0])
	for end := time.Now().Add(pulsetest.Patience); ; {
		err := ts.Exec(args[1], args[2:]...)
		if err == nil && expr.MatchString(ts.ReadFile("stdout")) {
			return
		}
		if time.Now().After(end) {
			ts.Fatalf("%q is never in the output of %s", args[0], strings.Join(args[1:], " "))
		}
	}
}

// golden is the script command `golden stdout|stderr FILE`: the output is that of the file, but for what differs in
// every run.
func golden(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: golden stdout|stderr FILE")
	}
	got, want := masked.Text(ts.ReadFile(args[0])), masked.Text(ts.ReadFile(args[1]))
	if got != want {
		ts.Fatalf("%s is\n%s\nwant\n%s", args[0], got, want)
	}
}

var errNotYet = errors.New("not yet")

// eventually is a check that pulsetest.Eventually takes.
func eventually(ok func() bool) func(context.Context) error {
	return func(context.Context) error {
		if !ok() {
			return errNotYet
		}
		return nil
	}
}

// What is stored reaches a terminal through errors, too, and none of it is obeyed there.
func TestOperator_ErrorsShowStoredNamesAsText(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	d := newDesk(t)
	d.serve("billing", "invoice.\x1b[2J\u202ecreated")
	cmd := exec.CommandContext(t.Context(), filepath.Join(d.bin, "pulse"), "deliveries", "--group", "billing", "--topic", "none\x1b[2J")
	cmd.Env = append(os.Environ(), d.environ()...)
	out, err := cmd.CombinedOutput()
	is.True(err != nil)
	t.Log(strconv.Quote(string(out)))
	is.True(strings.Contains(string(out), `invoice.\u001b[2J\u202ecreated`))
	is.True(!strings.ContainsAny(string(out), "\x1b\u202e"))
}
