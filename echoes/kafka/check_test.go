package kafka_test

import (
	"context"
	"crypto/tls"
	"errors"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/matryer/is"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/scram"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/orionjs/orion-go/echoes"
	"github.com/orionjs/orion-go/echoes/kafka"
	"github.com/orionjs/orion-go/pulse"
	"github.com/orionjs/orion-go/pulse/pulsetest"
)

func nothing(context.Context, echoes.Item[order]) error { return nil }

// problems of a configuration, found without any connection.
func problems(t *testing.T, cfg echoes.Config, listeners ...echoes.Listener) []string {
	t.Helper()
	err := newMember(t, cfg, listeners...).Check()
	var startup *echoes.StartupError
	if err != nil && !errors.As(err, &startup) {
		t.Fatalf("%T: %v", err, err)
	}
	var texts []string
	if startup != nil {
		for _, p := range startup.Problems {
			texts = append(texts, p.String())
		}
	}
	return texts
}

func TestKafka_7_6_CheckListsEveryProblem(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	got := problems(t, echoes.Config{Kafka: kafka.New(kafka.Config{Concurrency: -1})},
		on("order created", nothing), on(strings.Repeat("x", 246), nothing).At("orders.go:9"), on("..", nothing))
	is.Equal(len(got), 6)
	for i, want := range []string{
		`Config.Kafka: Brokers is empty`, `Config.Kafka: Concurrency -1: must be from 1 to 10000, or 0 for the default of 4`, `Config.Kafka: ConsumerGroup is empty`,
		`orders.go:7: (*Orders).Handle (topic order created): the topic "order created" contains ' '`,
		`orders.go:9: `, `orders.go:7: (*Orders).Handle (topic ..): the topic ".." is no name`,
	} {
		is.True(strings.HasPrefix(got[i], want))
	}
	is.Equal(problems(t, echoes.Config{Kafka: kafka.New(kafka.Config{Brokers: []string{"a:1"}, ConsumerGroup: "g", Concurrency: math.MaxInt})}, on("t", nothing)),
		[]string{"Config.Kafka: Concurrency 9223372036854775807: must be from 1 to 10000, or 0 for the default of 4"})
	got = problems(t, echoes.Config{Kafka: kafka.New(kafka.Config{Brokers: []string{"a:1", " "}, ConsumerGroup: "g", Options: []kgo.Opt{kgo.SessionTimeout(-1)}})}, on("t", nothing))
	is.Equal(len(got), 2)
	is.True(strings.HasPrefix(got[0], `Config.Kafka: Brokers[1] is " "`))
	is.True(strings.HasPrefix(got[1], `Config.Kafka: Options: `))
	is.Equal(problems(t, echoes.Config{Kafka: kafka.New(kafka.Config{Brokers: []string{"a:1"}})}, on("t", nothing)),
		[]string{"Config.Kafka: ConsumerGroup is empty: name the group that all replicas of this service share"}) // and nothing about Options
	is.Equal(problems(t, echoes.Config{Kafka: kafka.New(kafka.Config{Brokers: []string{"a:1"}, ConsumerGroup: "g"})}, on("t", nothing)), nil)
	is.Equal(problems(t, echoes.Config{Kafka: kafka.New(kafka.Config{Brokers: []string{"a:1"}})}), nil) // only publishes: no group needed
}

// What Kafka cannot do is refused where it was said explicitly, and only where
// Kafka is the only transport.
func TestKafka_7_6_SettingsThatKafkaHasNot(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	cfg := echoes.Config{Kafka: kafka.New(kafka.Config{Brokers: []string{"a:1"}, ConsumerGroup: "g"})}
	got := problems(t, cfg,
		on("ordered", nothing, echoes.Ordered(false)), on("offsetReset", nothing, echoes.OffsetReset("earliest")),
		on("delivery", nothing, echoes.Delivery("at-least-once")), on("retryDelay", nothing, echoes.RetryDelay(1)),
		echoes.OnBatch("batch", 10, func(context.Context, []echoes.Item[order]) error { return nil }, decodeOrder))
	is.Equal(len(got), 5)
	for i, want := range []string{"ordered has no effect", "offsetReset has no effect", "delivery has no effect", "retryDelay has no effect", "a batch is received over Pulse only"} {
		is.True(strings.Contains(got[i], want))
	}
	cfg.Pulse = &echoes.Pulse{URI: "mongodb://unused/db", Config: pulse.Config{ConsumerGroup: "g"}}
	cfg.ConsumeFrom = echoes.FromBoth
	is.Equal(problems(t, cfg, on("retryDelay", nothing, echoes.RetryDelay(1))), nil)
}

// Options that would take from the transport what it guarantees are refused
// before anything connects.
func TestKafka_7_6_OptionsThatAreRefused(t *testing.T) {
	t.Parallel()
	for name, opt := range map[string]kgo.Opt{
		"ConsumeTopics": kgo.ConsumeTopics("x"), "ConsumeRegex": kgo.ConsumeRegex(), "BlockRebalanceOnPoll": kgo.BlockRebalanceOnPoll(),
		"ManualFlushing": kgo.ManualFlushing(), "TransactionalID": kgo.TransactionalID("x"), "DisableAutoCommit": kgo.DisableAutoCommit(),
		"ConsumePartitions": kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"x": {0: kgo.NewOffset()}}),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			m := newMember(t, echoes.Config{Kafka: kafka.New(kafka.Config{Brokers: []string{"127.0.0.1:1"}, ConsumerGroup: "g", Options: []kgo.Opt{opt}})}, on("t", nothing))
			err := m.Start(t.Context())
			var startup *echoes.StartupError
			is.True(errors.As(err, &startup))
			is.True(strings.Contains(err.Error(), "Config.Kafka: Options: "))
		})
	}
}

// What can never be stored is refused before anything is.
func TestKafka_1_6_InvalidEvents(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := newSetup(t)
	topic := s.topic(t, 1)
	m := s.join(t, s.config())
	var invalid *echoes.InvalidEventError
	for want, publish := range map[string]func() error{
		`contains ' '`: func() error { _, err := m.Publish(t.Context(), "a topic", 1); return err },
		"the header retries belongs to the transport": func() error {
			_, err := m.Publish(t.Context(), topic, 1, echoes.WithHeaders(map[string]string{"retries": "1"}))
			return err
		},
		"params.x: a value of the BSON type regex": func() error { _, err := m.Publish(t.Context(), topic, bson.M{"x": bson.Regex{}}); return err },
		"more than the": func() error { _, err := m.Publish(t.Context(), topic, strings.Repeat("x", 1<<20)); return err },
	} {
		err := publish()
		is.True(errors.As(err, &invalid))
		is.True(strings.Contains(err.Error(), want))
	}
	results, err := m.PublishMany(t.Context(), topic, []echoes.Draft[any]{{Params: 1}, {Params: bson.Regex{}}})
	is.True(errors.As(err, &invalid))
	is.Equal(invalid.Index, 1)
	is.Equal(len(results), 0)
	ref, err := m.Publish(t.Context(), topic, strings.Repeat("x", 1000000)) // the largest that fits is near
	is.NoErr(err)
	is.Equal(headers(s.read(t, topic, 1)[0])["echoes-event-id"], ref.ID) // and the first that was stored
}

// A caller does not wait for Kafka longer than its context, and learns that the
// event may be stored or not.
func TestKafka_7_5_PublishEndsWithItsContext(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	_, s := fake(t, kfake.BrokerConfigs(map[string]string{"auto.create.topics.enable": "false"}))
	m := s.join(t, s.config(kgo.UnknownTopicRetries(-1)))
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errTest)
	results, err := m.PublishMany(ctx, "absent", []echoes.Draft[any]{{Params: 1}, {Params: 2}})
	is.True(err != nil)
	is.Equal(len(results), 2)
	for _, r := range results {
		is.True(r.Err != nil && r.ID != "")
	}
}

// TLS and SASL are options of the client.
func TestKafka_7_5_TLSAndSASL(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	web := httptest.NewUnstartedServer(nil) // brings a certificate
	web.StartTLS()
	defer web.Close()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.AllowAutoTopicCreation(), kfake.EnableSASL(), kfake.Superuser("SCRAM-SHA-256", "app", "secret"),
		kfake.TLS(&tls.Config{Certificates: web.TLS.Certificates}))
	is.NoErr(err)
	defer cluster.Close()
	trust := web.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	options := func(password string) []kgo.Opt {
		return []kgo.Opt{kgo.DialTLSConfig(trust), kgo.SASL(scram.Auth{User: "app", Pass: password}.AsSha256Mechanism()), kgo.DisableClientMetrics()}
	}
	cfg := kafka.Config{Brokers: cluster.ListenAddrs(), ConsumerGroup: "g", Options: options("secret")}
	var seen pulsetest.Recorder[int]
	m := (&setup{}).join(t, cfg, on("orders", func(_ context.Context, o echoes.Item[order]) error {
		seen.Add(o.Params.N)
		return nil
	}))
	_, err = m.Publish(t.Context(), "orders", map[string]int{"n": 3})
	is.NoErr(err)
	is.Equal(seen.Wait(t, 1), []int{3})

	cfg.Options = options("wrong")
	err = newMember(t, echoes.Config{Kafka: kafka.New(cfg)}, on("orders", nothing)).Start(t.Context())
	is.True(err != nil && strings.Contains(err.Error(), "SASL"))
	is.NoErr(m.Close(t.Context()))
}
