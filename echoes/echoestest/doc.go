// Package echoestest helps to test services of package echoes.
//
// Handle runs a handler with an event as a transport does, through the generated decoder and the middleware,
// without a database. Publisher stands in for the app in services that publish, and remembers what they did.
//
//	func TestShipped(t *testing.T) {
//		events := &echoestest.Publisher{}
//		app := echoestest.New(t, &Orders{Events: events})
//		err := echoestest.Handle(t, app, "order.paid", OrderPaid{Order: "7"})
//		...
//		shipped := echoestest.Items[OrderShipped](t, events, "order.shipped")
//	}
//
// Tests of the whole way, from Publish over a database to the handler, take that from package pulsetest, which
// also waits for quiet, advances the time for retries and makes handlers crash; Published reads what Publish has
// stored there.
package echoestest
