package pulsetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/orionjs/orion-go/pulse/internal/clock"
	"github.com/orionjs/orion-go/pulse/internal/store"
)

// defaultPrefix is the one of pulse.Config.CollectionPrefix.
const defaultPrefix = "orionjs.pulse"

// Group is a consumer group as its test sees it, from the database: whatever process its clients are in, and
// on every transport of theirs. It speaks of the subscriptions that are stored when a method is called: start the
// service first. The methods belong to the goroutine of the test, and wait no longer than Patience.
//
//	billing := pulsetest.Group{DB: db, Name: "billing"}
//	billing.WaitQuiet(t)
type Group struct {
	// DB and Name are the database and the consumer group of the clients. Required.
	DB   *mongo.Database
	Name string
	// Prefix is their pulse.Config.CollectionPrefix. Default: the default of that.
	Prefix string
}

// WaitQuiet waits until the group has nothing left to do: no event of its topics is undiscovered, no delivery
// pending, none processing. What its handlers publish to topics of their own group is waited for as well. If
// that takes longer than Patience, the test fails and is told what is left, by topic.
//
// A failed delivery waits for its retry, and so does WaitQuiet. RetryNow shortens that. An event that is published
// for a later time (pulse.NotBefore) is nobody's work before that.
func (g Group) WaitQuiet(t testing.TB) {
	t.Helper()
	s := g.open(t)
	Eventually(t, "group "+g.Name+" has nothing left to do", func(ctx context.Context) error {
		owed, err := g.owed(ctx, s)
		if err != nil {
			return err
		}
		return left(owed, func(o store.Owed) bool { return !o.Nothing() })
	})
}

// RetryNow advances the time for retries: it waits until nothing is running, due or undiscovered any more, and
// makes all deliveries due that wait for a later attempt then. It returns how many those are, 0 when the group
// is quiet. A policy of minutes takes a test no longer than its handlers do:
//
//	for billing.RetryNow(t) > 0 {
//	}
//
// An order whose head waits counts as a whole, since nothing of it runs before. Clients without change streams
// notice a head that has become due only at its original time.
func (g Group) RetryNow(t testing.TB) int {
	t.Helper()
	s := g.open(t)
	waiting := 0
	Eventually(t, "group "+g.Name+" is through with what is due", func(ctx context.Context) error {
		owed, err := g.owed(ctx, s)
		if err != nil {
			return err
		}
		waiting = 0
		for _, o := range owed {
			waiting += o.Waiting
		}
		if err := left(owed, store.Owed.Active); err != nil || waiting == 0 {
			return err
		}
		n, err := s.Hurry(ctx, g.Name)
		if err == nil && n == 0 {
			err = errors.New("the waiting deliveries have become due by themselves")
		}
		return err
	})
	return waiting
}

// Crash takes the leases of all running handlers of the group away, as if the processes had been killed that
// run them: their attempts end as worker_lost, and what follows is decided by the retry policy. It waits until at least
// one handler runs, and returns how many did. A lost attempt's retry waits for its delay; RetryNow shortens it.
//
// The handlers themselves go on, since their process lives, until their context ends: as soon as another attempt
// of the delivery starts in the same client, else within a third of pulse.Config.LockTimeout. What they return
// changes nothing, and is reported as pulse.ErrLockLost. So a test can let a handler stop half-way, crash it, and
// see what the next attempt makes of the halves:
//
//	half.Wait(t, 1)    // the handler has done the first half, and waits for ctx.Done()
//	billing.Crash(t)
//	billing.WaitQuiet(t)
func (g Group) Crash(t testing.TB) int {
	t.Helper()
	s := g.open(t)
	crashed := 0
	Eventually(t, "group "+g.Name+" runs a handler that can crash", func(ctx context.Context) error {
		var err error
		if crashed, err = s.Rob(ctx, g.Name); err == nil && crashed == 0 {
			err = errors.New("none is running")
		}
		return err
	})
	return crashed
}

func (g Group) open(t testing.TB) *store.Store {
	t.Helper()
	if g.DB == nil || g.Name == "" {
		t.Fatal("a pulsetest.Group needs the DB and the Name of the consumer group")
	}
	return open(t, g.DB, g.Prefix)
}

// open returns a store that knows its server.
func open(t testing.TB, db *mongo.Database, prefix string) *store.Store {
	t.Helper()
	if prefix == "" {
		prefix = defaultPrefix
	}
	s := store.New(db, prefix)
	ctx, cancel := waitContext(t, clock.Now())
	defer cancel()
	if err := s.Detect(ctx); err != nil {
		t.Fatalf("look into the test's database %s: %v", db.Name(), err)
	}
	return s
}

// owed is what the group owes; a group without subscriptions owes nothing and is most likely misspelled.
func (g Group) owed(ctx context.Context, s *store.Store) ([]store.Owed, error) {
	owed, err := s.Owed(ctx, g.Name)
	if err == nil && len(owed) == 0 {
		err = fmt.Errorf("database %s has no subscription of the group %q: has its service been started, with this database and group?", g.DB.Name(), g.Name)
	}
	return owed, err
}

// left tells of the topics for which open is true.
func left(owed []store.Owed, open func(store.Owed) bool) error {
	var lines []string
	for _, o := range owed {
		if open(o) {
			lines = append(lines, describeOwed(o))
		}
	}
	if len(lines) == 0 {
		return nil
	}
	return errors.New("left to do:\n  " + strings.Join(lines, "\n  "))
}

func describeOwed(o store.Owed) string {
	var parts []string
	for _, count := range []struct {
		n    int
		what string
	}{
		{o.Undiscovered, "events undiscovered"},
		{o.Running, "deliveries running"},
		{o.Due, "deliveries due"},
		{o.Waiting, "deliveries waiting for a retry"},
	} {
		if count.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", count.n, count.what))
		}
	}
	if !o.Next.IsZero() {
		parts = append(parts, "the first at "+o.Next.Format(time.RFC3339))
	}
	if o.Paused {
		parts = append(parts, "the group is paused here and starts nothing")
	}
	if o.Moving && len(parts) == 0 {
		parts = []string{"events are being discovered"}
	}
	return "topic " + o.Topic + ": " + strings.Join(parts, ", ")
}
