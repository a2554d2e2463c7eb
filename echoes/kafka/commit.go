package kafka

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// commitLast commits what is marked, before the group is left.
//
// The client commits nothing while it joins the group anew, and the brokers hold the answer to that back until all
// members have asked for it: for as long as the session of one that has died, most of a minute. The brokers
// themselves take commits meanwhile, since the partitions belong to those who had them until the answers go out. So
// then the commit is sent past the client. It carries the member's ID and generation: when the answer has come in
// between, and the partitions may be another's, it is refused.
func (c *consumer) commitLast() error {
	ctx, cancel := context.WithTimeout(context.Background(), goodbyeTimeout)
	defer cancel()
	err := c.client.CommitMarkedOffsets(ctx)
	if !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	again, cancel := context.WithTimeout(context.Background(), goodbyeTimeout)
	defer cancel()
	if beside := c.commitBeside(again, c.client.MarkedOffsets()); beside != nil {
		return fmt.Errorf("%w: the group is being divided anew, and its coordinator did not take a commit meanwhile either: %w", err, beside)
	}
	return nil
}

func (c *consumer) commitBeside(ctx context.Context, marked map[string]map[int32]kgo.EpochOffset) error {
	ids, err := c.topicIDs(ctx, slices.Collect(maps.Keys(marked)))
	if err != nil {
		return err
	}
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group = c.group
	req.MemberID, req.Generation = c.client.GroupMetadata()
	for name, partitions := range marked {
		topic := kmsg.NewOffsetCommitRequestTopic()
		topic.Topic, topic.TopicID = name, ids[name]
		for n, at := range partitions {
			p := kmsg.NewOffsetCommitRequestTopicPartition()
			p.Partition, p.Offset, p.LeaderEpoch = n, at.Offset, at.Epoch
			topic.Partitions = append(topic.Partitions, p)
		}
		req.Topics = append(req.Topics, topic)
	}
	if len(req.Topics) == 0 {
		return nil
	}
	resp, err := req.RequestWith(ctx, c.client)
	if err != nil {
		return err
	}
	for _, topic := range resp.Topics {
		for _, p := range topic.Partitions {
			err = errors.Join(err, kerr.ErrorForCode(p.ErrorCode))
		}
	}
	return err
}

// topicIDs asks for the IDs of topics: newer brokers know the topics of a commit by nothing else.
func (c *consumer) topicIDs(ctx context.Context, topics []string) (map[string][16]byte, error) {
	req := kmsg.NewPtrMetadataRequest()
	for _, name := range topics {
		topic := kmsg.NewMetadataRequestTopic()
		topic.Topic = kmsg.StringPtr(name)
		req.Topics = append(req.Topics, topic)
	}
	resp, err := req.RequestWith(ctx, c.client)
	if err != nil {
		return nil, fmt.Errorf("ask for the topics' IDs: %w", err)
	}
	ids := map[string][16]byte{}
	for _, topic := range resp.Topics {
		if topic.Topic != nil {
			ids[*topic.Topic] = topic.TopicID
		}
	}
	return ids, nil
}
