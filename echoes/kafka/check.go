package kafka

import (
	"fmt"
	"log/slog"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/orionjs/orion-go/echoes"
)

// deadLetter is put before a topic's name for the topic of its dead letters.
const deadLetter = "DLQ-"

// maxTopic is the longest name that Kafka takes.
const maxTopic = 249

// Check is Carrier.Check.
func (c *carrier) Check(receivers []echoes.Receiver) []echoes.Problem {
	var problems []echoes.Problem
	wrong := func(format string, args ...any) {
		problems = append(problems, echoes.Problem{Text: "Config.Kafka: " + fmt.Sprintf(format, args...)})
	}
	cfg := c.cfg
	if len(cfg.Brokers) == 0 {
		wrong("Brokers is empty: name the address of at least one broker, as in \"kafka-1:9092\"")
	}
	for i, addr := range cfg.Brokers {
		if strings.TrimSpace(addr) != addr || addr == "" {
			wrong("Brokers[%d] is %q: an address is a host and a port, as in \"kafka-1:9092\"", i, addr)
		}
	}
	if cfg.Concurrency < 0 || cfg.Concurrency > maxConcurrency {
		wrong("Concurrency %d: must be from 1 to %d, or 0 for the default of %d", cfg.Concurrency, maxConcurrency, defaultConcurrency)
	}
	var own []kgo.Opt
	switch {
	case len(receivers) == 0:
	case strings.TrimSpace(cfg.ConsumerGroup) == "":
		// The options of a group without one would be another problem of the same.
		wrong("ConsumerGroup is empty: name the group that all replicas of this service share")
	default:
		own = cfg.groupOptions()
	}
	if len(cfg.Brokers) > 0 {
		if err := kgo.ValidateOpts(cfg.options(slog.Default(), own...)...); err != nil {
			wrong("Options: %v", err)
		}
	}
	for _, r := range receivers {
		if err := topicError(r.Topic(), maxTopic-len(deadLetter)); err != nil {
			problems = append(problems, about(r, err))
		}
	}
	return problems
}

// about is a problem of a listener.
func about(r echoes.Receiver, err error) echoes.Problem {
	return echoes.Problem{Position: r.Position(), Method: r.Method(), Topic: r.Topic(), Text: err.Error()}
}

// topicError says why Kafka would refuse a topic's name.
func topicError(topic string, limit int) error {
	for _, c := range topic {
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '_' || c == '-') {
			return fmt.Errorf("the topic %q contains %q: on Kafka a name has letters, digits, '.', '_' and '-' only", topic, c)
		}
	}
	switch {
	case topic == "." || topic == "..":
		return fmt.Errorf("the topic %q is no name on Kafka: choose another one", topic)
	case len(topic) > limit:
		return fmt.Errorf("the topic has %d characters: on Kafka at most %d, and %d with the prefix %s", len(topic), maxTopic-len(deadLetter), maxTopic, deadLetter)
	}
	return nil
}

// forbidden lists the options that would take from the carrier what it has to
// decide itself. Only a client can tell them.
func forbidden(client *kgo.Client) []echoes.Problem {
	var problems []echoes.Problem
	refuse := func(given bool, option, why string) {
		if given {
			problems = append(problems, echoes.Problem{Text: "Config.Kafka: Options: remove kgo." + option + ": " + why})
		}
	}
	isTrue := func(option any) bool { on, _ := client.OptValue(option).(bool); return on }
	topics, _ := client.OptValue(kgo.ConsumeTopics).([]string)
	refuse(len(topics) > 0, "ConsumeTopics", "topics come from listeners")
	partitions, _ := client.OptValue(kgo.ConsumePartitions).(map[string]map[int32]kgo.Offset)
	refuse(len(partitions) > 0, "ConsumePartitions", "the group shares out partitions")
	refuse(isTrue(kgo.ConsumeRegex), "ConsumeRegex", "topics come from listeners")
	refuse(isTrue(kgo.BlockRebalanceOnPoll), "BlockRebalanceOnPoll", "partitions are handed over without it")
	refuse(isTrue(kgo.ManualFlushing), "ManualFlushing", "Publish waits for its event")
	txn, _ := client.OptValue(kgo.TransactionalID).(string)
	refuse(txn != "", "TransactionalID", "events are published one by one")
	share, _ := client.OptValue(kgo.ShareGroup).(string)
	refuse(share != "", "ShareGroup", "a consumer group keeps the order within a partition")
	return problems
}
