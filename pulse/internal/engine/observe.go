package engine

import (
	"github.com/orionjs/orion-go/pulse/internal/store"
	"github.com/orionjs/orion-go/pulse/observe"
)

// woken tells the observer, if there is one, of a wake-up.
func (e *Engine) woken(topic string, source observe.Source) {
	if e.Observer != nil {
		e.Observer.Woken(observe.Woken{Group: e.Group, Topic: topic, Source: source})
	}
}

// materialized wakes the topic's lane, whose deliveries this client has just stored.
func (e *Engine) materialized(topic string, format store.Format) {
	e.woken(topic, observe.Local)
	e.pool.Wake(topic, format)
}
