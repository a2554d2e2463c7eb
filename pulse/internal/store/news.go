package store

import (
	"context"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// News is what a poll finds among the events.
type News struct {
	// Topics have events behind their position.
	Topics []string
	// Pending tells that there are events of transactions to be stamped.
	Pending bool
}

// News tells which of the topics have events behind their position, and whether events wait to be stamped:
// one command for up to 100 topics.
func (s *Store) News(ctx context.Context, cursors map[string]Position) (News, error) {
	const chunk = 100
	topics := make([]string, 0, len(cursors))
	for topic := range cursors {
		topics = append(topics, topic)
	}
	branches := []mongo.Pipeline{pendingBranch()}
	var news News
	for {
		n := min(chunk, len(topics))
		for _, topic := range topics[:n] {
			branches = append(branches, newsBranch(topic, cursors[topic]))
		}
		if err := s.readNews(ctx, branches, cursors, &news); err != nil {
			return News{}, fmt.Errorf("pulse: look for new events: %w", err)
		}
		if topics, branches = topics[n:], nil; len(topics) == 0 {
			return news, nil
		}
	}
}

// newsBranch reads two events from the topic's position on.
func newsBranch(topic string, after Position) mongo.Pipeline {
	return mongo.Pipeline{
		{{Key: "$match", Value: bson.D{
			{Key: "topic", Value: topic},
			{Key: "sequence", Value: bson.D{{Key: "$gte", Value: after.Sequence}}},
		}}},
		{{Key: "$sort", Value: bySequence(1)}},
		{{Key: "$limit", Value: 2}},
		{{Key: "$project", Value: bson.D{{Key: "topic", Value: 1}, {Key: "sequence", Value: 1}}}},
	}
}

// pendingBranch reads one event that waits to be stamped.
func pendingBranch() mongo.Pipeline {
	return mongo.Pipeline{
		{{Key: "$match", Value: pending()}},
		{{Key: "$limit", Value: 1}},
		{{Key: "$project", Value: bson.D{{Key: "pendingTopic", Value: 1}}}},
	}
}

func (s *Store) readNews(ctx context.Context, branches []mongo.Pipeline, cursors map[string]Position, news *News) error {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	pipeline := append(mongo.Pipeline{}, branches[0]...)
	for _, branch := range branches[1:] {
		pipeline = append(pipeline, bson.D{{Key: "$unionWith", Value: bson.D{
			{Key: "coll", Value: s.events.Name()}, {Key: "pipeline", Value: branch},
		}}})
	}
	behind, ties := map[string]bool{}, map[string]int{}
	cursor, err := s.events.Aggregate(ctx, pipeline)
	_, err = readAll(ctx, cursor, err, func(raw bson.Raw) struct{} {
		f := parse(raw)
		topic := f.str("topic")
		switch at, led := cursors[topic]; {
		case f.has("pendingTopic"):
			news.Pending = true
		case !led:
		case readKey(raw).After(at):
			behind[topic] = true
		default:
			// The event at the cursor itself is usually one of the two. Two that lie at or before the
			// cursor are a tie that may go on: only a full look tells.
			if ties[topic]++; ties[topic] == 2 {
				behind[topic] = true
			}
		}
		return struct{}{}
	})
	for topic := range behind {
		news.Topics = append(news.Topics, topic)
	}
	return err
}
