// Package telemetry makes traces and metrics of OpenTelemetry of what a client of Pulse, or a service of Echoes, does.
//
//	observer := telemetry.New(telemetry.Config{})
//	client, err := pulse.Connect(ctx, uri, pulse.Config{ConsumerGroup: "billing", Observer: observer})
//
// One observer serves any number of clients, and all transports of Echoes (echoes.Config.Observer). Names and
// attributes are those of the semantic conventions for messaging where these have some, and begin with pulse. where
// they have none; docs/telemetry.md lists them.
//
// The engine itself does not link OpenTelemetry. Only who imports this package does.
package telemetry
