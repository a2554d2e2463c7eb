package admin_test

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/orionjs/orion-go/pulse"
	"github.com/orionjs/orion-go/pulse/admin"
	"github.com/orionjs/orion-go/pulse/pulsetest"
)

// logged records the messages of a client's log.
type logged struct {
	slog.Handler
	messages *pulsetest.Recorder[string]
}

// logging is a configuration whose client's log is read: by it a test knows that the client has noticed something.
func logging(cfg pulse.Config) (pulse.Config, logged) {
	log := logged{slog.DiscardHandler, &pulsetest.Recorder[string]{}}
	cfg.Logger = slog.New(log)
	return cfg, log
}

func (l logged) Enabled(context.Context, slog.Level) bool { return true }

func (l logged) Handle(_ context.Context, r slog.Record) error {
	l.messages.Add(r.Message)
	return nil
}

// await waits until a message with the text was logged n times.
func (l logged) await(t *testing.T, text string, n int) {
	t.Helper()
	l.messages.WaitFor(t, text, func(messages []string) bool {
		found := 0
		for _, m := range messages {
			if strings.Contains(m, text) {
				found++
			}
		}
		return found >= n
	})
}

// A paused subscription runs nothing, in clients that run already and in those that start later; its events become
// deliveries all the same. Resumed, it runs everything, once and in its order.
func TestPause_9_2_NothingRunsThenEverything(t *testing.T) {
	each(t, allKinds, func(t *testing.T, k kind, db *mongo.Database) {
		is := is.New(t)
		var handled pulsetest.Recorder[string]
		cfg, log := logging(config(db))
		handle := func(in call) error {
			handled.Add(in.events...)
			return nil
		}
		c := start(t, cfg)
		k.subscribe(t, c, handle)
		a := open(t, db)
		pauseIt(t, a)
		log.await(t, "was paused", 1)
		paused := theSubscription(t, a).Paused
		is.Equal(paused.By, operator)
		is.True(time.Since(paused.At) < time.Hour)
		changed, err := a.Pause(t.Context(), group, orders.Name(), admin.By{Name: "grace"})
		is.NoErr(err)
		is.True(!changed)
		is.Equal(theSubscription(t, a).Paused.By, operator)

		ids := publish(t, c, k.events(20))
		k.subscribe(t, start(t, config(db)), handle)
		awaitBacklog(t, a, "all are deliveries", func(b admin.Backlog) bool { return b.Undiscovered.N == 0 && b.Pending.N >= 10 })
		n := theSubscription(t, a).Backlog.Pending.N
		is.Equal(len(inState(t, a, admin.Pending)), n)
		// The clients have looked for work since: of these deliveries the stream has told, and polls would have.
		for range 3 {
			first := theSubscription(t, a).Leader.Until
			pulsetest.Eventually(t, "the leader renews", func(ctx context.Context) error {
				if until := theSubscription(t, a).Leader.Until; !until.After(first) {
					return errPlanned
				}
				return nil
			})
		}
		is.Equal(handled.Len(), 0)
		is.Equal(theSubscription(t, a).Backlog.Pending.N, n)

		resumeIt(t, a)
		got := handled.Wait(t, len(ids))
		if k.name != ordered.name {
			slices.Sort(got)
			slices.Sort(ids)
		}
		is.Equal(got, ids)
		awaitBacklog(t, a, "nothing is left", func(b admin.Backlog) bool { return b.Pending.N+b.Processing.N == 0 })
		is.Equal(handled.Len(), len(ids))
		is.True(theSubscription(t, a).Paused == nil)
		changed, err = a.Resume(t.Context(), group, orders.Name(), admin.By{Name: "grace"})
		is.NoErr(err)
		is.True(!changed)
	})
}

// A pause lets the running handler finish, and what was claimed ahead of it goes back; nothing of it has cost an attempt.
func TestPause_9_2_RunningHandlersFinishAndClaimsGoBack(t *testing.T) {
	each(t, allKinds, func(t *testing.T, k kind, db *mongo.Database) {
		is := is.New(t)
		cfg, log := logging(config(db))
		c := start(t, cfg)
		var handled pulsetest.Recorder[call]
		running, goOn := make(chan struct{}), make(chan struct{})
		k.subscribe(t, c, func(in call) error {
			handled.Add(in)
			if handled.Len() == 10 {
				close(running)
				<-goOn
			}
			return nil
		})
		publish(t, c, k.events(60))
		<-running
		a := open(t, db)
		pauseIt(t, a)
		log.await(t, "was paused", 1)
		awaitBacklog(t, a, "only one is claimed", func(b admin.Backlog) bool { return b.Processing.N == 1 })
		close(goOn)
		awaitBacklog(t, a, "none is claimed", func(b admin.Backlog) bool { return b.Processing.N == 0 })
		is.Equal(handled.Len(), 10)
		resumeIt(t, a)
		awaitBacklog(t, a, "nothing is left", func(b admin.Backlog) bool { return b.Pending.N+b.Processing.N+b.Undiscovered.N == 0 })
		seen := map[string]bool{}
		for _, in := range handled.Values() {
			is.Equal(in.attempt, 1)
			for _, id := range in.events {
				is.True(!seen[id])
				seen[id] = true
			}
		}
		is.Equal(len(seen), k.events(60))
	})
}

// A replica that starts after the pause does not begin, before its first poll either.
func TestPause_9_2_WhoStartsLaterDoesNotBegin(t *testing.T) {
	each(t, allKinds, func(t *testing.T, k kind, db *mongo.Database) {
		is := is.New(t)
		noticing, log := logging(config(db))
		leader := start(t, noticing) // makes the deliveries, and goes on leading
		k.subscribe(t, leader, func(call) error { return nil })
		a := open(t, db)
		pauseIt(t, a)
		log.await(t, "was paused", 1)
		publish(t, leader, k.events(4))
		awaitBacklog(t, a, "deliveries wait", func(b admin.Backlog) bool { return b.Undiscovered.N == 0 && b.Pending.N > 0 })

		// Its polls are an hour apart, and it may be asked for none: it knows of the pause by what it has read at its start.
		cfg := config(db)
		cfg.PollInterval = time.Hour
		late := start(t, cfg)
		var handled, others pulsetest.Recorder[string]
		k.subscribe(t, late, func(in call) error {
			handled.Add(in.events...)
			return nil
		})
		// Its turn was before that of a topic that is not paused.
		payments := pulse.NewTopic[order]("payment.made")
		_, err := payments.Subscribe(t.Context(), late, func(_ context.Context, e *pulse.Event[order]) error {
			others.Add(e.ID)
			return nil
		}, pulse.Unordered())
		is.NoErr(err)
		for range 5 {
			_, err = payments.Publish(t.Context(), leader, order{})
			is.NoErr(err)
		}
		others.Wait(t, 5)
		is.Equal(handled.Len(), 0)
	})
}

// Who resumed, and why, is stored in place of who paused, and the other way round.
func TestPause_9_2_TheLastChangeIsStored(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	db := pulsetest.Database(t)
	a := open(t, db)
	version2.subscribe(t, start(t, config(db)), func(call) error { return nil })
	sub := theSubscription(t, a)
	is.True(sub.Paused == nil && sub.Resumed == nil)
	pauseIt(t, a)
	sub = theSubscription(t, a)
	is.True(sub.Paused != nil && sub.Resumed == nil)
	grace := admin.By{Name: "grace", Reason: "the warehouse is open"}
	changed, err := a.Resume(t.Context(), group, orders.Name(), grace)
	is.NoErr(err)
	is.True(changed)
	changed, err = a.Resume(t.Context(), group, orders.Name(), operator) // nothing to resume: the record stays
	is.NoErr(err)
	is.True(!changed)
	sub = theSubscription(t, a)
	is.True(sub.Paused == nil)
	is.Equal(sub.Resumed.By, grace)
	is.True(time.Since(sub.Resumed.At) < time.Hour)
	pauseIt(t, a)
	sub = theSubscription(t, a)
	is.True(sub.Paused != nil && sub.Resumed == nil)

	_, err = a.Resume(t.Context(), group, orders.Name(), admin.By{Reason: "x"})
	var query *admin.QueryError
	is.True(asError(err, &query))
	is.True(theSubscription(t, a).Paused != nil)
}

// A pause is of one group and topic.
func TestPause_9_2_OthersGoOn(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	db := pulsetest.Database(t)
	a := open(t, db)
	var handled pulsetest.Recorder[string]
	record := func(name string) func(call) error {
		return func(call) error {
			handled.Add(name)
			return nil
		}
	}
	c := start(t, config(db))
	version2.subscribe(t, c, record(group))
	other := config(db)
	other.ConsumerGroup = "audit"
	version2.subscribe(t, start(t, other), record("audit"))
	payments := pulse.NewTopic[order]("payment.made")
	_, err := payments.Subscribe(t.Context(), c, func(context.Context, *pulse.Event[order]) error {
		handled.Add("payments")
		return nil
	}, pulse.Unordered())
	is.NoErr(err)
	pauseIt(t, a)
	_, err = payments.Publish(t.Context(), c, order{})
	is.NoErr(err)
	publish(t, c, 1)
	got := handled.WaitFor(t, "both others", func(values []string) bool {
		return slices.Contains(values, "audit") && slices.Contains(values, "payments")
	})
	is.True(len(got) >= 2)

	_, err = a.Pause(t.Context(), group, "none", operator)
	var missing *admin.NotFoundError
	is.True(asError(err, &missing))
	_, err = a.Resume(t.Context(), "none", orders.Name(), operator)
	is.True(asError(err, &missing))
	_, err = a.Pause(t.Context(), group, orders.Name(), admin.By{Reason: "x"})
	var query *admin.QueryError
	is.True(asError(err, &query))
}
