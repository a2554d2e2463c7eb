package kafka_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/orionjs/orion-go/echoes"
	"github.com/orionjs/orion-go/echoes/kafka"
	"github.com/orionjs/orion-go/pulse/pulsetest"
	"github.com/orionjs/orion-go/pulse/pulsetest/kafkaserver"
)

// A broker that is killed and comes back under load costs time and nothing else:
// every event that a publisher was told is stored is handled, in the order of its
// partition.
func TestKafka_7_7_BrokerIsKilledUnderLoad(t *testing.T) {
	t.Parallel()
	pulsetest.Brokers(t) // not under -short
	is := is.New(t)
	ctx, cancel := context.WithTimeout(t.Context(), 3*patience)
	defer cancel()
	server, err := kafkaserver.Start(ctx, kafkaserver.Options{})
	is.NoErr(err)
	t.Cleanup(func() { _ = server.Stop() })
	s := setupAt(t, []string{server.Addr()})
	const partitions = 4
	topic, slow := s.topic(t, partitions), s.topic(t, 1)
	var seen pulsetest.Recorder[echoes.Item[order]]
	began, let, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	s.fill(t, slow, 1, 0, 1)
	patient := s.config(kgo.SessionTimeout(5*time.Minute), kgo.RetryTimeout(5*time.Minute)) // for machines on which brokers start slowly
	m := s.join(t, patient, on(slow, func(ctx context.Context, _ echoes.Item[order]) error {
		close(began) // panics, and fails the test, when it is called again
		<-let
		ended <- context.Cause(ctx)
		return nil
	}), on(topic, func(_ context.Context, o echoes.Item[order]) error {
		seen.Add(o)
		if o.Params.N%50 == 0 && o.Attempt == 1 {
			return errTest // retries travel through the outage too
		}
		return nil
	}))
	published := make(chan []string, 1)
	stop := make(chan struct{})
	go func() {
		var ids []string
		defer func() { published <- ids }()
		for n := 0; ; n++ {
			select {
			case <-stop:
				return
			default:
			}
			if ref, err := m.Publish(ctx, topic, map[string]int{"n": n}, echoes.WithKey(fmt.Sprint(n%20))); err == nil {
				ids = append(ids, ref.ID)
			}
		}
	}()
	<-began
	for _, n := range []int{300, 900} {
		seen.Wait(t, n)
		is.NoErr(server.Kill())
		is.NoErr(server.Restart(ctx))
	}
	close(let)
	is.NoErr(<-ended) // a handler outlives the outage, and keeps its partition
	s.waitCommitted(t, slow, 1)
	before := seen.Len()
	seen.Wait(t, before+300)
	close(stop)
	ids := <-published
	is.True(len(ids) > 1000)
	seen.WaitFor(t, "all published events", func(got []echoes.Item[order]) bool {
		done := map[string]bool{}
		for _, o := range got {
			done[o.EventID] = done[o.EventID] || o.Params.N%50 != 0 || o.Attempt > 1
		}
		for _, id := range ids {
			if !done[id] {
				return false
			}
		}
		return true
	})
}

func TestKafka_7_5_UnreachableBroker(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	is.NoErr(err)
	t.Cleanup(func() { _ = listener.Close() }) // after the parallel ones below
	silent := listener.Addr().String()         // takes connections and says nothing
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	is.NoErr(err)
	refusing := closed.Addr().String()
	is.NoErr(closed.Close())
	for _, addr := range []string{refusing, silent} {
		t.Run(addr, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			m := newMember(t, echoes.Config{Kafka: kafka.New(kafka.Config{Brokers: []string{addr}, ConsumerGroup: "g"})}, on("t", func(context.Context, echoes.Item[order]) error { return nil }))
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			err := m.Start(ctx)
			is.True(err != nil && ctx.Err() == nil) // long before anybody's patience ends
			is.True(strings.HasPrefix(err.Error(), "echoes: connect kafka: no broker answers at "+addr+" within 10s: "))
			is.NoErr(m.Close(ctx))
		})
	}
}

// fake starts a broker of kfake, to inject what a real one does rarely.
func fake(t *testing.T, opts ...kfake.Opt) (*kfake.Cluster, *setup) {
	t.Helper()
	cluster, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(1), kfake.AllowAutoTopicCreation(), kfake.DefaultNumPartitions(1)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	return cluster, setupAt(t, cluster.ListenAddrs())
}

// produced tells which topic a produce request is for.
func produced(req kmsg.Request) *kmsg.ProduceRequest { return req.(*kmsg.ProduceRequest) }

// refuseProduce makes the broker answer events for a topic with an error.
func refuseProduce(cluster *kfake.Cluster, topic string, code *kerr.Error, times int) {
	id := cluster.TopicInfo(topic)
	cluster.ControlKey(int16(kmsg.Produce), func(req kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		r := produced(req)
		if times <= 0 || len(r.Topics) == 0 || r.Topics[0].Topic != topic && (id == nil || r.Topics[0].TopicID != id.TopicID) {
			return nil, nil, false
		}
		times--
		resp := r.ResponseKind().(*kmsg.ProduceResponse)
		for _, rt := range r.Topics {
			topic := kmsg.NewProduceResponseTopic()
			topic.Topic, topic.TopicID = rt.Topic, rt.TopicID
			for _, rp := range rt.Partitions {
				p := kmsg.NewProduceResponseTopicPartition()
				p.Partition, p.ErrorCode = rp.Partition, code.Code
				topic.Partitions = append(topic.Partitions, p)
			}
			resp.Topics = append(resp.Topics, topic)
		}
		return resp, nil, true
	})
}

// While an outcome cannot be stored the partition waits with it: nothing is
// committed, nothing behind it runs, the handler is not called again, and the
// trouble is reported.
func TestKafka_7_7_PartitionWaitsUntilTheOutcomeIsStored(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	cluster, s := fake(t)
	topic := s.topic(t, 1)
	s.create(t, "DLQ-"+topic, 1, nil)
	s.fill(t, topic, 1, 0, 2)
	refuseProduce(cluster, "DLQ-"+topic, kerr.TopicAuthorizationFailed, 3)
	var seen pulsetest.Recorder[int]
	m := s.join(t, s.config(), on(topic, func(_ context.Context, o echoes.Item[order]) error {
		seen.Add(o.Params.N)
		if o.Params.N == 0 {
			return errTest
		}
		return nil
	}, echoes.MaxRetries(0)))
	errs := m.errors.Wait(t, 3)
	is.True(strings.Contains(errs[0].Error(), "partition 0 waits"))
	is.True(strings.Contains(errs[0].Error(), "TOPIC_AUTHORIZATION_FAILED"))
	is.Equal(headers(s.read(t, "DLQ-"+topic, 1)[0])["error"], "no stock")
	is.Equal(seen.Wait(t, 2), []int{0, 1})
	s.waitCommitted(t, topic, 2)
}

// An event that is too large to be published again becomes a dead letter that
// says where its value is, and the partition goes on.
func TestKafka_7_7_TooLargeForARetry(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := newSetup(t)
	topic := "t-large-" + s.group
	s.create(t, topic, 1, map[string]string{"max.message.bytes": "3000000"})
	big, err := kgo.NewClient(kgo.SeedBrokers(s.brokers...), kgo.ProducerBatchMaxBytes(2<<20), kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.DisableClientMetrics())
	is.NoErr(err)
	defer big.Close()
	is.NoErr(big.ProduceSync(t.Context(), record(topic, 0, `{"params":{"n":1,"note":"`+strings.Repeat("x", 1500000)+`"}}`)).FirstErr())
	heavy := record(topic, 0, `{"params":{"n":1}}`)
	heavy.Headers = append(heavy.Headers, kgo.RecordHeader{Key: "huge", Value: bytes.Repeat([]byte("x"), 1500000)})
	is.NoErr(big.ProduceSync(t.Context(), heavy).FirstErr())
	s.fill(t, topic, 1, 2, 1)
	var seen pulsetest.Recorder[int]
	s.join(t, s.config(), on(topic, func(_ context.Context, o echoes.Item[order]) error {
		seen.Add(o.Params.N)
		if o.Params.N == 1 {
			return errTest
		}
		return nil
	}))
	is.Equal(seen.Wait(t, 3), []int{1, 1, 2})
	letters := s.read(t, "DLQ-"+topic, 2) // in any order: they have partitions of their own
	slices.SortFunc(letters, func(a, b *kgo.Record) int { return strings.Compare(headers(a)["error"], headers(b)["error"]) })
	for i, rec := range letters {
		is.Equal(len(rec.Value), 0)
		place := fmt.Sprint(topic, ":0:", i)
		is.Equal(headers(rec)["error"], "too large to be published again, the value stays at "+place+"; no stock")
		is.Equal(headers(rec)["echoes-event-id"], "kafka:"+place)
		is.Equal(headers(rec)["huge"], "")
	}
	s.waitCommitted(t, topic, 3)
}

// A commit that the broker refuses for a moment is repeated.
func TestKafka_7_7_CommitIsRepeated(t *testing.T) {
	t.Parallel()
	cluster, s := fake(t)
	topic := s.topic(t, 1)
	s.fill(t, topic, 1, 0, 3)
	refused := 0
	cluster.ControlKey(int16(kmsg.OffsetCommit), func(req kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		if refused++; refused > 3 {
			return nil, nil, false
		}
		r := req.(*kmsg.OffsetCommitRequest)
		resp := r.ResponseKind().(*kmsg.OffsetCommitResponse)
		for _, rt := range r.Topics {
			topic := kmsg.NewOffsetCommitResponseTopic()
			topic.Topic, topic.TopicID = rt.Topic, rt.TopicID
			for _, rp := range rt.Partitions {
				p := kmsg.NewOffsetCommitResponseTopicPartition()
				p.Partition, p.ErrorCode = rp.Partition, kerr.UnstableOffsetCommit.Code
				topic.Partitions = append(topic.Partitions, p)
			}
			resp.Topics = append(resp.Topics, topic)
		}
		return resp, nil, true
	})
	s.join(t, s.config(), on(topic, func(context.Context, echoes.Item[order]) error { return nil }))
	s.waitCommitted(t, topic, 3)
}

// A group or a topic that may not be used is found out before any handler runs.
func TestKafka_7_6_ForbiddenGroupAndTopic(t *testing.T) {
	t.Parallel()
	for name, forbid := range map[string]func(cluster *kfake.Cluster){
		"GROUP_AUTHORIZATION_FAILED": func(cluster *kfake.Cluster) {
			cluster.ControlKey(int16(kmsg.DescribeGroups), func(req kmsg.Request) (kmsg.Response, error, bool) {
				resp := req.ResponseKind().(*kmsg.DescribeGroupsResponse)
				group := kmsg.NewDescribeGroupsResponseGroup()
				group.Group, group.ErrorCode = req.(*kmsg.DescribeGroupsRequest).Groups[0], kerr.GroupAuthorizationFailed.Code
				resp.Groups = append(resp.Groups, group)
				return resp, nil, true
			})
		},
		"orders.go:7: (*Orders).Handle (topic forbidden): the brokers refuse the topic: TOPIC_AUTHORIZATION_FAILED": func(cluster *kfake.Cluster) {
			cluster.ControlKey(int16(kmsg.Metadata), func(req kmsg.Request) (kmsg.Response, error, bool) {
				cluster.KeepControl()
				r := req.(*kmsg.MetadataRequest)
				if len(r.Topics) == 0 {
					return nil, nil, false
				}
				resp := r.ResponseKind().(*kmsg.MetadataResponse)
				topic := kmsg.NewMetadataResponseTopic()
				topic.Topic, topic.ErrorCode = r.Topics[0].Topic, kerr.TopicAuthorizationFailed.Code
				resp.Topics = append(resp.Topics, topic)
				return resp, nil, true
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			cluster, s := fake(t)
			forbid(cluster)
			m := newMember(t, echoes.Config{Kafka: kafka.New(s.config())}, on("forbidden", func(context.Context, echoes.Item[order]) error { return nil }))
			err := m.Start(t.Context())
			is.True(err != nil)
			is.True(strings.Contains(err.Error(), name))
		})
	}
}

// The group's coordinator goes for good, and with it the leaders of partitions:
// the other brokers take over, and nothing is lost.
func TestKafka_7_7_CoordinatorGoes(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	cluster, s := fake(t, kfake.NumBrokers(3))
	const partitions, total = 6, 600
	topic := s.topic(t, partitions)
	s.fill(t, topic, partitions, 0, total/2)
	w := newWatch(partitions)
	s.join(t, s.config(), on(topic, w.handler("m", func(int) {})))
	s.waitCommitted(t, topic, total/2)
	is.NoErr(cluster.RemoveNode(cluster.CoordinatorFor(s.group)))
	s.fill(t, topic, partitions, total/2, total/2)
	s.waitCommitted(t, topic, total)
	is.Equal(w.count(), total)
}
