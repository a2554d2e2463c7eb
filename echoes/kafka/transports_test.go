package kafka_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/matryer/is"

	"github.com/orionjs/orion-go/echoes"
	"github.com/orionjs/orion-go/echoes/kafka"
	"github.com/orionjs/orion-go/pulse"
	"github.com/orionjs/orion-go/pulse/pulsetest"
)

// One App uses both transports: what is published to both arrives over both under
// one ID, and a listener's own transport beats ConsumeFrom.
func TestKafka_7_5_BothTransportsInOneApp(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := newSetup(t)
	db := pulsetest.Database(t)
	both, onlyKafka, onlyPulse := s.topic(t, 1), s.topic(t, 1), s.topic(t, 1)
	var seen pulsetest.Recorder[echoes.EventContext]
	handle := func(_ context.Context, o echoes.Item[order]) error {
		seen.Add(o.EventContext)
		return nil
	}
	m := newMember(t, echoes.Config{
		Pulse:       &echoes.Pulse{Client: db.Client(), Config: pulse.Config{Database: db.Name(), ConsumerGroup: s.group}},
		Kafka:       kafka.New(s.config()),
		ConsumeFrom: echoes.FromPulse, PublishTo: echoes.ToBoth,
	}, on(both, handle, echoes.Transport("both")), on(onlyKafka, handle, echoes.Transport("kafka")), on(onlyPulse, handle, echoes.Transport("pulse")))
	is.NoErr(m.Start(t.Context()))
	ids := map[string]string{}
	for _, topic := range []string{both, onlyKafka, onlyPulse} {
		ref, err := m.Publish(t.Context(), topic, map[string]int{"n": 1})
		is.NoErr(err)
		ids[topic] = ref.ID
	}
	arrived := map[string]int{}
	for _, ec := range seen.Wait(t, 4) {
		is.Equal(ec.EventID, ids[ec.Topic])
		arrived[ec.Topic+" "+ec.Transport]++
	}
	is.Equal(arrived, map[string]int{both + " kafka": 1, both + " pulse": 1, onlyKafka + " kafka": 1, onlyPulse + " pulse": 1})
	results, err := m.PublishMany(t.Context(), both, []echoes.Draft[any]{{Params: map[string]int{"n": 2}}, {Params: map[string]int{"n": 3}}})
	is.NoErr(err)
	is.Equal(len(results), 2)
	seen.Wait(t, 8)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	is.NoErr(m.Close(ctx))
}

// Fetching stops where handlers are slow, and everything still arrives in order.
func TestKafka_7_7_BufferingIsBounded(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := newSetup(t)
	topic := s.topic(t, 2)
	const total = 6000
	s.fill(t, topic, 2, 0, total)
	w := newWatch(2)
	gate := make(chan struct{})
	var once sync.Once
	s.join(t, s.config(), on(topic, w.handler("m", func(int) {
		once.Do(func() { time.AfterFunc(200*time.Millisecond, func() { close(gate) }) }) // let the queues fill
		<-gate
	})))
	s.waitCommitted(t, topic, total)
	w.mu.Lock()
	defer w.mu.Unlock()
	is.Equal(len(w.handled), total)
	for p, order := range w.order {
		for i, n := range order {
			if n != p+2*i {
				t.Fatalf("partition %d: %d came at place %d", p, n, i)
			}
		}
	}
}
