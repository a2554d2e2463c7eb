package echoes

import (
	"context"
	"log/slog"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/orionjs/orion-go/pulse/observe"
)

// The names of the transports, as in the annotation transport= and
// EventContext.Transport.
const (
	transportPulse = "pulse"
	transportKafka = "kafka"
	transportBoth  = "both"
)

// Carrier is a transport: it brings events from publishers to listeners. Pulse
// is built in, package echoes/kafka makes one for Kafka. An application uses an
// App and never calls a Carrier.
//
// The order of calls is Check, Connect, Start, then Close. Publish may be
// called from Connect's return to Close's. After Close the carrier is as new,
// and Connect may follow again: that is how a start that failed is repeated.
type Carrier interface {
	// Name is the name in EventContext.Transport and in errors.
	Name() string

	// Check reports what is wrong with the carrier's own configuration, and
	// with these receivers on it, beyond what the App checks itself. It does no
	// I/O.
	Check(receivers []Receiver) []Problem

	// Connect makes the carrier ready to publish and registers the receivers.
	// No handler runs before Start. A problem of a receiver that shows here or
	// in Start is returned as a *StartupError.
	Connect(ctx context.Context, link Link) error

	// Start lets handlers run and returns. It fails before the first one runs.
	Start(ctx context.Context) error

	// Publish stores the event and returns its reference. When it returns
	// without an error the event is durable. An event that can never be stored,
	// too large for example, is an *InvalidEventError.
	Publish(ctx context.Context, out Outgoing) (EventRef, error)

	// PublishMany stores events of one topic, at least one, and returns what
	// became of each, in their order; its error is then not nil exactly if one
	// of them is not stored. An error without results says that none is.
	PublishMany(ctx context.Context, outs []Outgoing) ([]Published, error)

	// Close stops taking events, waits for running handlers until ctx ends and
	// cancels them then, stores what they returned and releases everything. It
	// returns within seconds of ctx's end. It is idempotent, may be called by
	// several goroutines at once and while Connect or Start runs, but never
	// waits for its own handler: ctx is not a handler's.
	Close(ctx context.Context) error
}

// Link is what a carrier gets from its App.
type Link struct {
	Receivers []Receiver
	Logger    *slog.Logger
	// Observer is told of publishing and attempts; nil when nobody watches.
	Observer observe.Observer
	// OnError takes errors of background work, after they were logged.
	OnError func(error)
}

// Receiver is a listener as a carrier runs it.
type Receiver struct {
	Listener
	// InForce holds the settings of Config.Defaults and of the listener
	// together. What is nil was given nowhere.
	InForce Settings
	// Handle decodes the messages, one for KindEvent and at most BatchSize for
	// KindBatch, runs the handler and returns its error. The carrier calls it
	// once for each attempt, acknowledges the messages after it has stored the
	// outcome, and owns retries. An error that errors.As finds to be a
	// *DecodeError tells that the messages were not understood. It may be
	// called concurrently. A panic of the handler passes through.
	Handle func(ctx context.Context, ms []Message) error
}

// Outgoing is an event on its way to a carrier.
type Outgoing struct {
	Topic string
	// ID is empty when the carrier should make one up.
	ID string
	// Key is what WithKey said, empty when it was not given.
	Key string
	// UniqueKey and NotBefore are what the options of these names said; no
	// carrier but Pulse is given them.
	UniqueKey string
	NotBefore time.Time
	Params    bson.RawValue
	Headers   map[string]string

	idGiven, keyGiven, timeGiven bool
}

// Published is what became of one event of a PublishMany: stored, with its
// reference, or not, with the reason.
type Published struct {
	EventRef
	Err error
}

// EventRef names a published event.
type EventRef struct {
	// ID is the event's ID on every transport that it was published to.
	ID    string
	Topic string
	// CreatedAt is when it was stored, in UTC.
	CreatedAt time.Time
	// Duplicate says that an event with this ID was stored before and nothing
	// was stored now.
	Duplicate bool
}
