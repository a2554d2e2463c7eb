package kafka_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"github.com/orionjs/orion-go/echoes"
	"github.com/orionjs/orion-go/echoes/kafka"
	"github.com/orionjs/orion-go/pulse/pulsetest"
)

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) != "" {
		runChild()
		return
	}
	goleak.VerifyTestMain(m)
}

// order is a parameter type, decoded as generated code does it.
type order struct {
	N    int
	Note string
	At   time.Time
}

func decodeOrder(d *echoes.Decoder, p *order) {
	for end := d.Begin(); d.Next(end); {
		switch string(d.Key()) {
		case "n":
			d.Int(&p.N)
		case "note":
			d.String(&p.Note)
		case "at":
			d.Time(&p.At)
		}
	}
}

// service is what echoesgen would make of an annotated struct.
type service []echoes.Listener

func (s service) EchoesListeners() []echoes.Listener { return s }

func on(topic string, handle func(context.Context, echoes.Item[order]) error, opts ...echoes.Option) echoes.Listener {
	return echoes.OnItem(topic, handle, decodeOrder, opts...).At("orders.go:7").Named("(*Orders).Handle")
}

// setup is a test's own corner of a broker.
type setup struct {
	brokers []string
	group   string
	client  *kgo.Client
}

func newSetup(t testing.TB) *setup { return setupAt(t, pulsetest.Brokers(t)) }

func setupAt(t testing.TB, brokers []string) *setup {
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0), kgo.DisableClientMetrics())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return &setup{brokers: brokers, group: "group-" + uuid.NewString(), client: client}
}

// topic creates a topic of its own.
func (s *setup) topic(t testing.TB, partitions int32) string {
	t.Helper()
	topic := "t-" + uuid.NewString()
	s.create(t, topic, partitions, nil)
	return topic
}

func (s *setup) create(t testing.TB, topic string, partitions int32, configs map[string]string) {
	t.Helper()
	req := kmsg.NewPtrCreateTopicsRequest()
	rt := kmsg.NewCreateTopicsRequestTopic()
	rt.Topic, rt.NumPartitions, rt.ReplicationFactor = topic, partitions, 1
	for k, v := range configs {
		config := kmsg.NewCreateTopicsRequestTopicConfig()
		config.Name, config.Value = k, kmsg.StringPtr(v)
		rt.Configs = append(rt.Configs, config)
	}
	req.Topics = append(req.Topics, rt)
	resp, err := req.RequestWith(t.Context(), s.client)
	if err == nil {
		err = kerr.ErrorForCode(resp.Topics[0].ErrorCode)
	}
	if err != nil {
		t.Fatalf("create the topic %s: %v", topic, err)
	}
}

// put stores records as somebody else's client would.
func (s *setup) put(t testing.TB, records ...*kgo.Record) {
	t.Helper()
	if err := s.client.ProduceSync(t.Context(), records...).FirstErr(); err != nil {
		t.Fatalf("put records: %v", err)
	}
}

// fill stores n orders, spread over the partitions in turn, numbered from first.
func (s *setup) fill(t testing.TB, topic string, partitions, first, n int) {
	t.Helper()
	records := make([]*kgo.Record, n)
	for i := range records {
		records[i] = record(topic, int32((first+i)%partitions), fmt.Sprintf(`{"params":{"n":%d}}`, first+i))
	}
	s.put(t, records...)
}

func record(topic string, partition int32, value string, headers ...string) *kgo.Record {
	rec := &kgo.Record{Topic: topic, Partition: partition, Value: []byte(value)}
	for i := 0; i < len(headers); i += 2 {
		rec.Headers = append(rec.Headers, kgo.RecordHeader{Key: headers[i], Value: []byte(headers[i+1])})
	}
	return rec
}

// read returns the first n records of a topic.
func (s *setup) read(t testing.TB, topic string, n int) []*kgo.Record {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(s.brokers...), kgo.ConsumeTopics(topic), kgo.FetchMaxWait(100*time.Millisecond), kgo.MetadataMinAge(100*time.Millisecond), kgo.DisableClientMetrics())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var records []*kgo.Record
	for len(records) < n {
		fetches := client.PollFetches(ctx)
		if ctx.Err() != nil {
			t.Fatalf("%s has %d records, want %d", topic, len(records), n)
		}
		records = append(records, fetches.Records()...)
	}
	return records
}

func headers(rec *kgo.Record) map[string]string {
	m := map[string]string{}
	for _, h := range rec.Headers {
		m[h.Key] = string(h.Value)
	}
	return m
}

// committed returns the sum of the group's offsets over the topic's partitions.
func (s *setup) committed(ctx context.Context, topic string) (int64, error) {
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Group = s.group
	group := kmsg.NewOffsetFetchRequestGroup()
	group.Group = s.group
	req.Groups = append(req.Groups, group)
	resp, err := req.RequestWith(ctx, s.client)
	if err != nil {
		return 0, err
	}
	sum := int64(0)
	for _, rt := range resp.Groups[0].Topics {
		for _, p := range rt.Partitions {
			if rt.Topic == topic {
				sum += max(0, p.Offset)
			}
		}
	}
	return sum, nil
}

func (s *setup) waitCommitted(t testing.TB, topic string, want int64) {
	t.Helper()
	pulsetest.Eventually(t, fmt.Sprintf("%d committed offsets of %s", want, topic), func(ctx context.Context) error {
		got, err := s.committed(ctx, topic)
		if err == nil && got != want {
			err = fmt.Errorf("%d are", got)
		}
		return err
	})
}

// patience bounds waits that end early when all is well.
const patience = 60 * time.Second

// member is a running App of a test.
type member struct {
	*echoes.App
	errors *pulsetest.Recorder[error]
}

func (s *setup) config(options ...kgo.Opt) kafka.Config {
	return kafka.Config{Brokers: s.brokers, ConsumerGroup: s.group, Options: append([]kgo.Opt{kgo.DisableClientMetrics()}, options...)}
}

// quick makes rebalances fast enough for a test.
func quick(session, rebalance time.Duration) []kgo.Opt {
	return []kgo.Opt{kgo.SessionTimeout(session), kgo.RebalanceTimeout(rebalance), kgo.HeartbeatInterval(200 * time.Millisecond)}
}

func (s *setup) join(t testing.TB, cfg kafka.Config, listeners ...echoes.Listener) *member {
	t.Helper()
	m := newMember(t, echoes.Config{Kafka: kafka.New(cfg)}, listeners...)
	if err := m.Start(t.Context()); err != nil {
		t.Fatalf("start: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := m.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return m
}

func newMember(t testing.TB, cfg echoes.Config, listeners ...echoes.Listener) *member {
	t.Helper()
	m := &member{errors: &pulsetest.Recorder[error]{}}
	cfg.Logger = slog.New(slog.NewTextHandler(testWriter{t}, &slog.HandlerOptions{Level: slog.LevelInfo}))
	cfg.OnError = func(err error) { m.errors.Add(err) }
	var services []echoes.Service
	if len(listeners) > 0 {
		services = append(services, service(listeners))
	}
	app, err := echoes.New(cfg, services...)
	if err != nil {
		t.Fatal(err)
	}
	m.App = app
	return m
}

// testWriter logs to the test while it runs.
type testWriter struct {
	t testing.TB
}

func (w testWriter) Write(b []byte) (int, error) {
	if w.t.Context().Err() == nil {
		w.t.Log(strings.TrimSpace(string(b)))
	}
	return len(b), nil
}

func atoi(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		return -1
	}
	return n
}

var errTest = errors.New("no stock")
