package console

import (
	"fmt"
	"time"

	"github.com/orionjs/orion-go/pulse/admin"
	"github.com/orionjs/orion-go/pulse/internal/delivery"
)

// status is a state as a word, a shape and, last, a colour.
type status struct{ Label, Icon, Tone string }

// The tones, named for what they ask of the reader.
const (
	good  = "good"
	warn  = "warn"  // will mend itself, or will not
	bad   = "bad"   // somebody should look
	still = "still" // somebody stopped it
	quiet = "quiet"
)

// statusOf is the state of a delivery.
func statusOf(d admin.Delivery) status {
	if d.State == admin.Failed && d.Error != nil && d.Error.Code == delivery.CodeOperatorCancelled {
		return status{"Cancelled", "canceled", still}
	}
	if d.State == admin.Processing && d.LeaseEnded {
		return status{"Worker lost", "absent", warn}
	}
	return statusOfState(d.State)
}

func statusOfState(s admin.State) status {
	switch s {
	case admin.Pending:
		return status{"Waiting", "behind", quiet}
	case admin.Retrying:
		return status{"Retrying", "retrying", warn}
	case admin.Processing:
		return status{"Running", "working", good}
	case admin.Succeeded:
		return status{"Succeeded", "success", good}
	case admin.Failed:
		return status{"Failed", "error", bad}
	default:
		return status{"Unknown", "unknown", warn}
	}
}

const (
	// behindAfter is the age of the oldest unfinished event from which on a topic counts as behind.
	behindAfter = time.Minute
	// absentAfter is how long nobody may lead a topic: a new leader needs a lease's length and a poll.
	absentAfter = 30 * time.Second
)

// row is a subscription as a line of a table.
type row struct {
	admin.Subscription
	State status
	// Why says what to make of the state, for those that need a look.
	Why  string
	Rate rate
	// Waiting are the events and deliveries whose first attempt has not begun.
	Waiting admin.Count
	// Scheduled are the topic's events that wait for a later time, and when the next one is due. They are not late.
	Scheduled string
	Lag       time.Duration
	RetryAge  time.Duration
}

// HasLag tells that something is not finished.
func (r row) HasLag() bool { return !r.Backlog.OldestPending.IsZero() }

// LagTone emphasizes a lag that is long.
func (r row) LagTone() string {
	if r.Lag >= behindAfter && r.State.Tone != still {
		return "tone-warn"
	}
	return ""
}

// NeedsLook tells that somebody should look at it.
func (r row) NeedsLook() bool { return r.State.Tone == bad || r.State.Tone == warn }

func rowOf(s admin.Subscription, shot *snapshot) row {
	rates := shot.rates
	b := s.Backlog
	r := row{
		Subscription: s, Rate: rates.of(subscriptionKey{s.Group, s.Topic}), Waiting: sum(b.Undiscovered, b.Pending),
		Lag: time.Duration(b.LagSeconds * float64(time.Second)), Scheduled: scheduled(shot, s.Topic),
	}
	if !b.OldestRetry.IsZero() {
		r.RetryAge = max(0, rates.now.Sub(b.OldestRetry))
	}
	work := r.Waiting.N+b.Retrying.N+b.Processing.N > 0
	absent := !s.Leader.Held && rates.now.Sub(s.Leader.Until) > absentAfter
	switch {
	case s.Paused != nil:
		r.State = status{"Paused", "paused", still}
	case absent && work:
		r.State = status{"No replica", "absent", bad}
		r.Why = "Work waits, and no replica of the group is there to do it."
	case r.Rate.Failed > 0:
		r.State = status{"Failing", "failing", bad}
		r.Why = fmt.Sprintf("%s failed in the last ten minutes, %s of what ended.", plural(r.Rate.Failed, "delivery", "deliveries"), percent(r.Rate.ErrorShare()))
	case b.Retrying.N > 0:
		r.State = status{"Retrying", "retrying", warn}
		r.Why = fmt.Sprintf("%s for another attempt, for up to %s.", waits(b.Retrying), duration(r.RetryAge))
	case work && r.Lag >= behindAfter:
		r.State = status{"Behind", "behind", warn}
		r.Why = fmt.Sprintf("The oldest event that is not finished was published %s ago.", duration(r.Lag))
	case absent:
		r.State = status{"No replica", "absent", quiet}
	case work || r.Rate.PerSecond > 0:
		r.State = status{"Working", "working", good}
	default:
		r.State = status{"Idle", "idle", quiet}
	}
	return r
}

// scheduled says what waits for a later time.
func scheduled(shot *snapshot, topic string) string {
	n, next := shot.scheduled.Topic(topic)
	if n.N == 0 {
		return ""
	}
	text := number(n.N)
	if n.AtLeast {
		text += "+"
	}
	if until := next.Sub(shot.rates.now); until > 0 {
		return text + " scheduled, the next in " + duration(until)
	}
	return text + " scheduled, the next is due"
}

func waits(c admin.Count) string {
	switch {
	case c.AtLeast:
		return "More than " + number(c.N) + " deliveries wait"
	case c.N == 1:
		return "1 delivery waits"
	default:
		return number(c.N) + " deliveries wait"
	}
}

// sum adds counts. What is at least so much stays so.
func sum(counts ...admin.Count) admin.Count {
	var total admin.Count
	for _, c := range counts {
		total.N += c.N
		total.AtLeast = total.AtLeast || c.AtLeast
	}
	return total
}
