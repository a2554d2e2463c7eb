package observe_test

import (
	"fmt"
	"sync/atomic"

	"github.com/orionjs/orion-go/pulse/observe"
)

// failures counts the deliveries that have ended with an error.
type failures struct {
	observe.Nothing
	count atomic.Int64
}

// Settled is called for each stored outcome.
func (f *failures) Settled(s observe.Settled) {
	if s.Outcome == observe.Error {
		f.count.Add(1)
	}
}

// An observer of your own embeds Nothing and has the methods that it needs; it is given to Config.Observer.
func ExampleNothing() {
	f := &failures{}
	var observer observe.Observer = f
	observer.Settled(observe.Settled{Outcome: observe.Success})
	observer.Settled(observe.Settled{Outcome: observe.Error, Code: "handler_error"})
	fmt.Println(f.count.Load())
	// Output: 1
}
