package main

import (
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/orionjs/orion-go/echoes"
	"github.com/orionjs/orion-go/echoes/kafka"
	"github.com/orionjs/orion-go/pulse"
)

// step is one stage of the move: where the service's events come from, and where it publishes to.
type step struct {
	name  string
	from  echoes.Source
	to    echoes.Target
	about string
}

var steps = []step{
	{"kafka", echoes.FromKafka, echoes.ToKafka, "all is on Kafka"},
	{"both", echoes.FromBoth, echoes.ToKafka, "replicas consume from both; nothing is published to Pulse yet"},
	{"switch", echoes.FromBoth, echoes.ToPulse, "publishers go to Pulse, one after the other; replicas still consume from both"},
	{"pulse", echoes.FromPulse, echoes.ToPulse, "Kafka is drained; replicas consume from Pulse only"},
}

func findStep(name string) (step, error) {
	for _, s := range steps {
		if s.name == name {
			return s, nil
		}
	}
	return step{}, fmt.Errorf("there is no step %q: use one of %s", name, stepNames())
}

func stepNames() string {
	names := make([]string, len(steps))
	for i, s := range steps {
		names[i] = s.name
	}
	return strings.Join(names, ", ")
}

// leaseTime is how long a replica that gives no sign of life keeps what it has begun. In production the
// defaults are better: they forgive a machine that stands still for a moment.
const leaseTime = 10 * time.Second

// servers are where the events and the book are. The group is also the name of the database.
type servers struct {
	client  *mongo.Client
	brokers []string
	group   string
}

// database holds the events and the book.
func (s servers) database() *mongo.Database { return s.client.Database(s.group) }

// config is that of a replica, or of a publisher, at a step.
func (s servers) config(at step) echoes.Config {
	return echoes.Config{
		Pulse: &echoes.Pulse{
			Client: s.client,
			// A replica is killed in the demo. Its orders come again after this time, by default after 30 seconds.
			Config: pulse.Config{ConsumerGroup: s.group, Database: s.group, LockTimeout: leaseTime},
		},
		Kafka: kafka.New(kafka.Config{
			Brokers:       s.brokers,
			ConsumerGroup: s.group,
			// And the orders of its partitions wait this long, by default 45 seconds.
			Options: []kgo.Opt{kgo.SessionTimeout(leaseTime), kgo.HeartbeatInterval(leaseTime / 10)},
		}),
		// Orders that fail at first are part of the demo.
		Logger:      slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})),
		ConsumeFrom: at.from,
		PublishTo:   at.to,
		Defaults:    []echoes.Option{echoes.Ordered(false), echoes.ExecutionVersion(2), echoes.OffsetReset("earliest")},
	}
}
