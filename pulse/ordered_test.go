package pulse_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/matryer/is"
	"go.mongodb.org/mongo-driver/v2/bson"
	"golang.org/x/sync/errgroup"

	"github.com/orionjs/orion-go/pulse"
	"github.com/orionjs/orion-go/pulse/pulsetest"
)

var errPlanned = errors.New("as planned")

func TestOrdered_4_9_InSequenceOneAtATime(t *testing.T) {
	everySetup(t, func(t *testing.T, g *group) {
		is := is.New(t)
		const n = 120
		s := &sequencer{}
		s.subscribe(t, g.clients)
		for i := range n {
			published(t, orderedTopic, g.clients[i%len(g.clients)], i)
		}
		is.Equal(runsAs(s.runs.Wait(t, n)), upTo(n))
		attempts := settledV1(t, g.db, n)
		is.Equal(failures(attempts, ""), n)
		is.Equal(s.runs.Len(), n)
		is.Equal(s.overlaps.Load(), int32(0))
	})
}

// Several publishers at once, with a page of discovery each: the order is that of the sequences.
func TestOrdered_4_9_BatchesOfPublishers(t *testing.T) {
	everySetup(t, func(t *testing.T, g *group) {
		is := is.New(t)
		const publishers, each = 4, 100
		all, ctx := errgroup.WithContext(t.Context())
		for p := range publishers {
			all.Go(func() error {
				messages := make([]pulse.Message[order], each)
				for i := range messages {
					messages[i].Data.Number = p*each + i
				}
				_, err := orderedTopic.PublishMany(ctx, g.clients[p%len(g.clients)], messages)
				return err
			})
		}
		is.NoErr(all.Wait())
		s := &sequencer{}
		s.subscribe(t, g.clients)
		s.runs.Wait(t, publishers*each)
		settledV1(t, g.db, publishers*each)
		is.Equal(runsAs(s.runs.Values()), bySequence(t, g.db, orderedTopic.Name()))
		is.Equal(s.overlaps.Load(), int32(0))
	})
}

// The next event never overtakes one that waits for its retry, though more arrive all the time.
func TestOrdered_4_9_NextWaitsForTheRetry(t *testing.T) {
	everySetup(t, func(t *testing.T, g *group) {
		is := is.New(t)
		const n = 40
		s := &sequencer{fail: func(_ context.Context, r orderedRun) error {
			if r.Number%10 == 3 && r.Attempt < 3 {
				return errPlanned
			}
			return nil
		}}
		s.subscribe(t, g.clients, pulse.RetryDelay(30*time.Millisecond))
		for i := range n {
			published(t, orderedTopic, g.clients[0], i)
		}
		want := upTo(n)
		for _, i := range []int{3, 13, 23, 33} {
			want = instead(want, fmt.Sprint(i), fmt.Sprint(i), fmt.Sprintf("%d#2", i), fmt.Sprintf("%d#3", i))
		}
		is.Equal(runsAs(s.runs.Wait(t, len(want))), want)
		attempts := settledV1(t, g.db, n)
		is.Equal(failures(attempts, "handler_error"), 8)
		is.Equal(s.runs.Len(), len(want)) // claimed behind the failure, handed back, and run once
		is.Equal(s.overlaps.Load(), int32(0))
		for _, of := range attempts {
			for i, a := range of[1:] {
				due, before := a.Lookup("nextAttemptAt").Time(), of[i].Lookup("endedAt").Time()
				is.True(!due.Before(before.Add(30 * time.Millisecond)))
				is.True(!a.Lookup("startedAt").Time().Before(due)) // not before it is due
			}
		}
	})
}

func TestOrdered_4_9_TerminalErrorLetsTheNextGo(t *testing.T) {
	everySetup(t, func(t *testing.T, g *group) {
		is := is.New(t)
		const n = 30
		s := &sequencer{fail: func(_ context.Context, r orderedRun) error {
			switch r.Number {
			case 5:
				return errPlanned
			case 12:
				return pulse.Permanent(errPlanned)
			case 19:
				panic("as planned")
			}
			return nil
		}}
		publishMany(t, orderedTopic, g.clients[0], n)
		s.subscribe(t, g.clients, pulse.MaxRetries(1))
		want := instead(instead(upTo(n), "5", "5", "5#2"), "19", "19", "19#2")
		is.Equal(runsAs(s.runs.Wait(t, len(want))), want)
		settledV1(t, g.db, n)
		is.Equal(s.runs.Len(), len(want))
		failed := mustFind(t, deliveriesOf(g.db), bson.D{{Key: "status", Value: "error"}})
		is.Equal(len(failed), 3)
		is.Equal(s.overlaps.Load(), int32(0))
	})
}

// With the polls too far apart to help, a backlog runs through: each end starts the next event, whether
// handlers are fast, and events are claimed ahead, or slow, one step at a time.
func TestOrdered_4_9_GoesOnWithoutPolls(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		n     int
		delay time.Duration
		opts  []pulse.SubscribeOption
	}{
		{"fast", 200, 0, nil},
		{"slow", 40, 25 * time.Millisecond, nil},
		{"single steps", 60, 0, []pulse.SubscribeOption{pulse.MaxRetries(0)}},
		{"at most once", 60, 0, []pulse.SubscribeOption{pulse.DeliveryMode(pulse.AtMostOnce)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			g := newGroup(t, setup{clients: 1})
			publishMany(t, orderedTopic, g.clients[0], c.n)
			config := fast(g.db)
			config.PollInterval, config.DisableChangeStreams = never, true
			s := &sequencer{fail: func(ctx context.Context, r orderedRun) error {
				if c.delay > 0 {
					pause(ctx, c.delay)
				}
				if r.Number == 7 && r.Attempt == 1 && c.opts == nil {
					return errPlanned
				}
				return nil
			}}
			s.subscribe(t, []*pulse.Client{startClient(t, config)}, c.opts...)
			want := upTo(c.n)
			if c.opts == nil {
				want = instead(want, "7", "7", "7#2")
			}
			is.Equal(runsAs(s.runs.Wait(t, len(want))), want)
			settledV1(t, g.db, c.n)
			is.Equal(s.overlaps.Load(), int32(0))
		})
	}
}

// pause is work that takes a time.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// A backlog with fast handlers is claimed in windows, and their outcomes are stored together: far less than
// a command for each event. What was claimed behind a failure goes back with its attempt not consumed.
func TestOrdered_4_9_ClaimsAhead(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	const n = 1000
	g := newGroup(t, setup{clients: 1})
	publishMany(t, orderedTopic, g.clients[0], n)
	commands := pulsetest.NewCommandMonitor()
	config := fast(g.db)
	config.PollInterval, config.DisableChangeStreams = never, true
	c := startClient(t, config, commands.Watch)
	s := &sequencer{fail: func(_ context.Context, r orderedRun) error {
		if r.Number%200 == 150 && r.Attempt == 1 {
			return errPlanned
		}
		return nil
	}}
	commands.Reset()
	s.subscribe(t, []*pulse.Client{c})
	want := upTo(n)
	for i := 150; i < n; i += 200 {
		want = instead(want, fmt.Sprint(i), fmt.Sprint(i), fmt.Sprintf("%d#2", i))
	}
	is.Equal(runsAs(s.runs.Wait(t, len(want))), want)
	attempts := settledV1(t, g.db, n)
	is.Equal(failures(attempts, "worker_lost"), 0)
	total := 0
	for _, of := range attempts {
		total += len(of)
	}
	is.Equal(total, n+5)
	t.Logf("%d events: %.3f commands an event: %s", n, float64(commands.Count())/n, commands)
	is.True(commands.Count() < n/2) // windows, not steps
}

// heldBack returns a sequencer whose call for one event waits until the gate opens or its context ends,
// after a number of fast ones: by then a window is claimed if that is allowed.
func heldBack(at int, opened <-chan struct{}) *sequencer {
	return &sequencer{fail: func(ctx context.Context, r orderedRun) error {
		if r.Number != at {
			return nil
		}
		select {
		case <-opened:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}}
}

// While an event runs, those behind it are claimed if they can be handed back, and never where a lost
// claim would be the end of an event.
func TestOrdered_4_9_NoClaimAheadWithoutRetries(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		ahead bool
		opts  []pulse.SubscribeOption
	}{
		{"retries", true, nil},
		{"no retries", false, []pulse.SubscribeOption{pulse.MaxRetries(0)}},
		{"at most once", false, []pulse.SubscribeOption{pulse.DeliveryMode(pulse.AtMostOnce)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			const n = 60
			g := newGroup(t, setup{clients: 1})
			publishMany(t, orderedTopic, g.clients[0], n)
			opened := make(chan struct{})
			s := heldBack(30, opened)
			s.subscribe(t, g.clients, c.opts...)
			s.runs.Wait(t, 31)
			claims := mustFind(t, historyOf(g.db), locked)
			is.Equal(len(claims) > 1, c.ahead)
			started := 0
			for _, a := range claims {
				if _, err := a.LookupErr("startedAt"); err == nil {
					started++
				}
			}
			is.True(started <= 1) // a process that died now would cost one attempt at most
			close(opened)
			is.Equal(runsAs(s.runs.Wait(t, n)), upTo(n))
			settledV1(t, g.db, n)
		})
	}
}

// What a client gives up goes on elsewhere, without a hole, nothing twice, no attempt spent.
func TestOrdered_4_9_HandedOverInOrder(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"close", "close and cancel", "unsubscribe"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			const n, at = 80, 40
			g := newGroup(t, setup{clients: 2, streams: true})
			publishMany(t, orderedTopic, g.clients[0], n)
			opened := make(chan struct{})
			s := heldBack(at, opened)
			first := s.subscribe(t, g.clients[:1])[0]
			s.runs.Wait(t, at+1)
			other := s.handle(1)
			is.NoErr(second(orderedTopic.Subscribe(t.Context(), g.clients[1], other, orderedBy()...)))
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			want := upTo(n)
			end := func() error { return g.clients[0].Close(ctx) }
			switch how {
			case "close and cancel":
				// A context that has ended cancels the handler at once; it then runs again, for the first time.
				want = instead(want, fmt.Sprint(at), fmt.Sprint(at), fmt.Sprint(at))
				end = func() error {
					ended, cancel := context.WithCancel(ctx)
					cancel()
					_ = g.clients[0].Close(ended)
					close(opened)
					return nil
				}
			case "unsubscribe":
				end = func() error { return first.Unsubscribe(ctx) }
			}
			var ending errgroup.Group
			ending.Go(end)
			if how != "close and cancel" {
				eventually(t, 1, historyOf(g.db), locked) // what was claimed ahead is handed back
				is.Equal(s.runs.Len(), at+1)              // and the other waits for the one that runs
				close(opened)
			}
			is.NoErr(ending.Wait())
			is.Equal(runsAs(s.runs.Wait(t, len(want))), want)
			attempts := settledV1(t, g.db, n)
			is.Equal(s.runs.Len(), len(want))
			is.Equal(s.overlaps.Load(), int32(0))
			for _, of := range attempts {
				is.Equal(len(of), 1)
			}
			is.Equal(s.runs.Values()[len(want)-1].Client, 1)
		})
	}
}

// A handler may run far longer than its leases: both are renewed, and nobody else goes on meanwhile.
func TestOrdered_4_9_LeasesAreRenewed(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	db := pulsetest.Database(t)
	var reported pulsetest.Recorder[error]
	clients := []*pulse.Client{startClient(t, leased(db, 3*time.Second, &reported)), startClient(t, leased(db, 3*time.Second, &reported))}
	opened := make(chan struct{})
	s := heldBack(0, opened)
	publishMany(t, orderedTopic, clients[0], 3)
	s.subscribe(t, clients)
	s.runs.Wait(t, 1)
	before := storedSubscription(t, db, "billing", orderedTopic.Name())
	attempt := only(t, historyOf(db), locked)
	pulsetest.Eventually(t, "both leases reach two leases further", func(ctx context.Context) error {
		subs, err := find(ctx, subscriptionsOf(db), bson.D{})
		if err != nil {
			return err
		}
		attempts, err := find(ctx, historyOf(db), locked)
		if err != nil || len(attempts) != 1 {
			return fmt.Errorf("%d locked attempts: %w", len(attempts), err)
		}
		if subs[0].Lookup("orderedLockedUntil").Time().Before(before.Lookup("orderedLockedUntil").Time().Add(6*time.Second)) ||
			attempts[0].Lookup("lockedUntil").Time().Before(attempt.Lookup("lockedUntil").Time().Add(6*time.Second)) {
			return errors.New("not yet")
		}
		return nil
	})
	after := storedSubscription(t, db, "billing", orderedTopic.Name())
	is.Equal(after.Lookup("orderedLockToken"), before.Lookup("orderedLockToken"))
	is.Equal(s.runs.Len(), 1)
	close(opened)
	is.Equal(runsAs(s.runs.Wait(t, 3)), upTo(3))
	settledV1(t, db, 3)
	is.Equal(reported.Len(), 0)
}
