package admin

import (
	"context"
	"math"
	"strconv"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/orionjs/orion-go/pulse/internal/store"
)

// DefaultCountLimit is how far counts go unless a query says otherwise.
const DefaultCountLimit = 10_000

// SubscriptionQuery selects subscriptions. Empty fields select all.
type SubscriptionQuery struct {
	Group, Topic string
	// CountLimit is how far the counts of a backlog go: a lower one costs the database less. Default
	// DefaultCountLimit; negative counts nothing, and leaves Backlog empty.
	CountLimit int
}

// Subscription is the durable subscription of a consumer group to a topic.
type Subscription struct {
	ID, Group, Topic string
	Settings         Settings
	// Cursor is the last event that has a delivery; its time is the server's when it stored the event, to the second.
	Cursor Cursor
	// Leader turns the topic's events into deliveries of the group. Between two terms it is the last one.
	Leader Holder
	// OrderHolder runs the deliveries of an ordered subscription.
	OrderHolder Holder
	// Paused is nil unless the subscription is paused; Resumed is the end of the last pause, nil while there is one, or
	// when there never was.
	Paused, Resumed *Pause
	// Marker tells that version 2 deliveries exist, or existed (the field embeddedExecutionSeen).
	Marker               bool
	Backlog              Backlog
	CreatedAt, UpdatedAt time.Time
}

// Settings are the durable settings of a subscription (spec 2.6), as they are stored. What a document lacks is zero.
type Settings struct {
	ConfigVersion    int
	ExecutionVersion int
	Ordered          bool
	// ReceiverMode is single or batch, OffsetReset latest or earliest, Delivery at-least-once or at-most-once.
	ReceiverMode           string
	BatchSize              int
	MaxRetries             int
	RetryDelay             time.Duration
	RetryBackoffMultiplier float64
	OffsetReset            string
	Delivery               string
}

// Cursor is a place in a topic's order of events.
type Cursor struct {
	// Time is zero at the very beginning.
	Time    time.Time
	EventID string
}

// Holder is who holds a lease. Owner is empty when nobody ever did; one that begins with "go:" is a client of this
// module, and has host and process in it.
type Holder struct {
	Owner string
	// Until is when the lease ends by the server's clock, Held whether it had not ended at the time of the call.
	Until time.Time
	Held  bool
}

// Pause is by whom, why and when a subscription was paused, or resumed.
type Pause struct {
	By
	At time.Time
}

// Backlog is what a group has not finished of a topic. A batch counts as one delivery. Pending, Retrying, Processing
// and Failed exclude each other.
type Backlog struct {
	// Undiscovered counts events that have no delivery yet, of all topics' events behind the cursor.
	Undiscovered Count
	// Pending counts deliveries that wait for their first attempt, Retrying those that wait for another one.
	Pending, Retrying Count
	// Processing counts deliveries that are claimed, also those whose lease has ended.
	Processing Count
	// Failed counts deliveries that ended as errors and are still kept.
	Failed Count
	// OldestPending is when the oldest event was published that is undiscovered, pending, retrying or processing, or the
	// later time that it was published for; zero when there is none. LagSeconds is how long ago that is by the server's clock, 0 when there is none.
	OldestPending time.Time
	LagSeconds    float64
	// OldestRetry is since when the retry waits that waits longest: when the attempt before it failed. Zero when
	// none waits.
	OldestRetry time.Time
}

// Count is a number that was counted up to a bound.
type Count struct {
	N int
	// AtLeast tells that counting ended at its bound: there are N or more.
	AtLeast bool
}

// String is the number, with a + behind it when there may be more.
func (c Count) String() string {
	if c.AtLeast {
		return strconv.Itoa(c.N) + "+"
	}
	return strconv.Itoa(c.N)
}

// Subscriptions reads the subscriptions, by group and topic, at most 10,000, with what each has not finished: one
// command for the list and one for each ten subscriptions. A subscription appears when a group first subscribes.
func (a *Admin) Subscriptions(ctx context.Context, q SubscriptionQuery) ([]Subscription, error) {
	ctx, cancel, err := a.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer cancel()
	overviews, err := a.store.Overviews(ctx, q.Group, q.Topic)
	if err != nil {
		return nil, err
	}
	now, limit := a.store.Now(), q.CountLimit
	if limit == 0 {
		limit = DefaultCountLimit
	}
	backlogs := make([]store.Backlog, len(overviews))
	if limit > 0 {
		if backlogs, err = a.store.Backlogs(ctx, overviews, limit); err != nil {
			return nil, err
		}
	}
	subs := make([]Subscription, len(overviews))
	for i, o := range overviews {
		subs[i] = subscription(o, now)
		subs[i].Backlog = backlog(backlogs[i], limit, now)
	}
	return subs, nil
}

func subscription(o store.Overview, now time.Time) Subscription {
	s := o.Settings.Over(store.Settings{})
	return Subscription{
		ID: o.ID, Group: o.ConsumerGroup, Topic: o.Topic,
		Settings: Settings{
			ConfigVersion: s.ConfigVersion, ExecutionVersion: s.ExecutionVersion, Ordered: s.Ordered,
			ReceiverMode: s.ReceiverMode, BatchSize: s.BatchSize, MaxRetries: s.MaxRetries, RetryDelay: s.RetryDelay,
			RetryBackoffMultiplier: s.Multiplier, OffsetReset: s.OffsetReset, Delivery: s.Delivery,
		},
		Cursor: Cursor{Time: timeOf(o.Cursor.Sequence), EventID: o.Cursor.EventID},
		Leader: holder(o.Leader, now), OrderHolder: holder(o.Order, now), Paused: pause(o.Paused), Resumed: pause(o.Resumed),
		Marker: o.Marker, CreatedAt: o.CreatedAt, UpdatedAt: o.UpdatedAt,
	}
}

func holder(h store.Holder, now time.Time) Holder {
	return Holder{Owner: h.Owner, Until: h.Until, Held: h.Until.After(now)}
}

func pause(p *store.Pause) *Pause {
	if p == nil {
		return nil
	}
	return &Pause{By: By(p.By), At: p.At}
}

func backlog(b store.Backlog, limit int, now time.Time) Backlog {
	// A kind may be counted in both formats, and be more than the limit then.
	count := func(c store.Count) Count { return Count{N: min(c.N, limit), AtLeast: c.AtLeast || c.N > limit} }
	if limit < 0 {
		return Backlog{}
	}
	out := Backlog{
		Undiscovered: count(b.Undiscovered), Pending: count(b.Pending), Retrying: count(b.Retrying),
		Processing: count(b.Processing), Failed: count(b.Failed), OldestPending: b.Oldest, OldestRetry: b.OldestRetry,
	}
	if !b.Oldest.IsZero() {
		out.LagSeconds = math.Max(0, now.Sub(b.Oldest).Seconds())
	}
	return out
}

// timeOf is when the server assigned a sequence, to the second; zero for the very beginning.
func timeOf(sequence bson.Timestamp) time.Time {
	if sequence.T == 0 {
		return time.Time{}
	}
	return time.Unix(int64(sequence.T), 0).UTC()
}
