package devserver

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/orionjs/orion-go/pulse/pulsetest/kafkaserver"
)

// kafkaEnv is the variable that leads to the broker, both for us and for the command.
const kafkaEnv = "KAFKA_BROKERS"

// kafka is the Kafka broker: one that the user provides, or one of our own.
type kafka struct {
	cfg    Config
	server *kafkaserver.Server // nil when the user provides it
}

func newKafka(cfg Config) *kafka { return &kafka{cfg: cfg} }

func (k *kafka) start(ctx context.Context) ([]string, error) {
	if brokers := os.Getenv(kafkaEnv); brokers != "" {
		if err := kafkaserver.Check(ctx, brokers); err != nil {
			return nil, fmt.Errorf("%s is set, but %w; start that broker, or unset %s to have one started here", kafkaEnv, err, kafkaEnv)
		}
		return []string{kafkaEnv + "=" + brokers}, nil
	}
	opts := kafkaserver.Options{Progress: &linePrefixer{w: k.cfg.Stderr}}
	if k.cfg.Keep {
		cache, err := os.UserCacheDir()
		if err != nil {
			return nil, fmt.Errorf("--keep has no place for the data: %w", err)
		}
		opts.StoragePath = filepath.Join(cache, "pulse", "kafka-data")
	}
	server, err := kafkaserver.Start(ctx, opts)
	if err != nil {
		return nil, err
	}
	k.server = server
	return []string{kafkaEnv + "=" + server.Addr()}, nil
}

func (k *kafka) exited() <-chan struct{} {
	if k.server == nil {
		return nil
	}
	return k.server.Exited()
}

func (k *kafka) describe() string {
	switch {
	case k.server == nil:
		return "Kafka: the broker of " + kafkaEnv
	case k.cfg.Keep:
		return fmt.Sprintf("Kafka: a broker at %s, data kept", k.server.Addr())
	default:
		return fmt.Sprintf("Kafka: a broker at %s", k.server.Addr())
	}
}

func (k *kafka) logTail() string { return k.server.LogTail() }

func (k *kafka) stop() error {
	if k.server == nil {
		return nil
	}
	return k.server.Stop()
}
