package kafka

import (
	"context"
	"log/slog"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	defaultConcurrency = 4
	maxConcurrency     = 10_000
	// defaultMaxRetries is how often a listener without MaxRetries retries.
	defaultMaxRetries = 3
	// connectTimeout bounds how long Start waits for a broker, and then for the
	// group's coordinator.
	connectTimeout = 10 * time.Second
	// commitInterval is how long a stored outcome waits for its commit. Kafka
	// hands what is not committed to another member after a crash.
	commitInterval = 200 * time.Millisecond
	// maxBatch is what a broker takes unless it is configured otherwise.
	maxBatch = 1<<20 + 12
)

// MaxRetryAfter bounds how long pulse.RetryAfter holds a partition; a longer pause
// is cut to it.
const MaxRetryAfter = 5 * time.Minute

// Config configures the transport. Brokers is required, and ConsumerGroup unless
// the service only publishes.
type Config struct {
	// Brokers are addresses, as in "kafka-1:9092", of which one has to answer at
	// start; the others are learned from it.
	Brokers []string
	// ConsumerGroup is the group that all replicas of a service share. A new
	// group starts at the beginning of its topics. One that exists goes on where
	// it is, also one of Node's clients, once none of those is left in it.
	ConsumerGroup string
	// Concurrency bounds the handlers that run at once in this process, each
	// with an event of another partition. A listener's MaxConcurrency bounds its
	// own. From 1 to 10,000. Default 4.
	Concurrency int
	// Options are passed to the Kafka client of github.com/twmb/franz-go: TLS
	// (kgo.DialTLSConfig), SASL (kgo.SASL), timeouts, bounds of memory, and
	// anything else. They override the defaults of this package, except for what
	// it guarantees: group, topics, where a new group starts, how offsets are
	// committed and partitions are handed over.
	Options []kgo.Opt
}

func (c Config) concurrency() int {
	if c.Concurrency == 0 {
		return defaultConcurrency
	}
	return c.Concurrency
}

// defaults are the options that Config.Options may override.
func (c Config) defaults(logger *slog.Logger) []kgo.Opt {
	return []kgo.Opt{
		kgo.ClientID("echoes"),
		kgo.WithLogger(clientLogger{logger}),
		// As Node's client: topics and dead letter topics appear with their first
		// event where the brokers allow it.
		kgo.AllowAutoTopicCreation(),
		kgo.MetadataMaxAge(time.Minute),
		kgo.MetadataMinAge(500 * time.Millisecond),

		// Node's client reads no compression but gzip without more packages.
		kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.ProducerBatchMaxBytes(maxBatch),
		kgo.ProducerLinger(0),
		kgo.RecordDeliveryTimeout(30 * time.Second),
		kgo.MaxBufferedBytes(32 << 20),

		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.FetchMaxWait(500 * time.Millisecond),
		kgo.FetchMaxBytes(16 << 20),
		kgo.FetchMaxPartitionBytes(1 << 20),
		kgo.MaxDecompressBatchBytes(64 << 20),
	}
}

// options are what the client is made of, the last one wins.
func (c Config) options(logger *slog.Logger, own ...kgo.Opt) []kgo.Opt {
	opts := append(c.defaults(logger), c.Options...)
	return append(append(opts, kgo.SeedBrokers(c.Brokers...)), own...)
}

// groupOptions make the client a member of the group.
func (c Config) groupOptions() []kgo.Opt {
	return []kgo.Opt{
		kgo.ConsumerGroup(c.ConsumerGroup),
		kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()),
		kgo.AutoCommitMarks(),
		kgo.AutoCommitInterval(commitInterval),
	}
}

// clientLogger passes what the Kafka client warns of to the application's log.
type clientLogger struct{ to *slog.Logger }

func (clientLogger) Level() kgo.LogLevel { return kgo.LogLevelWarn }

func (l clientLogger) Log(level kgo.LogLevel, msg string, keyvals ...any) {
	at := slog.LevelWarn
	if level == kgo.LogLevelError {
		at = slog.LevelError
	}
	l.to.Log(context.Background(), at, "kafka: "+msg, keyvals...)
}
