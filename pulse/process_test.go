//go:build unix

package pulse_test

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/matryer/is"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/orionjs/orion-go/pulse"
	"github.com/orionjs/orion-go/pulse/internal/clock"
	"github.com/orionjs/orion-go/pulse/observe"
	"github.com/orionjs/orion-go/pulse/pulsetest"
)

// childVariable turns a start of the test binary into a consumer process: tests kill it, freeze it, and
// end it, as no client in their own process could be.
const childVariable = "PULSE_TEST_CONSUMER"

// consumer says what the process does. It stores each run of its handler in the collection "runs" and says
// on its output what happens, a line each:
//
//	ready              the subscription is registered
//	run ID ATTEMPT     the handler was called, with that first event
//	hang ID            it hangs
//	error TEXT         Config.OnError was called
//	log TEXT           a record of the log
//	closed             the client is closed; the process ends
//
// It ends when its input does.
type consumer struct {
	URI, Database       string
	BatchSize           int // 0: single events
	Workers, MaxRetries int
	AtMostOnce          bool
	// Ordered makes it an ordered subscription, of version 1; V1 an unordered one of version 1.
	Ordered, V1 bool
	Lease       time.Duration
	Poll        time.Duration // 0: 100 ms
	// ConfigVersion is the version of its settings.
	ConfigVersion int
	// ClockWrong is how far the process's clock is ahead. RetryDelay is 1 ms if it is not given. Take is how long the
	// handler takes.
	ClockWrong, RetryDelay, Take time.Duration
	// FailOneIn fails one run of so many, at random; 0: none.
	FailOneIn int
	// FailFirst fails each first attempt, to be retried at once.
	FailFirst bool
	// HangAfter lets the handler hang, whatever its context says, from that call on, until a line of input
	// comes; 0: never. It hangs before it stores the run, or, with StoreThenHang, after. With CountRetries only
	// later attempts than the first count.
	HangAfter     int
	CountRetries  bool
	StoreThenHang bool
	// HangAhead lets only a call hang that has claims behind it, made together with its own.
	HangAhead bool
	// DieAfter makes the process kill itself in that call, when it has stored the run; 0: never.
	DieAfter int
	// Idle makes runs store nothing: then handlers are fast, however busy the machine is.
	Idle bool
}

func init() {
	text := os.Getenv(childVariable)
	if text == "" {
		return
	}
	var c consumer
	err := json.Unmarshal([]byte(text), &c)
	if err == nil {
		err = c.run()
	}
	if err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// say prints one line at once.
func say(parts ...any) {
	_, _ = os.Stdout.WriteString(strings.ReplaceAll(fmt.Sprint(parts...), "\n", " ") + "\n")
}

func (c consumer) run() error {
	clock.SetWrong(c.ClockWrong)
	ctx := context.Background()
	mc, err := mongo.Connect(options.Client().ApplyURI(c.URI))
	if err != nil {
		return err
	}
	h := &consumerHandler{consumer: c, runs: mc.Database(c.Database).Collection("runs"), released: make(chan struct{})}
	client, err := pulse.New(ctx, mc, pulse.Config{
		Observer:      h,
		ConsumerGroup: "billing", Database: c.Database, WorkerCount: c.Workers,
		PollInterval: c.Poll, LockTimeout: c.Lease, DiscoveryLockTimeout: c.Lease,
		Logger:  slog.New(slog.NewTextHandler(lines{}, &slog.HandlerOptions{Level: slog.LevelDebug})),
		OnError: func(err error) { say("error ", err) },
	})
	if err != nil {
		return err
	}
	opts := []pulse.SubscribeOption{
		pulse.OffsetReset(pulse.Earliest), pulse.RetryDelay(cmp.Or(c.RetryDelay, time.Millisecond)),
	}
	opts = append(opts, pulse.ConfigVersion(c.ConfigVersion))
	if !c.Ordered {
		opts = append(opts, pulse.Unordered())
		if !c.V1 {
			opts = append(opts, pulse.ExecutionVersion(2))
		}
	}
	if c.AtMostOnce {
		opts = append(opts, pulse.DeliveryMode(pulse.AtMostOnce))
	} else {
		opts = append(opts, pulse.MaxRetries(c.MaxRetries))
	}
	topic := pulse.NewTopic[order](childTopic)
	if c.BatchSize > 0 {
		_, err = topic.SubscribeBatch(ctx, client, c.BatchSize, h.handle, opts...)
	} else {
		_, err = topic.Subscribe(ctx, client, func(ctx context.Context, e *pulse.Event[order]) error {
			return h.handle(ctx, []*pulse.Event[order]{e})
		}, opts...)
	}
	if err != nil {
		return err
	}
	say("ready")
	input := bufio.NewReader(os.Stdin)
	if _, err := input.ReadString('\n'); err == nil {
		close(h.released)
		_, _ = io.Copy(io.Discard, input)
	}
	closing, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if err := client.Close(closing); err != nil {
		return err
	}
	say("closed")
	return mc.Disconnect(closing)
}

// lines prints records of the log.
type lines struct{}

func (lines) Write(record []byte) (int, error) {
	say("log ", strings.TrimSpace(string(record)))
	return len(record), nil
}

type consumerHandler struct {
	consumer
	observe.Nothing
	ahead    atomic.Int64 // of the last claim, what has not run
	runs     *mongo.Collection
	calls    atomic.Int64
	released chan struct{}
}

func (h *consumerHandler) Claimed(c observe.Claimed) { h.ahead.Store(int64(c.Won)) }

func (h *consumerHandler) handle(_ context.Context, events []*pulse.Event[order]) error {
	attempt := events[0].Attempt
	say("run ", events[0].ID, " ", attempt)
	if h.FailFirst && attempt == 1 {
		return errors.New("as told")
	}
	calls := h.calls.Load()
	if attempt > 1 || !h.CountRetries {
		calls = h.calls.Add(1)
	}
	behind := h.ahead.Add(-1)
	hangs := h.HangAfter > 0 && calls >= int64(h.HangAfter) && (behind > 0 || !h.HangAhead)
	if hangs {
		say("hang ", events[0].ID)
	}
	if hangs && !h.StoreThenHang {
		<-h.released
	}
	time.Sleep(h.Take)
	if h.Idle {
		return nil
	}
	docs := make([]bson.D, len(events))
	for i, e := range events {
		docs[i] = bson.D{
			{Key: "event", Value: e.ID},
			{Key: "attempt", Value: attempt},
			{Key: "pid", Value: os.Getpid()},
			{Key: "number", Value: e.Data.Number},
			{Key: "at", Value: bson.Timestamp{}}, // the server's
		}
	}
	// Not the handler's context: a frozen process should do everything that it can still do wrong.
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if _, err := h.runs.InsertMany(ctx, docs); err != nil {
		return err
	}
	if hangs {
		<-h.released
	}
	if h.DieAfter > 0 && calls >= int64(h.DieAfter) {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}
	if h.FailOneIn > 0 && rand.IntN(h.FailOneIn) == 0 {
		return errors.New("by chance")
	}
	return nil
}

// childTopic is what consumers subscribe to.
const childTopic = "order.created"

// process is a running consumer.
type process struct {
	t      *testing.T
	cmd    *exec.Cmd
	input  io.WriteCloser
	output pulsetest.Recorder[string]
	read   sync.WaitGroup
	wait   func() error
}

// startProcess starts a consumer and waits until it has subscribed. It is killed at the end of the test.
func startProcess(t *testing.T, c consumer) *process {
	t.Helper()
	is := is.New(t)
	if c.URI == "" {
		c.URI = chaosURI(t)
	}
	if c.Lease == 0 {
		c.Lease = 3 * time.Second
	}
	if c.Poll == 0 {
		c.Poll = 100 * time.Millisecond
	}
	text, err := json.Marshal(c)
	is.NoErr(err)
	p := &process{t: t, cmd: exec.Command(os.Args[0])}
	p.cmd.Env = append(os.Environ(), childVariable+"="+string(text))
	p.cmd.Stderr = os.Stderr
	input, err := p.cmd.StdinPipe()
	is.NoErr(err)
	output, err := p.cmd.StdoutPipe()
	is.NoErr(err)
	is.NoErr(p.cmd.Start())
	p.input, p.wait = input, sync.OnceValue(func() error {
		p.read.Wait()
		return p.cmd.Wait()
	})
	p.read.Go(func() {
		scanner := bufio.NewScanner(output)
		scanner.Buffer(nil, 1<<20)
		for scanner.Scan() {
			p.output.Add(scanner.Text())
		}
	})
	t.Cleanup(p.kill)
	p.waitLine("ready")
	return p
}

func (p *process) pid() string { return strconv.Itoa(p.cmd.Process.Pid) }

// kill ends the process at once and waits for its end.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.wait()
}

// release lets its hanging handlers go on.
func (p *process) release() {
	p.t.Helper()
	_, err := p.input.Write([]byte("\n"))
	is.New(p.t).NoErr(err)
}

// end closes the process in an orderly way.
func (p *process) end() {
	p.t.Helper()
	_ = p.input.Close()
	p.waitLine("closed")
	is.New(p.t).NoErr(p.wait())
}

func (p *process) freeze() { p.signal(syscall.SIGSTOP) }
func (p *process) thaw()   { p.signal(syscall.SIGCONT) }

func (p *process) signal(s syscall.Signal) {
	p.t.Helper()
	is.New(p.t).NoErr(p.cmd.Process.Signal(s))
}

// waitLine waits for a line of the output that begins with one text and contains the others.
func (p *process) waitLine(begin string, parts ...string) {
	p.t.Helper()
	p.output.WaitFor(p.t, fmt.Sprintf("a line %q with %q", begin, parts), func(all []string) bool {
		for _, line := range all {
			if hasParts(line, begin, parts) {
				return true
			}
		}
		return false
	})
}

// lines counts the lines of the output that begin with one text and contain the others.
func (p *process) lines(begin string, parts ...string) int {
	n := 0
	for _, line := range p.output.Values() {
		if hasParts(line, begin, parts) {
			n++
		}
	}
	return n
}

func hasParts(line, begin string, parts []string) bool {
	for _, part := range parts {
		if !strings.Contains(line, part) {
			return false
		}
	}
	return strings.HasPrefix(line, begin)
}
