package kafka_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/matryer/is"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/orionjs/orion-go/echoes"
	"github.com/orionjs/orion-go/pulse"
	"github.com/orionjs/orion-go/pulse/pulsetest"
)

const (
	fastSession   = 6 * time.Second // the least that brokers allow by default
	fastRebalance = 6 * time.Second
)

func TestKafka_7_7_PublishedIsDelivered(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := newSetup(t)
	topic := s.topic(t, 2)
	var seen pulsetest.Recorder[echoes.Item[order]]
	m := s.join(t, s.config(), on(topic, func(ctx context.Context, o echoes.Item[order]) error {
		ec, ok := echoes.FromContext(ctx)
		is.True(ok && ec.EventID == o.EventID)
		seen.Add(o)
		return nil
	}))
	at := time.Date(2026, 8, 4, 12, 0, 0, 5e6, time.UTC)
	ref, err := m.Publish(t.Context(), topic, bson.D{{Key: "n", Value: 1}, {Key: "note", Value: "é"}, {Key: "at", Value: at}}, echoes.WithID("order-1"), echoes.WithKey("customer-1"), echoes.WithHeaders(map[string]string{"trace": "x"}))
	is.NoErr(err)
	got := seen.Wait(t, 1)[0]
	is.Equal(got.Params, order{N: 1, Note: "é", At: at})
	is.Equal(got.EventContext, echoes.EventContext{
		EventID: "order-1", Topic: topic, Headers: map[string]string{"trace": "x"}, CreatedAt: ref.CreatedAt, Attempt: 1, ConsumerGroup: s.group, Transport: "kafka",
	})
	is.Equal(ref.ID, "order-1")
	is.Equal(ref.Topic, topic)
	is.True(!ref.Duplicate)
	s.waitCommitted(t, topic, 1)

	rec := s.read(t, topic, 1)[0] // as others see it
	is.Equal(string(rec.Value), `{"params":{"n":1,"note":"é","at":"2026-08-04T12:00:00.005Z"}}`)
	is.Equal(headers(rec), map[string]string{"echoes-event-id": "order-1", "trace": "x"})
	is.Equal(string(rec.Key), "customer-1")
	is.Equal(rec.Attrs.CompressionType(), uint8(0)) // Node's client reads gzip at most
}

func TestKafka_7_7_PublishManyInOrderOfAKey(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := newSetup(t)
	topic := s.topic(t, 4)
	var seen pulsetest.Recorder[int]
	m := s.join(t, s.config(), on(topic, func(_ context.Context, o echoes.Item[order]) error {
		seen.Add(o.Params.N)
		return nil
	}))
	drafts := make([]echoes.Draft[any], 300)
	for i := range drafts {
		drafts[i] = echoes.Draft[any]{Params: map[string]int{"n": i}, Key: "customer-1"}
	}
	results, err := m.PublishMany(t.Context(), topic, drafts)
	is.NoErr(err)
	is.Equal(len(results), len(drafts))
	for _, r := range results {
		is.NoErr(r.Err)
		is.True(r.ID != "" && !r.CreatedAt.IsZero())
	}
	for i, n := range seen.Wait(t, len(drafts)) {
		is.Equal(n, i)
	}
}

// A new group starts at the beginning of the topic, and a restarted one goes on.
func TestKafka_7_7_NewGroupStartsAtTheBeginning(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := newSetup(t)
	topic := s.topic(t, 3)
	s.fill(t, topic, 3, 0, 30)
	var seen pulsetest.Recorder[int]
	listener := on(topic, func(_ context.Context, o echoes.Item[order]) error {
		seen.Add(o.Params.N)
		return nil
	})
	m := s.join(t, s.config(), listener)
	seen.Wait(t, 30)
	is.NoErr(m.Close(t.Context()))
	s.fill(t, topic, 3, 30, 3)
	s.join(t, s.config(), listener)
	seen.Wait(t, 33)
	s.waitCommitted(t, topic, 33)
	is.Equal(seen.Len(), 33) // nothing came twice
}

// Four partitions run at once, each strictly in order.
func TestKafka_7_7_FourPartitionsAtOnceInOrderWithinEach(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := newSetup(t)
	const partitions, each = 6, 40
	topic := s.topic(t, partitions)
	s.fill(t, topic, partitions, 0, partitions*each)
	var running, most atomic.Int32
	full := make(chan struct{})
	var once sync.Once
	var mu sync.Mutex
	orders := map[int][]int{}
	s.join(t, s.config(), on(topic, func(_ context.Context, o echoes.Item[order]) error {
		n := running.Add(1)
		defer running.Add(-1)
		if n == 4 {
			once.Do(func() { close(full) })
		}
		<-full // nobody passes until four run at once
		for top := most.Load(); n > top && !most.CompareAndSwap(top, n); top = most.Load() {
		}
		mu.Lock()
		defer mu.Unlock()
		orders[o.Params.N%partitions] = append(orders[o.Params.N%partitions], o.Params.N)
		return nil
	}))
	s.waitCommitted(t, topic, partitions*each)
	mu.Lock()
	defer mu.Unlock()
	is.Equal(most.Load(), int32(4)) // and never five
	for p := range partitions {
		is.Equal(len(orders[p]), each)
		for i, n := range orders[p] {
			is.Equal(n, p+i*partitions)
		}
	}
}

// A listener's maxConcurrency bounds it alone; other topics go on meanwhile.
func TestKafka_7_7_MaxConcurrencyOfAListener(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := newSetup(t)
	slow, other := s.topic(t, 4), s.topic(t, 1)
	s.fill(t, slow, 4, 0, 8)
	s.fill(t, other, 1, 0, 1)
	var running, most atomic.Int32
	done := make(chan struct{})
	s.join(t, s.config(),
		on(slow, func(_ context.Context, o echoes.Item[order]) error {
			most.Store(max(most.Load(), running.Add(1)))
			defer running.Add(-1)
			<-done
			return nil
		}, echoes.MaxConcurrency(1)),
		on(other, func(context.Context, echoes.Item[order]) error { close(done); return nil }))
	s.waitCommitted(t, slow, 8)
	is.Equal(most.Load(), int32(1))
}

// A failing event is published again with its headers, and after maxRetries it is
// a dead letter. The first retry carries the ID that the record had by its place.
func TestKafka_7_7_RetryRepublishes(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := newSetup(t)
	topic := s.topic(t, 1)
	s.put(t, record(topic, 0, `{"params":{"n":1}}`, "trace", "x"))
	var seen pulsetest.Recorder[echoes.EventContext]
	m := s.join(t, s.config(), on(topic, func(_ context.Context, o echoes.Item[order]) error {
		seen.Add(o.EventContext)
		return errTest
	}))
	dead := s.read(t, "DLQ-"+topic, 1)[0]
	id := fmt.Sprintf("kafka:%s:0:0", topic)
	got := seen.Values()
	is.Equal(len(got), 4) // maxRetries is 3
	for i, ec := range got {
		is.Equal(ec.EventID, id)
		is.Equal(ec.Attempt, i+1)
		is.Equal(ec.CreatedAt, got[0].CreatedAt) // of the event, not of the retry
		is.Equal(ec.Headers["trace"], "x")
	}
	all := s.read(t, topic, 4)
	is.Equal(string(all[3].Value), `{"params":{"n":1}}`)
	is.Equal(headers(all[1])["retries"], "1")
	is.Equal(headers(all[1])["echoes-event-id"], id)
	is.Equal(headers(all[1])["error"], "no stock")
	is.Equal(headers(all[3])["retries"], "3")
	is.Equal(string(dead.Value), `{"params":{"n":1}}`)
	h := headers(dead)
	is.Equal(h["retries"], "4")
	is.Equal(h["error"], "no stock")
	is.Equal(h["echoes-event-id"], id)
	is.Equal(h["trace"], "x")
	s.waitCommitted(t, topic, 4)
	err := m.errors.Wait(t, 1)[0] // an operator has to hear of a dead letter
	is.True(errors.Is(err, errTest))
	is.True(strings.Contains(err.Error(), "DLQ-"+topic))
}

func TestKafka_7_7_RetriesAreTheListeners(t *testing.T) {
	t.Parallel()
	s := newSetup(t)
	for name, test := range map[string]struct {
		handle   func() error
		opts     []echoes.Option
		attempts int
		reason   string
	}{
		"none":       {func() error { return errTest }, []echoes.Option{echoes.MaxRetries(0)}, 1, "no stock"},
		"one":        {func() error { return errTest }, []echoes.Option{echoes.MaxRetries(1)}, 2, "no stock"},
		"permanent":  {func() error { return fmt.Errorf("pay: %w", pulse.Permanent(errTest)) }, nil, 1, "pay: no stock"},
		"panic":      {func() error { panic("boom") }, []echoes.Option{echoes.MaxRetries(1)}, 2, "panic: boom"},
		"goexit":     {func() error { runtime.Goexit(); return nil }, []echoes.Option{echoes.MaxRetries(0)}, 1, "panic: the handler called runtime.Goexit"},
		"no text":    {func() error { return hostile{} }, []echoes.Option{echoes.MaxRetries(0)}, 1, "(the error's own Error method panicked: string)"},
		"long text":  {func() error { return errors.New(strings.Repeat("é", 2000)) }, []echoes.Option{echoes.MaxRetries(0)}, 1, strings.Repeat("é", 1024)},
		"after 1 ms": {func() error { return pulse.RetryAfter(errTest, time.Millisecond) }, []echoes.Option{echoes.MaxRetries(1)}, 2, "no stock"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			s := &setup{brokers: s.brokers, group: s.group + "-" + strings.ReplaceAll(name, " ", "-"), client: s.client}
			topic := s.topic(t, 1)
			s.fill(t, topic, 1, 0, 1)
			var attempts atomic.Int32
			s.join(t, s.config(), on(topic, func(context.Context, echoes.Item[order]) error {
				attempts.Add(1)
				return test.handle()
			}, test.opts...))
			h := headers(s.read(t, "DLQ-"+topic, 1)[0])
			is.Equal(h["error"], test.reason)
			is.Equal(h["retries"], fmt.Sprint(test.attempts))
			is.Equal(int(attempts.Load()), test.attempts)
		})
	}
}

// hostile is an error whose text cannot be had.
type hostile struct{}

func (hostile) Error() string { panic("no text") }

// RetryAfter holds the partition, and nothing else, until the event is published
// again.
func TestKafka_4_6_RetryAfterHoldsThePartition(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := newSetup(t)
	topic, other := s.topic(t, 1), s.topic(t, 1)
	s.fill(t, topic, 1, 0, 2)
	cfg := s.config()
	cfg.Concurrency = 1
	var seen pulsetest.Recorder[int]
	failed := make(chan struct{})
	m := s.join(t, cfg, on(topic, func(_ context.Context, o echoes.Item[order]) error {
		if o.Params.N == 0 && o.Attempt == 1 {
			close(failed)
			return pulse.RetryAfter(errTest, time.Hour) // cut to MaxRetryAfter, still longer than this test
		}
		seen.Add(o.Params.N)
		return nil
	}), on(other, func(_ context.Context, o echoes.Item[order]) error {
		seen.Add(100 + o.Params.N)
		return nil
	}))
	<-failed
	s.fill(t, other, 1, 0, 1)
	is.Equal(seen.Wait(t, 1), []int{100}) // the only place to run is free, the partition is not
	is.NoErr(m.Close(t.Context()))        // stores the retry at once
	h := headers(s.read(t, topic, 3)[2])
	is.Equal(h["retries"], "1")
	s.waitCommitted(t, topic, 1)
	is.Equal(seen.Len(), 1)
}

// What others put into a topic never stalls it: each record is handled or ends as
// a dead letter.
func TestKafka_6_3_ForeignAndHostileRecords(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := newSetup(t)
	topic := s.topic(t, 1)
	bad := []string{"", "\x00\x01\x02", "{}", "[1]", `{"params":process.exit()}`, `{"params":{"n":"text"}}`, `{"params":new RegExp("x","")}`, strings.Repeat("[", 100000), strings.Repeat("x", 900<<10)}
	for _, value := range bad {
		s.put(t, record(topic, 0, value))
	}
	tombstone := record(topic, 0, "")
	tombstone.Value = nil
	s.put(t, tombstone)
	s.put(t,
		record(topic, 0, `{"params":{"n":1,"at":new Date("2026-08-04T12:00:00.000Z"),"note":undefined}}`, "retries", "abc", "retries", "-5", "error", "\xff", "", "", "echoes-created-at", "never"),
		record(topic, 0, `{"params":{"n":2}}`, "retries", "999999999999999999999999", "echoes-event-id", ""),
		record(topic, 0, `{"params":{"n":3}}`, "echoes-event-id", "given"))
	var seen pulsetest.Recorder[echoes.Item[order]]
	s.join(t, s.config(), on(topic, func(_ context.Context, o echoes.Item[order]) error {
		seen.Add(o)
		if o.Params.N == 2 {
			return errTest
		}
		return nil
	}, echoes.MaxRetries(0)))
	got := seen.Wait(t, 3)
	is.Equal(got[0].Attempt, 1) // what is no number counts as none
	is.Equal(got[0].Params.At, time.Date(2026, 8, 4, 12, 0, 0, 0, time.UTC))
	is.True(got[1].Attempt > 1)
	is.Equal(got[2].EventID, "given")
	s.waitCommitted(t, topic, int64(len(bad)+4))
	dead := map[string]*kgo.Record{}
	for _, rec := range s.read(t, "DLQ-"+topic, len(bad)+2) {
		dead[headers(rec)["echoes-event-id"]] = rec
	}
	for i, value := range bad {
		rec := dead[fmt.Sprintf("kafka:%s:0:%d", topic, i)]
		is.True(string(rec.Value) == value)
		is.True(strings.Contains(headers(rec)["error"], "echoes: topic "+topic))
		is.Equal(headers(rec)["retries"], "1")
	}
	rec := dead[fmt.Sprintf("kafka:%s:0:%d", topic, len(bad))]
	is.True(rec.Value == nil)
	is.True(strings.Contains(headers(rec)["error"], "tombstone"))
}
