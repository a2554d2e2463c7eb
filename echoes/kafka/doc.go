// Package kafka is the Kafka transport of Echoes (spec 7.5 to 7.7). Only a
// program that imports it links a Kafka client.
//
//	app, err := echoes.New(echoes.Config{
//		Kafka: kafka.New(kafka.Config{Brokers: []string{"kafka-1:9092"}, ConsumerGroup: "billing"}),
//	}, &Invoices{})
//
// # Handling
//
// All replicas of a service form one consumer group, which shares the topics'
// partitions out among them. Config.Concurrency partitions run at once in one
// process, and the events of one partition strictly in order. A handler may take
// as long as it needs: the member stays in its group.
//
// An offset is committed only after the outcome of its event is stored: the
// handler succeeded, or Kafka has acknowledged the event's next life as a retry
// or as a dead letter. A process that dies leaves what it had not committed to the
// others, which handle it again: delivery is at least once.
//
// A failed event is published again, to the end of its topic, with the headers
// retries (attempts so far) and error. Once the listener's MaxRetries (default 3)
// are used up it goes to the topic DLQ-<topic>, and at once when the error was
// marked with pulse.Permanent. pulse.RetryAfter holds the partition for that long,
// up to MaxRetryAfter, before the event is published again.
//
// # Rebalances
//
// A partition that moves to another member is given up in order: its running
// handler gets half of the group's rebalance timeout to finish (half of 60 s
// unless kgo.RebalanceTimeout says otherwise), then its context is cancelled with
// the cause ErrPartitionLost. What was finished is committed; what was not is
// handled again by the next owner. A partition that is already lost, because
// Kafka did not hear from the member for its session timeout, cancels its handler
// at once, and nothing of it is stored.
//
// # Memory
//
// A partition holds up to 512 records or 1 MiB and what one more fetch brings
// (1 MiB), and each broker up to 16 MiB on the way to them: 2 MiB for each
// assigned partition and 16 MiB for each broker, of uncompressed records. Publish
// holds back when 32 MiB wait for the brokers. Both bounds are options of kgo.
package kafka
