//go:build unix

package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/orionjs/orion-go/pulse"
	"github.com/orionjs/orion-go/pulse/admin"
	"github.com/orionjs/orion-go/pulse/pulsetest"
)

var updateDocs = flag.Bool("update", false, "write what the commands of docs/cli.md print into it")

const operatorPage = "../../docs/cli.md"

// shown finds the commands of the page, each with the output that follows it.
var shown = regexp.MustCompile("(?s)(?:<!-- not run: ([^\n]*) -->\n)?```sh\n(.*?)```\n(?:\n```text\n(.*?)```\n)?")

// TestOperator_DocumentIsTrue runs every command of docs/cli.md, in their order, with the group of its story, and
// compares what they print with what is shown there.
func TestOperator_DocumentIsTrue(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	text, err := os.ReadFile(operatorPage)
	is.NoErr(err)
	d := newDesk(t)
	dir := d.stage(t)
	known := ids{}
	page := string(text)
	ran := 0
	for _, block := range shown.FindAllStringSubmatch(page, -1) {
		if block[1] != "" {
			continue
		}
		ran++
		commands := known.real(block[2])
		d.before(t, commands)
		var out string
		run := func(ctx context.Context) error {
			sh := exec.CommandContext(ctx, "sh", "-c", commands)
			sh.Dir, sh.Env = dir, append(os.Environ(), d.environ()...)
			var buf bytes.Buffer
			sh.Stdout, sh.Stderr = &buf, &buf
			err := sh.Run()
			out = buf.String()
			var exit *exec.ExitError
			switch {
			case errors.As(err, &exit) && exit.ExitCode() == exitNo: // an answer like another
			case err != nil:
				return fmt.Errorf("%w\n%s", err, out)
			}
			if block[3] != "" && !*updateDocs && mask(out) != mask(block[3]) {
				return fmt.Errorf("it prints\n%s\nand docs/cli.md shows\n%s", mask(out), mask(block[3]))
			}
			return nil
		}
		if changes.MatchString(commands) { // once: what it does cannot be done again
			if err := run(t.Context()); err != nil {
				t.Fatalf("%s%v", commands, err)
			}
		} else {
			// What runs in the background may not have come as far yet.
			pulsetest.Eventually(t, commands, run)
		}
		known.learn(block[3], out)
		if *updateDocs && block[3] != "" {
			out = presentable(out, d)
			page = strings.Replace(page, block[3], out, 1)
			known.learn(out, out)
		}
	}
	is.True(ran > 15) // the commands were found
	if *updateDocs {
		is.NoErr(os.WriteFile(operatorPage, []byte(known.real(page)), 0o600))
	}
}

// presentable is an output as it would be at the reader's.
func presentable(out string, d *desk) string {
	out = strings.ReplaceAll(out, d.db.Name(), "shop")
	return regexp.MustCompile(`go:[\w.-]+:\d+:`).ReplaceAllString(out, "go:billing-7d9f:1:")
}

// changes are commands that change something.
var changes = regexp.MustCompile(`pulse (retry .*--yes|cancel|pause|publish|doctor .*--fix)`)

// ids are those of the page, and what they are in this run.
type ids map[string]string

var uuid = volatile[0].expr

// learn takes the IDs of an output in their order.
func (known ids) learn(page, run string) {
	here, there := uuid.FindAllString(page, -1), uuid.FindAllString(run, -1)
	for i, id := range here {
		if i < len(there) {
			known[id] = there[i]
		}
	}
}

// real replaces the IDs of the page.
func (known ids) real(text string) string {
	return uuid.ReplaceAllStringFunc(text, func(id string) string {
		if id, ok := known[id]; ok {
			return id
		}
		return id
	})
}

// stage prepares the database of the page's story, and returns the folder that its commands are given in.
func (d *desk) stage(t *testing.T) string {
	t.Helper()
	is := is.New(t)
	dir := t.TempDir()
	for name, text := range map[string]string{
		"invoice.json": "{\"number\": \"INV-9\", \"amount\": 900}\n",
		"invoices.ndjson": `{"number": "INV-1", "amount": 1999}
{"number": "INV-2", "amount": 2999}
{"number": "INV-3", "amount": 0, "permanent": true, "once": true, "fail": "no customer 4711"}
{"number": "INV-4", "amount": 4999, "fail": "the warehouse is closed"}
{"number": "INV-5", "amount": 5999, "once": true, "fail": "the printer is out of paper"}
`,
	} {
		is.NoErr(os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	d.serve("billing", "invoice.created")
	return dir
}

// before does what happens in the story before a command is given.
func (d *desk) before(t *testing.T, commands string) {
	t.Helper()
	is := is.New(t)
	restarted := strings.HasPrefix(commands, "pulse deliveries --group billing --topic invoice.created\n")
	switch {
	case commands == "pulse doctor --group billing\n":
		d.broken = true
		d.breakGroup(t)
	case restarted:
		d.broken = false
		d.serve("billing", "invoice.created", pulse.ExecutionVersion(1), pulse.ConfigVersion(2))
	}
	if d.broken {
		return // nobody does anything
	}
	// Replicas take a moment.
	a, err := admin.New(d.db, admin.Config{})
	is.NoErr(err)
	pulsetest.Eventually(t, "the group has nothing to do", func(ctx context.Context) error {
		subs, err := a.Subscriptions(ctx, admin.SubscriptionQuery{Group: "billing"})
		for _, sub := range subs {
			if b := sub.Backlog; err == nil && b.Undiscovered.N+b.Pending.N+b.Processing.N > 0 || restarted && b.Retrying.N > 0 {
				err = fmt.Errorf("there is %+v", b)
			}
		}
		return err
	})
}

// breakGroup leaves the group as a bad night does: a way back from version 2 has begun, the only replica was killed
// while it handled INV-5, and somebody has dropped an index.
func (d *desk) breakGroup(t *testing.T) {
	t.Helper()
	is := is.New(t)
	d.stop("billing")
	d.serve("billing", "invoice.created", pulse.ExecutionVersion(1), pulse.ConfigVersion(2))
	d.stop("billing")
	deliveries := d.db.Collection("orionjs.pulse.deliveries")
	then := time.Now().Add(-10 * time.Minute)
	res, err := deliveries.UpdateOne(t.Context(), bson.D{{Key: "eventId", Value: "INV-5"}, {Key: "status", Value: "v2-pending"}}, bson.D{{Key: "$set", Value: bson.D{
		{Key: "status", Value: "v2-processing"},
		{Key: "attempt", Value: 2},
		{Key: "startedAt", Value: then},
		{Key: "lockOwner", Value: "go:billing-7d9f:1:01970000-0000-7000-8000-00000000dead"},
		{Key: "lockToken", Value: "token of a worker that is lost"},
		{Key: "lockedAt", Value: then},
		{Key: "lockedUntil", Value: then.Add(30 * time.Second)},
		{Key: "heartbeatAt", Value: then},
	}}})
	is.NoErr(err)
	is.Equal(res.ModifiedCount, int64(1))
	is.NoErr(deliveries.Indexes().DropOne(t.Context(), "pulse_deliveries_v2_processing"))
}
