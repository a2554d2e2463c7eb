//go:build unix

package doccheck

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/orionjs/orion-go/internal/masked"
	"github.com/orionjs/orion-go/internal/replica"
	"github.com/orionjs/orion-go/pulse"
	"github.com/orionjs/orion-go/pulse/admin"
	"github.com/orionjs/orion-go/pulse/pulsetest"
)

// ofBilling are the pages whose commands are about the group billing.
var ofBilling = []string{operatorPage, "docs/retries.md", "docs/rollout.md"}

// operatorPage tells a story: its commands depend on each other.
const operatorPage = "docs/cli.md"

// anyDelivery is the ID that pages have for one that failed.
const anyDelivery = "0197f2b2-0d3f-7c11-a4a0-5f3e9d7b1c02"

// story is a database with the group billing, which handles invoice.created, and the folder of somebody who operates it.
type story struct {
	t        *testing.T
	dir      string
	db       *mongo.Database
	services map[string]*pulse.Client
	broken   bool // the group is, for now
}

func newStory(t *testing.T, uri, page string) *story {
	t.Helper()
	is := is.New(t)
	connections, err := mongo.Connect(options.Client().ApplyURI(uri))
	is.NoErr(err)
	t.Cleanup(func() { _ = connections.Disconnect(context.Background()) })
	name := regexp.MustCompile(`\W`).ReplaceAllString(page, "_")
	s := &story{t: t, dir: t.TempDir(), db: connections.Database(name), services: map[string]*pulse.Client{}}
	for name, text := range map[string]string{
		"invoice.json": "{\"number\": \"INV-9\", \"amount\": 900}\n",
		"invoices.ndjson": `{"number": "INV-1", "amount": 1999}
{"number": "INV-2", "amount": 2999}
{"number": "INV-3", "amount": 0, "permanent": true, "once": true, "fail": "no customer 4711"}
{"number": "INV-4", "amount": 4999, "fail": "the warehouse is closed"}
{"number": "INV-5", "amount": 5999, "once": true, "fail": "the printer is out of paper"}
`,
	} {
		is.NoErr(os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o600))
	}
	s.serve("billing", "invoice.created")
	return s
}

// serve starts a replica of a group.
func (s *story) serve(group, topic string, opts ...pulse.SubscribeOption) {
	s.t.Helper()
	s.services[group] = replica.Serve(s.t, s.db, group, topic, opts...)
}

// stop ends a replica in an orderly way.
func (s *story) stop(group string) {
	s.t.Helper()
	is.New(s.t).NoErr(s.services[group].Close(s.t.Context()))
}

// failed is the ID of a delivery that has ended with an error.
func (s *story) failed() (id string) {
	s.t.Helper()
	pulsetest.Eventually(s.t, "a delivery fails", func(ctx context.Context) error {
		var d struct {
			ID string `bson:"_id"`
		}
		err := s.db.Collection("orionjs.pulse.deliveries").FindOne(ctx, bson.D{{Key: "status", Value: "v2-error"}}).Decode(&d)
		id = d.ID
		return err
	})
	return id
}

// presentable is an output as it would be at the reader's.
func (s *story) presentable(out string) string {
	out = strings.ReplaceAll(out, s.db.Name(), "shop")
	return regexp.MustCompile(`go:[\w.-]+:\d+:`).ReplaceAllString(out, "go:billing-7d9f:1:")
}

// changes are commands that change something.
var changes = regexp.MustCompile(`pulse (retry .*--yes|cancel|pause|publish|doctor .*--fix)`)

// ids are those of the page, and what they are in this run.
type ids map[string]string

// learn takes the IDs of an output in their order.
func (known ids) learn(page, run string) {
	here, there := masked.UUID.FindAllString(page, -1), masked.UUID.FindAllString(run, -1)
	for i, id := range here {
		if i < len(there) {
			known[id] = there[i]
		}
	}
}

// real replaces the IDs of the page.
func (known ids) real(text string) string {
	return masked.UUID.ReplaceAllStringFunc(text, func(id string) string {
		if id, ok := known[id]; ok {
			return id
		}
		return id
	})
}

// before does what happens in the story before a command is given.
func (s *story) before(commands string) {
	s.t.Helper()
	is := is.New(s.t)
	restarted := strings.HasPrefix(commands, "pulse deliveries --group billing --topic invoice.created\n")
	switch {
	case commands == "pulse doctor --group billing\n":
		s.broken = true
		s.breakGroup()
	case restarted:
		s.broken = false
		s.serve("billing", "invoice.created", pulse.ExecutionVersion(1), pulse.ConfigVersion(2))
	}
	if s.broken {
		return // nobody does anything
	}
	// Replicas take a moment.
	a, err := admin.New(s.db, admin.Config{})
	is.NoErr(err)
	pulsetest.Eventually(s.t, "the group has nothing to do", func(ctx context.Context) error {
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
func (s *story) breakGroup() {
	s.t.Helper()
	is := is.New(s.t)
	s.stop("billing")
	s.serve("billing", "invoice.created", pulse.ExecutionVersion(1), pulse.ConfigVersion(2))
	s.stop("billing")
	deliveries := s.db.Collection("orionjs.pulse.deliveries")
	then := time.Now().Add(-10 * time.Minute)
	res, err := deliveries.UpdateOne(s.t.Context(), bson.D{{Key: "eventId", Value: "INV-5"}, {Key: "status", Value: "v2-pending"}}, bson.D{{Key: "$set", Value: bson.D{
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
	is.NoErr(deliveries.Indexes().DropOne(s.t.Context(), "pulse_deliveries_v2_processing"))
}
