package echoes

import (
	"log/slog"

	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/orionjs/orion-go/pulse"
	"github.com/orionjs/orion-go/pulse/observe"
)

// Source says where listeners get their events from.
type Source string

// The sources for Config.ConsumeFrom.
const (
	FromPulse Source = transportPulse
	FromKafka Source = transportKafka
	FromBoth  Source = transportBoth
)

// Target says where App.Publish sends events to.
type Target string

// The targets for Config.PublishTo.
const (
	ToPulse Target = transportPulse
	ToKafka Target = transportKafka
	ToBoth  Target = transportBoth
)

// Config configures an App. At least one transport is needed.
type Config struct {
	// Pulse configures the transport over MongoDB; nil leaves it out.
	Pulse *Pulse
	// Kafka is the transport over Kafka, made by New of package echoes/kafka; nil
	// leaves it out.
	Kafka Carrier

	// ConsumeFrom says where listeners get their events from, unless their
	// transport= says otherwise. Default: FromKafka when Kafka is configured,
	// else FromPulse.
	//
	// ConsumeFrom and PublishTo move a service from one transport to the other
	// step by step: consume from both, then publish to the new one, then stop
	// consuming from the old one when it is drained.
	ConsumeFrom Source
	// PublishTo says where Publish sends events to. Default: ToKafka when Kafka
	// is configured, else ToPulse.
	PublishTo Target

	// Defaults are options for all listeners that do not say otherwise (spec
	// 7.8). What suits only one kind of listener applies to that kind: Ordered
	// and ExecutionVersion to single events, OnInvalid to batches. A listener's
	// own option also beats a default that contradicts it: one that says
	// at-most-once is not retried, whatever MaxRetries is here.
	Defaults []Option

	// Middleware is run around every handler, on all transports; the first is the
	// outermost. Default: none.
	Middleware []Middleware

	// Logger is used by the App and, unless they have their own, by the
	// transports. Default: slog.Default().
	Logger *slog.Logger
	// Observer is told of publishing, attempts and leases, on all transports, and measures them: package
	// pulse/telemetry makes one for OpenTelemetry. Default: none, which costs nothing.
	Observer observe.Observer
	// OnError is called, after logging, with errors that have no caller to
	// return to: items left out by OnInvalid("skip") as *InvalidItemsError, and
	// errors of a transport's background work. It is called concurrently and
	// must return quickly. Default: nothing.
	OnError func(error)
}

// Pulse configures the Pulse transport: either an existing Client with the
// Database to use, or a URI to connect to.
type Pulse struct {
	// Client is a client of the caller, who also disconnects it, after
	// App.Close.
	Client *mongo.Client
	// URI is connected to by Start, and disconnected by Close.
	URI string
	// Config is the configuration of Pulse itself; ConsumerGroup is required.
	// ManualStart has no effect: all listeners start together.
	pulse.Config
}
