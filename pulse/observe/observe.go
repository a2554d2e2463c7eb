// Package observe describes what a client of Pulse, or a transport of Echoes, tells whoever watches it.
//
// It exists so that the engine needs no library of traces or metrics: Config.Observer takes an [Observer],
// package pulse/telemetry is one for OpenTelemetry, and without one nothing is called, nothing is allocated and
// nothing is added to an event's headers.
//
// It is one interface of few methods, each with one struct that may grow, and not a set of middlewares: an
// observer sees what no handler sees (claims, lost leases, the attempts of a lost worker), and changes nothing but
// the context that handlers get and the headers that are published.
package observe

import (
	"context"
	"time"
)

// Observer is told what happens. Its methods are called by several goroutines at once, some of them while
// others wait: they must return at once, and must not call the client. A panic of one is reported, see [Guard]. Embed [Nothing] for those
// that are of no interest, and to stay compatible when there are more.
type Observer interface {
	// Publish is called before events are sent. The context that it returns is used for sending them; what it
	// returns beside it is called, not at the same time as anything else of this Publish, and End in any case.
	Publish(ctx context.Context, p Publish) (context.Context, Publishing)

	// Attempt is called before a handler runs. The context that it returns is the handler's, and must be derived
	// from ctx. The function that it returns is called when the handler has returned, with nil after a success.
	Attempt(ctx context.Context, a Attempt) (context.Context, func(*Failure))

	// Settled is called when an attempt's outcome is stored, whoever ran it: the attempt of a lost worker is
	// settled by the client that finds it.
	Settled(s Settled)

	// LeaseLost is called when this client's worker finds that an attempt is not its own any more. Its outcome
	// counts nothing; whoever has the delivery now settles it.
	LeaseLost(l LeaseLost)

	// Claimed is called when a client has asked for deliveries.
	Claimed(c Claimed)

	// Woken is called when something tells of work.
	Woken(w Woken)

	// Backlog is called once when a client starts. Read may be called at any time until stop was called by the
	// client, and asks the database. It returns the backlog of those topics only that this client leads, so
	// that of all replicas together each topic is counted once.
	Backlog(read func(ctx context.Context) ([]Backlog, error)) (stop func())
}

// The values of System.
const (
	Pulse = "pulse"
	Kafka = "kafka"
)

// Publish is a call that publishes events, at least one, to one topic.
type Publish struct {
	System, Topic string
	// Batch tells that the call takes many events, of which it has this number.
	Batch  bool
	Events int
}

// Publishing is one Publish on its way.
type Publishing interface {
	// Headers returns the headers of the next event: given, which it must not change, or a copy with more.
	Headers(given map[string]string) map[string]string
	// End is called once, with what became of the events.
	End(r Sent)
}

// Sent is what became of a Publish.
type Sent struct {
	// ID is the event's, when it was a single one.
	ID string
	// Failed counts the events that were not stored, or may not have been.
	Failed int
	// Err is not nil if an event failed.
	Err error
}

// Attempt is one run of a handler.
type Attempt struct {
	System, Group, Topic string
	// Delivery is the ID of the delivery; empty for Kafka.
	Delivery string
	// Number counts from 1.
	Number int
	// Batch tells that the handler takes many events.
	Batch bool
	// Events are those that the handler gets, at least one.
	Events []Event
	// StartedAt is when the attempt began, by the database's clock as far as it is known; zero for Kafka.
	StartedAt time.Time
	// Partition and Offset are where the event lies in Kafka; Partition is empty for Pulse.
	Partition string
	Offset    int64
}

// Event is one event of an attempt.
type Event struct {
	ID string
	// Headers are as they were published. They must not be changed.
	Headers map[string]string
	// PublishedAt is when it was published, by the publisher's clock, or the later time that it was published for.
	PublishedAt time.Time
}

// Failure is why an attempt failed.
type Failure struct {
	// Code is one of those that are stored with an attempt: handler_error, decode_error, event_expired,
	// worker_lost, cancelled, delivery_already_terminal.
	Code string
	// Name is the error's type, Message its text, Stack that of a panic.
	Name, Message, Stack string
}

// Outcome is what an attempt led to.
type Outcome string

// The outcomes.
const (
	Success Outcome = "success" // the delivery is done
	Retry   Outcome = "retry"   // another attempt follows
	Error   Outcome = "error"   // the delivery has ended with an error
)

// Settled is a stored outcome.
type Settled struct {
	System, Group, Topic string
	Attempt              int
	Outcome              Outcome
	// Code is that of the Failure, empty after a success.
	Code string
}

// LeaseLost is an attempt whose delivery, or whose partition, is another's.
type LeaseLost struct {
	System, Group, Topic string
	Attempt              int
}

// Claimed is one claim.
type Claimed struct {
	Group, Topic string
	// Asked is how many deliveries it was for, Won how many of them were not taken by others before.
	Asked, Won int
}

// Source is what tells a client of work.
type Source string

// The sources of wake-ups.
const (
	Stream Source = "stream" // the change stream: an event or a delivery was stored by anybody
	Poll   Source = "poll"   // a poll found what nothing else had told of
	Timer  Source = "timer"  // a retry has become due
	Local  Source = "local"  // this client has itself made deliveries of events
)

// Woken is one wake-up.
type Woken struct {
	Group, Topic string
	Source       Source
}

// Backlog is what one group has not finished in one topic. The counts end at a bound.
type Backlog struct {
	Group, Topic string
	// Paused tells that an operator has paused the subscription: what waits is meant to.
	Paused bool
	// Undiscovered counts events that the group's leader has not made deliveries of. The others count deliveries:
	// Pending those that wait for their first attempt, Retrying those that wait for a further one, Processing
	// those that a worker holds, Expired those whose worker's lease has ended, Failed those that ended with an
	// error and are still stored.
	Undiscovered, Pending, Retrying, Processing, Expired, Failed int
	// Oldest is how long ago the oldest event was published that is not finished, OldestRetry for how long the
	// retry waits that waits longest; 0 when there is none.
	Oldest, OldestRetry time.Duration
}
