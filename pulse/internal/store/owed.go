package store

import (
	"context"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/orionjs/orion-go/pulse/internal/delivery"
)

// Owed is what a group has still to do for a topic that it is subscribed to.
type Owed struct {
	Topic string
	// Undiscovered counts events without a delivery, those included whose transaction was committed and that
	// wait for their place in the order. It counts no further than some thousand.
	Undiscovered int
	// Running counts deliveries that are claimed, Due those that may be claimed, and Waiting those whose next
	// attempt is due later. In an order that waits for the retry of its head, all wait.
	Running, Due, Waiting int
	// Next is when the first of the waiting ones is due.
	Next time.Time
	// Moving tells that discovery was at work meanwhile, so that the counts are of several moments.
	Moving bool
	// Paused tells that an operator has paused the subscription: what is due does not start.
	Paused bool
}

// Nothing tells whether nothing is left to do.
func (o Owed) Nothing() bool { return !o.Active() && o.Waiting == 0 }

// Active tells whether something is going on, or about to.
func (o Owed) Active() bool { return o.Moving || o.Undiscovered > 0 || o.Running > 0 || o.Due > 0 }

// Owed returns what the group owes of each topic of its subscriptions, sorted by topic.
//
// That nothing is left is told of one moment, although it takes several reads: the deliveries are read first, then
// the events behind the cursors as they were before both. An event whose delivery was stored in between still
// counts as undiscovered. One that had appeared behind the cursor does not, and shows by the count of moves, which
// each delivery that is stored changes: it is compared at the end. So if nothing is left and nothing has moved, no
// delivery was active when the events were read.
func (s *Store) Owed(ctx context.Context, group string) ([]Owed, error) {
	fail := func(err error) ([]Owed, error) {
		return nil, fmt.Errorf("pulse: consumer group %s: read what is left to do: %w", group, err)
	}
	before, subs, err := s.cursors(ctx, group)
	if err != nil {
		return fail(err)
	}
	owed := make([]Owed, len(subs))
	at := make(map[string]*Owed, len(subs))
	for i, sub := range subs {
		owed[i].Topic, owed[i].Paused = sub.Topic, sub.Paused != nil
		at[sub.Topic] = &owed[i]
	}
	if err := s.countActive(ctx, group, at); err != nil {
		return fail(err)
	}
	unstamped, err := s.unstampedTopics(ctx)
	if err != nil {
		return fail(err)
	}
	for i, sub := range subs {
		if err := s.waitForHead(ctx, sub, &owed[i]); err != nil {
			return fail(err)
		}
		n, err := s.undiscovered(ctx, sub)
		if err != nil {
			return fail(err)
		}
		owed[i].Undiscovered = n + unstamped[sub.Topic]
	}
	after, _, err := s.cursors(ctx, group)
	if err != nil {
		return fail(err)
	}
	for i, sub := range subs {
		owed[i].Moving = before[sub.ID] != after[sub.ID]
	}
	return owed, nil
}

// cursors reads the group's subscriptions, and what changes with every delivery that is stored for one.
func (s *Store) cursors(ctx context.Context, group string) (map[string]string, []Subscription, error) {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	cursor, err := s.subscriptions.Find(ctx, bson.D{{Key: "consumerGroup", Value: group}}, sortedBy("topic"))
	moves := map[string]string{}
	subs, err := readAll(ctx, cursor, err, func(raw bson.Raw) Subscription {
		sub := readSubscription(raw)
		moves[sub.ID] = fmt.Sprint(sub.Cursor, raw.Lookup("cursorMoves"))
		return sub
	})
	return moves, subs, err
}

// countActive counts the active deliveries of both formats by topic.
func (s *Store) countActive(ctx context.Context, group string, of map[string]*Owed) error {
	deliveries, err := s.activeCounts(ctx, s.deliveries, group, []string{delivery.StatusPending, delivery.StatusProcessing, delivery.StatusV1Pending})
	if err != nil {
		return err
	}
	attempts, err := s.activeCounts(ctx, s.history, group, []string{delivery.StatusV1Pending})
	if err != nil {
		return err
	}
	for _, c := range deliveries {
		o := of[c.topic]
		switch {
		case o == nil: // the subscription was deleted: nobody will ever run them
		case c.status == delivery.StatusV1Pending:
			o.Due += c.n // unless their attempts, below, say otherwise; also between two attempts
		case c.status == delivery.StatusProcessing:
			o.Running += c.n
		case c.waits:
			o.wait(c.next, c.n)
		default:
			o.Due += c.n
		}
	}
	for _, c := range attempts {
		o := of[c.topic]
		switch {
		case o == nil:
		case c.locked:
			o.Running, o.Due = o.Running+c.n, max(o.Due-c.n, 0)
		case c.waits:
			o.wait(c.next, c.n)
			o.Due = max(o.Due-c.n, 0)
		}
	}
	return nil
}

// activeCount is how many documents of a topic are in a state.
type activeCount struct {
	topic, status string
	locked, waits bool // they have a lock, they are due later
	n             int
	next          time.Time // when the first is due
}

func (s *Store) activeCounts(ctx context.Context, coll *mongo.Collection, group string, statuses []string) ([]activeCount, error) {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	cursor, err := coll.Aggregate(ctx, mongo.Pipeline{
		{{Key: "$match", Value: bson.D{{Key: "consumerGroup", Value: group}, {Key: "status", Value: in(statuses)}}}},
		{{Key: "$group", Value: bson.D{
			{Key: "_id", Value: bson.D{
				{Key: "topic", Value: "$topic"},
				{Key: "status", Value: "$status"},
				{Key: "locked", Value: bson.D{{Key: "$gt", Value: bson.A{"$lockToken", nil}}}},
				{Key: "waits", Value: bson.D{{Key: "$gt", Value: bson.A{"$nextAttemptAt", s.Now()}}}},
			}},
			{Key: "n", Value: bson.D{{Key: "$sum", Value: 1}}},
			{Key: "next", Value: bson.D{{Key: "$min", Value: "$nextAttemptAt"}}},
		}}},
	})
	return readAll(ctx, cursor, err, func(raw bson.Raw) activeCount {
		f := parse(raw)
		id, _ := f["_id"].DocumentOK()
		key := parse(id)
		c := activeCount{topic: key.str("topic"), status: key.str("status"), next: f.time("next")}
		c.locked, _ = key.bool("locked")
		c.waits, _ = key.bool("waits")
		c.n, _ = f.int("n")
		return c
	})
}

func (o *Owed) wait(until time.Time, n int) {
	o.Waiting += n
	if o.Next.IsZero() || until.Before(o.Next) {
		o.Next = until
	}
}

// waitForHead counts what is due behind the head of an order as waiting when the head waits.
func (s *Store) waitForHead(ctx context.Context, sub Subscription, o *Owed) error {
	if o.Due == 0 || o.Waiting == 0 || !sub.Settings.Over(Settings{}).InOrder() {
		return nil
	}
	heads, err := s.Heads(ctx, sub.ConsumerGroup, sub.Topic, 1)
	if err == nil && len(heads) == 1 && !heads[0].Locked && heads[0].Due.After(s.Now()) {
		o.Waiting, o.Due = o.Waiting+o.Due, 0
	}
	return err
}

// unstampedTopics counts events that wait for their place in the order, by topic: of transactions, and those whose
// time has come. Those that are to be published later do not wait yet.
func (s *Store) unstampedTopics(ctx context.Context) (map[string]int, error) {
	topics := map[string]int{}
	for _, filter := range []bson.D{pending(), waiting(s.Now())} {
		ctx, cancel := s.deadline(ctx)
		defer cancel()
		cursor, err := s.events.Find(ctx, filter)
		_, err = readAll(ctx, cursor, err, func(raw bson.Raw) struct{} {
			topics[parse(raw).str("pendingTopic")]++
			return struct{}{}
		})
		if err != nil {
			return nil, err
		}
	}
	return topics, nil
}

// undiscovered counts the subscription's events that have no delivery: those behind the cursor, and those that
// appeared before it and are not settled.
func (s *Store) undiscovered(ctx context.Context, sub Subscription) (int, error) {
	const enough = 1000
	ahead, _, err := s.EventsAfter(ctx, sub.Topic, sub.Cursor, enough, false)
	if err != nil || len(ahead) > 0 {
		return len(ahead), err
	}
	from := sub.Settled
	if from.Compare(sub.Start.Sequence) < 0 {
		from = sub.Start.Sequence
	}
	if from.Compare(sub.Cursor.Sequence) >= 0 {
		return 0, nil
	}
	delivered, err := s.Delivered(ctx, sub.ConsumerGroup, sub.Topic, from, nil)
	if err != nil {
		return 0, err
	}
	late, err := s.EventsBehind(ctx, sub.Topic, from, sub.Cursor.Sequence, func(at Position) bool {
		return at.Sequence.Compare(sub.Settled) > 0 && at.After(sub.Start) && !delivered[at.EventID]
	})
	return len(late), err
}

// AllEvents reads all events of a topic in their order, and behind them those that wait for their place in it, or for
// their time. It walks the collection for the latter.
func (s *Store) AllEvents(ctx context.Context, topic string) ([]Event, error) {
	read := func(filter bson.D, by ...string) ([]Event, error) {
		ctx, cancel := s.deadline(ctx)
		defer cancel()
		cursor, err := s.events.Find(ctx, filter, sortedBy(by...))
		events, err := readAll(ctx, cursor, err, ReadEvent)
		if err != nil {
			return nil, fmt.Errorf("pulse: topic %s: read all events: %w", topic, err)
		}
		return events, nil
	}
	// The waiting ones first: one that gets its place meanwhile is seen twice rather than not at all.
	waiting, err := read(bson.D{{Key: "pendingTopic", Value: topic}}, "pendingOrder", "_id")
	if err != nil {
		return nil, err
	}
	events, err := read(bson.D{{Key: "topic", Value: topic}}, "sequence", "_id")
	seen := make(map[string]bool, len(events))
	for _, e := range events {
		seen[e.ID] = true
	}
	for _, e := range waiting {
		if !seen[e.ID] {
			events = append(events, e)
		}
	}
	return events, err
}
