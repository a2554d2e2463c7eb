package pulse

// Topic is a named stream of events whose data is of type T. It is a value without state: declare it once
// as a package variable and use it from anywhere.
//
//	var OrderCreated = pulse.NewTopic[Order]("order.created")
//
// T is encoded and decoded as BSON, by the driver's rules. A Topic[bson.RawValue] passes the stored bytes
// through.
type Topic[T any] struct{ name string }

// NewTopic returns the topic of that name. A bad name (empty, or not UTF-8) is an error of the methods.
func NewTopic[T any](name string) Topic[T] { return Topic[T]{name: name} }

// Name returns the topic's name.
func (t Topic[T]) Name() string { return t.name }
