package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/matryer/is"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.uber.org/goleak"

	"github.com/orionjs/orion-go/pulse/internal/delivery"
	"github.com/orionjs/orion-go/pulse/internal/receiver"
	"github.com/orionjs/orion-go/pulse/internal/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// newPool returns a pool whose store leads nowhere: tests of what it decides send no command.
func newPool(t *testing.T, workers int) *Pool {
	t.Helper()
	client, err := mongo.Connect(options.Client().ApplyURI("mongodb://127.0.0.1:1"))
	is.New(t).NoErr(err)
	t.Cleanup(func() { _ = client.Disconnect(context.Background()) })
	return New(Config{
		Store: store.New(client.Database("none"), "none"), Group: "billing", Owner: "go:test",
		Workers: workers, Lease: 30 * time.Second, HistoryRetention: time.Hour,
		Report: func(error) {}, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
}

// addLane gives the pool a lane that has looked, for handlers that take that long (0: none was seen yet).
func addLane(p *Pool, topic string, limit, retries int, pace time.Duration) *lane {
	r := &receiver.Receiver{Topic: topic, Limit: limit}
	r.Adopt(store.Settings{MaxRetries: retries, Delivery: store.AtLeastOnce, BatchSize: 1})
	p.Add(r)
	l := p.lane(topic)
	l.v1().ready, l.v2().ready = false, false
	l.pace.average = pace
	<-p.claims // the signal of Add
	return l
}

func (l *lane) v1() *source { return l.sources[store.V1] }
func (l *lane) v2() *source { return l.sources[store.V2] }

// candidates are first attempts, or later ones.
func candidates(n, attempts int) []store.Candidate {
	out := make([]store.Candidate, n)
	for i := range out {
		id := fmt.Sprintf("d%d.%d", attempts, i)
		out[i] = store.Candidate{ID: id, AttemptID: "a" + id, Attempts: attempts, EventIDs: []string{"e" + id}}
	}
	return out
}

func signalled(p *Pool) bool {
	select {
	case <-p.claims:
		return true
	default:
		return false
	}
}

func TestPool_4_7_ClaimsAheadOnlyWhatTheWorkersSoonFinish(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name           string
		limit, retries int
		pace           time.Duration
		share          int
	}{
		{"no handler seen yet", 4, 3, 0, 0},
		{"instant handlers: sixteen for each worker", 4, 3, time.Microsecond, 64},
		{"a limit below the workers", 1, 3, time.Microsecond, 16},
		{"a quarter of a second of work", 4, 3, 100 * time.Millisecond, 10},
		{"slower than that for all workers", 4, 3, 2 * time.Second, 0},
		{"no retries behind the first attempt", 4, 0, time.Microsecond, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			p := newPool(t, 4)
			l := addLane(p, "t", c.limit, c.retries, c.pace)
			is.Equal(p.share(l), c.share)
			l.v2().candidates = candidates(100, 0)
			is.Equal(len(p.pick(l, l.v2())), c.share)
			l.v2().candidates, l.reserved = candidates(100, 1), 2 // later attempts wait for slots, whatever the pace
			p.slots += 2
			is.Equal(len(p.pick(l, l.v2())), 2)
		})
	}
}

func TestPool_4_7_LanesWithWorkDivideWhatIsClaimedAhead(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	p := newPool(t, 4)
	var lanes []*lane
	for i := range 12 {
		l := addLane(p, fmt.Sprint("t", i), 4, 3, time.Microsecond)
		l.v2().ready = true
		lanes = append(lanes, l)
	}
	sum := 0
	for _, l := range lanes {
		sum += p.share(l)
	}
	is.True(sum <= 4*aheadFactor+len(lanes)) // together no more than one alone, but for rounding
	is.True(p.share(lanes[0]) >= 1)
}

func TestPool_4_7_RefillsWhenHalfOfTheBufferIsGone(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	p := newPool(t, 4)
	l := addLane(p, "t", 4, 3, time.Microsecond)
	l.buffer = make([]*task, 33)
	is.Equal(p.ahead(l), 0)
	l.buffer = make([]*task, 32)
	is.Equal(p.ahead(l), 32)
	l.births.ahead = 1 // as good as in the buffer
	is.Equal(p.ahead(l), 0)
}

// The lane read candidates to claim them ahead; then its handlers became slow.
func TestPool_2_10_SlowedDownLaneAsksForSlots(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	p := newPool(t, 4)
	l := addLane(p, "t", 1, 3, 10*time.Second)
	l.v2().candidates = candidates(3, 0)
	p.running, l.running = 1, 1
	p.mu.Lock()
	p.slotFreed(l)
	p.mu.Unlock()
	is.True(signalled(p))               // the end of its handler makes the claim loop look at it
	is.Equal(len(p.pick(l, l.v2())), 0) // nothing ahead
	is.True(signalled(p))               // but a slot was asked for,
	is.Equal(len(p.pick(l, l.v2())), 1) // and the next round claims for it
	is.Equal(len(l.v2().candidates), 2) // (its limit is one at a time)
	is.Equal(p.slots, l.reserved)       // which stays reserved until the claim is admitted
	is.True(p.running+p.slots <= 4)     // within the workers
}

func TestPool_2_10_SlotsGoRoundTheLanes(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	p := newPool(t, 4)
	huge := addLane(p, "huge", 4, 3, time.Microsecond)
	for i := range 100 {
		huge.buffer = append(huge.buffer, p.newTask(huge, candidates(100, 0)[i], "token", time.Now().Add(time.Hour)))
	}
	var small []*lane
	for i := range 11 {
		l := addLane(p, fmt.Sprint("small", i), 4, 0, time.Microsecond)
		l.v2().needy = 1 // at most once: waits for a slot before it is claimed
		small = append(small, l)
	}
	served := map[string]int{}
	p.mu.Lock()
	defer p.mu.Unlock()
	for range 12 { // one slot at a time
		next := p.nextLane()
		served[next.receiver.Topic]++
		if next != huge {
			next.v2().needy = 0
		}
	}
	is.Equal(served["huge"], 1)
	for _, l := range small {
		is.Equal(served[l.receiver.Topic], 1)
	}
	for _, l := range huge.buffer {
		l.expiry.Stop()
	}
}

func TestPool_3_4_RemembersAllDueTimes(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	p := newPool(t, 4)
	l := addLane(p, "t", 4, 3, 0)
	now := p.Store.Now()
	p.WakeAt("t", store.V2, now.Add(time.Hour))
	p.WakeAt("t", store.V2, now.Add(40*time.Millisecond))
	p.WakeAt("t", store.V2, now.Add(2*time.Hour))
	p.WakeAt("t", store.V2, now.Add(20*time.Millisecond))
	left := func() int {
		p.mu.Lock()
		defer p.mu.Unlock()
		return len(l.v2().dues)
	}
	for left() > 2 { // the near ones wake it, one after the other or, on a busy machine, together
		select {
		case <-p.claims:
		case <-time.After(10 * time.Second):
			t.Fatal("a due delivery woke nobody")
		}
	}
	p.mu.Lock()
	is.Equal(len(l.v2().dues), 2) // the far ones are not forgotten
	is.True(l.v2().dues[0].Sub(now) >= time.Hour && l.v2().dues[0].Sub(now) <= time.Hour+2*dueGrain)
	p.mu.Unlock()

	for i := range 3 * maxDues {
		p.WakeAt("t", store.V2, now.Add(time.Duration(i)*dueGrain+time.Minute))
		p.WakeAt("t", store.V2, now.Add(time.Duration(i)*dueGrain+time.Minute+time.Millisecond)) // the same moment
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	is.Equal(len(l.v2().dues), maxDues)
	is.True(l.v2().dues[0].Sub(now) <= time.Minute+2*dueGrain)
	p.disarm(l)
}

func TestPool_4_7_StaleListIsDroppedAndReadAgainAfterAPause(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	p := newPool(t, 4)
	l := addLane(p, "t", 4, 3, 0)
	l.v2().candidates = candidates(5, 0)
	p.learn(l, l.v2(), 5, 2)
	is.True(l.v2().contended)
	is.Equal(len(l.v2().candidates), 5)
	for misses := 1; misses <= 3; misses++ {
		l.v2().candidates = candidates(5, 0)
		p.learn(l, l.v2(), 5, 0)
		is.Equal(l.v2().misses, misses)
		is.Equal(len(l.v2().candidates), 0)
		select {
		case <-p.claims:
		case <-time.After(10 * time.Second):
			t.Fatal("nobody looks again")
		}
	}
	p.learn(l, l.v2(), 5, 5)
	is.Equal(l.v2().misses, 0)
}

func TestPool_4_1_NewerClaimOfTheSameDeliveryEndsTheOlder(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	p := newPool(t, 4)
	l := addLane(p, "t", 4, 3, 0)
	reports := make(chan error, 10)
	p.Report = func(err error) { reports <- err }
	c := candidates(1, 0)[0]
	far := time.Now().Add(time.Hour)
	older, newer := p.newTask(l, c, "old", far), p.newTask(l, c, "new", far)
	older.state = started
	p.hold([]*task{older})
	p.hold([]*task{newer})
	<-older.ctx.Done()
	is.True(older.lost)
	is.Equal(context.Cause(older.ctx), delivery.ErrLockLost)
	is.True(<-reports != nil)
	is.Equal(p.held[c.ID], newer)
	p.forget([]*task{older}) // as it ends, late: it must not take the newer's place away
	is.Equal(p.held[c.ID], newer)

	// One whose outcome was on its way when the newer claim came is known to be lost too: its outcome must
	// not go with others of the newer's token.
	gone := p.superseded([]settled{{task: older}, {task: newer}})
	is.True(gone[older] && !gone[newer])
	p.forget([]*task{newer})
}

func TestPool_4_1_LocalDeadlineNeedsNoNetwork(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	p := newPool(t, 4)
	l := addLane(p, "t", 4, 3, 0)
	reports := make(chan error, 10)
	p.Report = func(err error) { reports <- err }
	tasks := []*task{
		p.newTask(l, candidates(2, 0)[0], "token", time.Now().Add(20*time.Millisecond)),
		p.newTask(l, candidates(2, 0)[1], "token", time.Now().Add(20*time.Millisecond)),
	}
	p.hold(tasks)
	p.mu.Lock()
	tasks[0].state = started
	l.buffer = tasks[1:]
	p.mu.Unlock()
	for _, task := range tasks {
		<-task.ctx.Done()
		is.Equal(context.Cause(task.ctx), delivery.ErrLockLost)
		is.True(<-reports != nil)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	is.Equal(len(p.held), 0)   // no longer renewed
	is.Equal(len(l.buffer), 0) // what waited never starts
}

// A frozen process wakes: the end of its running handler comes before the timers of what it had buffered.
func TestPool_4_1_OverdueClaimsDoNotStart(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	p := newPool(t, 1)
	reports := make(chan error, 10)
	p.Report = func(err error) { reports <- err }
	l := addLane(p, "t", 1, 3, time.Microsecond)
	p.mu.Lock()
	for _, c := range candidates(5, 0) {
		overdue := p.newTask(l, c, "token", time.Now().Add(time.Hour))
		overdue.deadline = time.Now().Add(-time.Second)
		p.held[c.ID] = overdue
		l.buffer = append(l.buffer, overdue)
	}
	tasks := l.buffer
	p.running, l.running = 1, 1
	p.slotFreed(l)
	is.Equal(len(l.buffer), 0)
	is.Equal(p.running, 0)
	is.Equal(len(p.held), 0)
	p.mu.Unlock()
	for _, task := range tasks {
		is.True(task.lost)
		is.True(errors.Is(<-reports, delivery.ErrLockLost))
		task.expiry.Stop()
	}
}
