package echoestest

import (
	"testing"

	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/orionjs/orion-go/echoes"
	"github.com/orionjs/orion-go/pulse/pulsetest"
)

// Published is what a test's database has of a topic: pulsetest.Published for events of echoes.App.Publish.
//
//	shipped := echoestest.Published[OrderShipped]{DB: db, Topic: "order.shipped"}
//	is.Equal(shipped.Wait(t, 1)[0].Params.Order, "7")
//
// The methods belong to the goroutine of the test. An event that is no P fails it.
type Published[P any] struct {
	// DB is the database of the publisher, Topic the topic. Required.
	DB    *mongo.Database
	Topic string
	// Prefix is the publisher's pulse.Config.CollectionPrefix. Default: the default of that.
	Prefix string
}

// data is what App.Publish stores.
type data[P any] struct{ Params P }

// Values returns all events so far, in order.
func (p Published[P]) Values(t testing.TB) []echoes.Item[P] {
	t.Helper()
	return items(p.events().Values(t))
}

// Wait returns all events as soon as there are at least n, and fails the test with those that were published if
// that takes longer than pulsetest.Patience.
func (p Published[P]) Wait(t testing.TB, n int) []echoes.Item[P] {
	t.Helper()
	return items(p.events().Wait(t, n))
}

// WaitFor returns all events as soon as arrived says yes to them, and fails the test with those that were
// published if that takes longer than pulsetest.Patience. What is the condition in words.
func (p Published[P]) WaitFor(t testing.TB, what string, arrived func([]echoes.Item[P]) bool) []echoes.Item[P] {
	t.Helper()
	return items(p.events().WaitFor(t, what, func(events []pulsetest.Event[data[P]]) bool { return arrived(items(events)) }))
}

func (p Published[P]) events() pulsetest.Published[data[P]] {
	return pulsetest.Published[data[P]]{DB: p.DB, Topic: p.Topic, Prefix: p.Prefix}
}

func items[P any](events []pulsetest.Event[data[P]]) []echoes.Item[P] {
	out := make([]echoes.Item[P], len(events))
	for i, e := range events {
		out[i] = echoes.Item[P]{Params: e.Data.Params, EventContext: echoes.EventContext{
			EventID: e.ID, Topic: e.Topic, Headers: e.Headers, CreatedAt: e.CreatedAt,
		}}
	}
	return out
}
