// Package echoes runs services whose methods handle events.
//
// A method becomes a listener by a comment, and the tool echoesgen writes what
// is needed to decode its parameters and to register it:
//
//	//echoes:event topic=order.created maxRetries=5
//	func (s *Orders) Created(ctx context.Context, order OrderCreated) error
//
//	//echoes:batch topic=invoice.created batchSize=100
//	func (s *Invoices) Created(ctx context.Context, items []echoes.Item[Invoice]) error
//
// New makes an App of services and a configuration, Start runs it, Publish
// publishes, Close ends it. Events travel over transports: over Pulse, which
// keeps them in MongoDB, or over Kafka, see package echoes/kafka. A listener does
// not need to know which transport brought its event, and what runs around all of
// them is Middleware.
//
// # Handlers
//
// A handler takes its parameters, an Item with the event's context, or, for a
// batch, a slice of Items. It succeeds by returning nil. After an error or a
// panic the delivery is retried as the listener's options say; pulse.Permanent
// and pulse.RetryAfter say otherwise. Events are delivered at least once: a
// handler that writes uses the EventID as the key that makes a repetition
// harmless. Single events are handled in order, one at a time, unless their
// directive says ordered=false executionVersion=2, the choice for events that do
// not depend on each other: docs/delivery.md compares.
//
// # Publishing
//
// App.Publish takes any topic and anything that can be encoded, App.PublishMany
// many at once. A type can have its topic: echoesgen then writes typed functions
// that validate and encode it without reflection, so that publishers and
// listeners share one contract.
//
//	//echoes:topic order.created
//	type OrderCreated struct {
//
//	ref, err := orders.PublishOrderCreated(ctx, app, order)
//
// An *InvalidEventError tells what can never be published from an outage.
//
// # Decoding
//
// Parameters are decoded by generated code from the raw bytes, see Decoder:
// unknown fields are dropped, numbers never lose anything, and an error names
// the path, as in
//
//	echoes: topic invoice.created, event ev-1: lines[0].price: want float64, got string
//
// Such a failure is retried like any other.
//
// # What is stored
//
// Publish stores the document {params: ...} as the data of a Pulse event, and a
// listener reads params. Whoever publishes to a listener with pulse.Topic, or
// from Node with Pulse alone, writes that document; whoever reads with
// pulse.Topic what Publish stored finds it in Data.
//
// # Start-up
//
// App.Start checks everything that can be checked before it connects, and lists
// all problems in one *StartupError with the source position of each annotation
// (spec 7.6). App.Check does the same in a unit test. Whether the settings are
// those of the other replicas is known only to the database; it is reported in
// the same way, before any handler runs.
package echoes
