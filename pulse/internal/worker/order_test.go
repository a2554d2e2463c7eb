package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/matryer/is"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/orionjs/orion-go/pulse/internal/delivery"
	"github.com/orionjs/orion-go/pulse/internal/store"
	"github.com/orionjs/orion-go/pulse/pulsetest"
)

// Nobody but the holder of the ordered lease claims, though nothing is claimed at the moment.
func TestOrder_4_9_OnlyTheHolderClaims(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	o := newOrderedTopic(t, 3)
	holder, other := o.contend(t), o.contend(t)
	held, err := holder.holdOrder(t.Context(), holder.lane)
	is.NoErr(err)
	is.True(held)
	is.True(!other.step(t))
	is.Equal(o.state(t), "free free free")
	is.Equal(other.look().dues, 1) // it looks again when the lease is over
	holder.steps(t, o, "success success success")
	is.Equal(other.calls.Len(), 0)
}

// The ordered lease ends after those of the attempts, as claimed and as renewed.
func TestOrder_4_9_LeaseOutlastsItsAttempts(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	o := newOrderedTopic(t, 3)
	c := o.contend(t, "e0")
	is.True(c.step(t))
	untils := func() (order time.Time, attempts []time.Time) {
		var sub struct{ OrderedLockedUntil time.Time }
		is.NoErr(o.db.Collection("p.subscriptions").FindOne(t.Context(), bson.D{}).Decode(&sub))
		cursor, err := o.db.Collection("p.history").Find(t.Context(), bson.D{})
		is.NoErr(err)
		var docs []struct{ LockedUntil time.Time }
		is.NoErr(cursor.All(t.Context(), &docs))
		for _, d := range docs {
			is.True(d.LockedUntil.Before(sub.OrderedLockedUntil))
			attempts = append(attempts, d.LockedUntil)
		}
		return sub.OrderedLockedUntil, attempts
	}
	order, attempts := untils()
	is.NoErr(c.renewOrders(t.Context()))
	is.NoErr(c.renew(t.Context(), c.heldTasks()))
	renewedOrder, renewed := untils()
	is.True(renewedOrder.After(order))
	for i := range renewed {
		is.True(renewed[i].After(attempts[i]))
	}
	is.Equal(o.state(t), "started claimed claimed")
}

// A claim that wins only some of a window runs none of them: the others go back, and the order is looked at
// again.
func TestOrder_4_9_ClaimThatWinsOnlySomeRunsNothing(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	o := newOrderedTopic(t, 6)
	c := o.contend(t)
	held, err := c.holdOrder(t.Context(), c.lane)
	is.NoErr(err)
	is.True(held)
	heads := c.heads(t, 6)
	o.set(t, "history", bson.D{{Key: "_id", Value: "a3"}}, "lockToken", "another's")
	o.set(t, "history", bson.D{{Key: "_id", Value: "a3"}}, "lockedUntil", time.Now().Add(time.Hour))
	c.lane.order.heads = heads
	claimed, err := c.claimWindow(t.Context(), c.lane, heads)
	is.NoErr(err)
	is.True(!claimed)
	o.becomes(t, "free free free claimed free free")
	is.True(!c.step(t)) // the lock still holds
	is.Equal(c.calls.Len(), 0)
	o.locksOver(t)
	c.steps(t, o, times("success", 6))
	is.Equal(c.calls.Values(), []string{"e0", "e1", "e2", "e3", "e4", "e5"})
}

// A process wakes that was frozen for longer than its leases, before its timers fire.
func TestOrder_4_9_NothingStartsBehindTheLocalDeadline(t *testing.T) {
	t.Parallel()
	for _, claimed := range []string{"about to start", "buffered"} {
		t.Run(claimed, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			o := newOrderedTopic(t, 3)
			c := o.contend(t)
			held, err := c.holdOrder(t.Context(), c.lane)
			is.NoErr(err)
			is.True(held)
			heads := c.heads(t, 3)
			_, err = c.Store.ClaimOrdered(t.Context(), heads, "go:frozen", "token", time.Hour)
			is.NoErr(err)
			var tasks []*task
			for _, h := range heads {
				overdue := c.newTask(c.lane, h.Candidate, "token", time.Now().Add(time.Hour))
				overdue.deadline, overdue.inOrder = time.Now().Add(-time.Millisecond), true
				tasks = append(tasks, overdue)
			}
			c.Pool.hold(tasks)
			c.mu.Lock()
			if claimed == "buffered" {
				c.lane.buffer = tasks
				c.dispatch()
			} else {
				c.lane.buffer = tasks[1:]
				c.start(tasks[0])
			}
			c.mu.Unlock()
			is.Equal(c.waitFor(t.Context(), func() int { return c.running }), 0)
			is.Equal(c.calls.Len(), 0)
			is.Equal(c.settler.waitEmpty(t.Context()), 0)
			is.Equal(o.state(t), "free free free") // no handler has begun, and nobody else has them yet
			is.Equal(c.look(), seen{dues: 1})      // the order is given up with them
		})
	}
}

// The local deadline of the running event passes, without a word from the network: it is told, what it returns
// does not count, and what was claimed behind it never starts.
func TestOrder_4_9_DeadlineEndsTheWindow(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	o := newOrderedTopic(t, 4)
	c := o.contend(t, "e1")
	is.True(c.step(t))
	c.calls.Wait(t, 2)
	c.mu.Lock()
	for _, held := range c.held {
		if held.EventIDs[0] == "e1" {
			held.deadline = time.Now()
			held.expiry.Reset(0)
		}
	}
	c.mu.Unlock()
	is.Equal(c.causes.Wait(t, 1)[0], delivery.ErrLockLost)
	is.Equal(c.waitFor(t.Context(), func() int { return c.running }), 0)
	is.Equal(c.settler.waitEmpty(t.Context()), 0)
	is.Equal(c.calls.Values(), []string{"e0", "e1"})
	is.True(!strings.Contains(o.state(t), "success success")) // the first may have been stored before
	is.Equal(c.look(), seen{dues: 1})
}

// One outcome finds its lease gone: the whole order is lost, nothing of the window is stored, and who runs is
// told.
func TestOrder_4_9_OneLostOutcomeLosesTheOrder(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	o := newOrderedTopic(t, 6)
	c := o.contend(t, "e0", "e2")
	is.True(c.step(t))
	o.set(t, "history", bson.D{{Key: "_id", Value: "a1"}}, "lockToken", "another's")
	c.mu.Lock()
	c.lane.order.flushed = time.Now().Add(time.Hour) // both outcomes go together, however long the first one waits
	c.mu.Unlock()
	c.hold["e0"] <- nil
	c.calls.Wait(t, 3)
	c.mu.Lock()
	c.flushOrder(c.lane)
	c.mu.Unlock()
	is.Equal(c.causes.Wait(t, 1)[0], delivery.ErrLockLost)
	is.Equal(c.waitFor(t.Context(), func() int { return c.running }), 0)
	is.Equal(c.settler.waitEmpty(t.Context()), 0)
	is.True(!strings.Contains(o.state(t), "success"))
	is.Equal(c.calls.Values(), []string{"e0", "e1", "e2"})
	for _, err := range c.reports.Wait(t, 1) {
		is.True(errors.Is(err, delivery.ErrLockLost))
	}
	is.Equal(c.look(), seen{dues: 1})
}

// The outcomes of a window are written in parts, and the first part is lost: what follows is not stored either,
// although its leases hold.
func TestOrder_4_9_NothingIsStoredBehindALostOutcome(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	o := newOrderedTopic(t, 6)
	c := o.contend(t, "e0")
	is.True(c.step(t))
	o.set(t, "history", bson.D{{Key: "_id", Value: "a0"}}, "lockToken", "another's")
	c.mu.Lock()
	first, behind := c.lane.order.running, slices.Clone(c.lane.buffer)
	write := func(t *task) {
		c.finish(t)
		c.settler.push(settled{task: t, inOrder: true, settlement: c.settlement(t, delivery.Outcome{}, delivery.Succeeded, 0, c.Store.Now(), c.Store.Now())})
	}
	write(first)
	c.mu.Unlock()
	is.Equal(c.settler.waitEmpty(t.Context()), 0)
	c.mu.Lock()
	for _, next := range behind {
		write(next)
	}
	c.mu.Unlock()
	is.Equal(c.settler.waitEmpty(t.Context()), 0)
	is.True(!strings.Contains(o.state(t), "success"))
	c.hold["e0"] <- nil
	is.Equal(c.waitFor(t.Context(), func() int { return c.running }), 0)
	is.Equal(c.settler.waitEmpty(t.Context()), 0)
	is.True(!strings.Contains(o.state(t), "success"))
}

// The holder dies in the middle of a window: what it had stored stays, the running event pays an attempt, what
// was claimed behind it pays nothing. The new holder goes through all of those one by one.
func TestOrder_4_9_OnlyTheStartedAttemptIsLost(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	o := newOrderedTopic(t, 9)
	dead := o.contend(t, "e2")
	is.True(dead.step(t))
	o.becomes(t, "success success started "+times("claimed", 6))
	o.leaseOver(t)
	o.locksOver(t)
	next := o.contend(t, "e2", "e3", "e8")
	o.set(t, "history", bson.D{{Key: "_id", Value: "a8"}}, "lockToken", nil) // was not claimed
	next.steps(t, o, "success success worker_lost started "+times("free", 6))
	next.hold["e2"] <- nil
	next.steps(t, o, "success success worker_lost success started "+times("free", 5))
	next.hold["e3"] <- nil
	next.steps(t, o, "success success worker_lost success success success success success success started")
	next.hold["e8"] <- nil
	next.steps(t, o, "success success worker_lost "+times("success", 7))
	is.Equal(next.calls.Values(), []string{"e2", "e3", "e4", "e5", "e6", "e7", "e8"})
}

// Where its lost claim would be the last attempt, an event that kills its process costs no other one a thing,
// since nothing is claimed behind it.
func TestOrder_4_9_WindowIsOneWhereAClaimCosts(t *testing.T) {
	t.Parallel()
	now := time.Now()
	heads := make([]store.Head, 300)
	for i := range heads {
		heads[i].At = store.Position{Sequence: bson.Timestamp{T: 100 + uint32(i), I: 1}}
		heads[i].Due = now.Add(-time.Second)
	}
	for _, c := range []struct {
		name    string
		pace    time.Duration
		lease   time.Duration
		retries int
		mode    string
		change  func(heads []store.Head, o *order)
		want    int
	}{
		{name: "fast", pace: time.Millisecond, want: windowLimit},
		{name: "no handler seen yet", want: 1},
		{name: "slow", pace: stepPace + 1, want: 1},
		{name: "a quarter of a second of work", pace: 5 * time.Millisecond, want: 50},
		{name: "a third of a short lease", pace: 5 * time.Millisecond, lease: 300 * time.Millisecond, want: 20},
		{name: "no retries", pace: time.Millisecond, retries: -1, want: 1},
		{name: "at most once", pace: time.Millisecond, mode: store.AtMostOnce, want: 1},
		{name: "a later attempt", pace: time.Millisecond, want: 1, change: func(heads []store.Head, _ *order) { heads[0].Attempts = 1 }},
		{name: "before a later attempt", pace: time.Millisecond, want: 3, change: func(heads []store.Head, _ *order) { heads[3].Attempts = 1 }},
		{name: "before one that is not due", pace: time.Millisecond, want: 4, change: func(heads []store.Head, _ *order) { heads[4].Due = now.Add(time.Hour) }},
		{name: "where a holder was lost", pace: time.Millisecond, want: 1, change: func(heads []store.Head, o *order) { o.lost = heads[5].At }},
		{name: "behind that", pace: time.Millisecond, want: windowLimit, change: func(heads []store.Head, o *order) { o.lost = store.Position{Sequence: bson.Timestamp{T: 99}} }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			p := newPool(t, 4)
			l := addLane(p, "t", 1, 3, c.pace)
			s := store.Settings{Ordered: true, ExecutionVersion: 1, MaxRetries: 3 + 3*c.retries, Delivery: store.AtLeastOnce, BatchSize: 1}
			if c.mode != "" {
				s.Delivery = c.mode
			}
			l.receiver.Adopt(s)
			if c.lease > 0 {
				p.Lease = c.lease
			}
			l.order.heads = append([]store.Head{}, heads...)
			if c.change != nil {
				c.change(l.order.heads, &l.order)
			}
			is.Equal(p.window(l), c.want)
		})
	}
}

// A failure is stored with what succeeded before it; what was claimed behind it goes back with its attempt not
// consumed, and waits for the retry.
func TestOrder_4_9_FailureHandsBackWhatIsBehindIt(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	o := newOrderedTopic(t, 6)
	c := o.contend(t, "e2")
	c.lane.receiver.Adopt(store.Settings{Ordered: true, ExecutionVersion: 1, MaxRetries: 3, RetryDelay: time.Hour, Multiplier: 1, Delivery: store.AtLeastOnce, BatchSize: 1})
	is.True(c.step(t))
	c.calls.Wait(t, 3)
	c.hold["e2"] <- errors.New("boom")
	o.becomes(t, "success success handler_error "+times("free", 4))
	is.Equal(c.settler.waitEmpty(t.Context()), 0)
	for range 3 {
		is.True(!c.step(t))
	}
	is.Equal(c.calls.Len(), 3)
}

// The order changes hands while locks of attempts still hold: the new holder waits for their end.
func TestOrder_4_9_NewHolderWaitsForLocksThatHold(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	o := newOrderedTopic(t, 3)
	before := o.contend(t, "e0")
	is.True(before.step(t))
	before.calls.Wait(t, 1)
	o.leaseOver(t)
	next := o.contend(t)
	is.True(!next.step(t))
	is.Equal(o.state(t), "started claimed claimed")
	is.True(next.look().token != "")
	is.Equal(next.look().dues, 1) // the time at which they end
	before.hold["e0"] <- nil      // in time: its outcome counts, and goes on with what it had claimed
	o.becomes(t, times("success", 3))
	is.Equal(next.calls.Len(), 0)
}

// A holder wakes and stores its window while the next one recovers it: wherever its write falls between those
// of the recovery, what is accepted is a prefix of the order. Without transactions this rests on the recovery
// going from the last to the first.
func TestOrder_4_9_LateOutcomesBesideARecoveryLeaveNoHole(t *testing.T) {
	t.Parallel()
	for _, transactions := range []bool{true, false} {
		t.Run(fmt.Sprint("transactions=", transactions), func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			const n = 6
			database := func(*testing.T, string) *orderedTopic { return newOrderedTopic(t, n) }
			if !transactions {
				server := standalone(t)
				client := pulsetest.Client(t, at(server.URI()))
				database = func(t *testing.T, name string) *orderedTopic {
					o := &orderedTopic{db: client.Database(name), uri: server.URI()}
					o.add(t, n)
					return o
				}
			}
			accepted := map[int]bool{}
			for place := range n + 1 {
				o := database(t, fmt.Sprint("race", place))
				late := o.contend(t)
				is.Equal(late.Store.Transactions(), transactions)
				heads := late.heads(t, n)
				_, err := late.Store.ClaimOrdered(t.Context(), heads, "go:late", "late", time.Hour)
				is.NoErr(err)
				o.locksOver(t)
				var outcomes []store.Settlement
				for _, h := range heads {
					task := late.newTask(late.lane, h.Candidate, "late", time.Now().Add(time.Hour))
					outcomes = append(outcomes, late.settlement(task, delivery.Outcome{}, delivery.Succeeded, 0, time.Now(), time.Now()))
					task.expiry.Stop()
				}
				// The driver calls the monitor in the goroutine that sends the command, before it does.
				var updates atomic.Int64
				flush := func(_ context.Context, e *event.CommandStartedEvent) {
					if e.CommandName == "update" && e.Command.Lookup("update").StringValue() == "p.history" && updates.Add(1) == int64(place)+1 {
						_, _, err = late.Store.SettleInOrder(t.Context(), outcomes, nil, time.Hour)
					}
				}
				next := o.contendOver(t, func(opts *options.ClientOptions) { opts.SetMonitor(&event.CommandMonitor{Started: flush}) })
				ready, mending := next.mendOrder(t.Context(), next.lane, next.heads(t, n))
				is.NoErr(mending)
				is.NoErr(err)
				is.True(!ready) // to be read again
				state := o.state(t)
				words := strings.Fields(state)
				prefix := 0
				for prefix < len(words) && words[prefix] == "success" {
					prefix++
				}
				is.True(!strings.Contains(strings.Join(words[prefix:], " "), "success")) // no hole
				is.True(!strings.Contains(state, "claimed"))                             // nothing left to recover
				accepted[prefix] = true
			}
			if !transactions {
				is.True(len(accepted) > n/2) // the write did fall between those of the recovery
			}
		})
	}
}
