package telemetry

import (
	"context"
	"sync"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"

	"github.com/orionjs/orion-go/pulse/internal/clock"
	"github.com/orionjs/orion-go/pulse/observe"
)

// backlogTimeout bounds one measurement: whoever collects the metrics waits for it.
const backlogTimeout = 5 * time.Second

// backlogGauges are what is observed of the backlog.
type backlogGauges struct {
	meter         metric.Meter
	count         metric.Int64ObservableGauge
	age, retryAge metric.Float64ObservableGauge
	paused        metric.Int64ObservableGauge
}

func newBacklogGauges(m metric.Meter) *backlogGauges {
	return &backlogGauges{
		meter: m,
		count: must(m.Int64ObservableGauge("pulse.backlog", metric.WithUnit("{delivery}"),
			metric.WithDescription("Deliveries of the group in a state; for undiscovered, events. Told by the topic's leader alone."))),
		age: must(m.Float64ObservableGauge("pulse.backlog.age", metric.WithUnit("s"),
			metric.WithDescription("Age of the oldest event that the group has not finished, 0 when there is none. Told by the topic's leader alone."))),
		retryAge: must(m.Float64ObservableGauge("pulse.retry.age", metric.WithUnit("s"),
			metric.WithDescription("How long the retry has waited that waits longest, 0 when there is none. Told by the topic's leader alone."))),
		paused: must(m.Int64ObservableGauge("pulse.subscription.paused", metric.WithUnit("{subscription}"),
			metric.WithDescription("1 while an operator has paused the subscription, so that what waits is meant to, else 0. Told by the topic's leader alone."))),
	}
}

// Backlog observes a client's backlog until stop.
func (o *observer) Backlog(read func(ctx context.Context) ([]observe.Backlog, error)) (stop func()) {
	if o.interval < 0 {
		return func() {}
	}
	last := &lastBacklog{read: read, interval: o.interval}
	g := o.backlog
	registration, err := g.meter.RegisterCallback(func(ctx context.Context, to metric.Observer) error {
		backlogs, err := last.get(ctx)
		for _, b := range backlogs {
			o.metrics.begin(ctx, observe.Pulse, b.Group, b.Topic) // its leader counts what lost workers leave
			g.observe(to, b)
		}
		return err
	}, g.count, g.age, g.retryAge, g.paused)
	if err != nil {
		otel.Handle(err)
		return func() {}
	}
	return func() {
		if err := registration.Unregister(); err != nil {
			otel.Handle(err)
		}
	}
}

func (g *backlogGauges) observe(to metric.Observer, b observe.Backlog) {
	attrs := []attribute.KeyValue{
		semconv.MessagingSystemKey.String(observe.Pulse), semconv.MessagingConsumerGroupName(b.Group), semconv.MessagingDestinationName(b.Topic),
	}
	for _, s := range []struct {
		state string
		n     int
	}{
		{"undiscovered", b.Undiscovered},
		{"pending", b.Pending},
		{"retrying", b.Retrying},
		{"processing", b.Processing},
		{"expired", b.Expired},
		{"failed", b.Failed},
	} {
		to.ObserveInt64(g.count, int64(s.n), metric.WithAttributes(append(attrs[:len(attrs):len(attrs)], attrState.String(s.state))...))
	}
	paused := int64(0)
	if b.Paused {
		paused = 1
	}
	to.ObserveInt64(g.paused, paused, metric.WithAttributes(attrs...))
	to.ObserveFloat64(g.age, b.Oldest.Seconds(), metric.WithAttributes(attrs...))
	to.ObserveFloat64(g.retryAge, b.OldestRetry.Seconds(), metric.WithAttributes(attrs...))
}

// lastBacklog asks the database at most once an interval, also when it fails: what collects metrics may come
// often, and from many places.
type lastBacklog struct {
	read     func(ctx context.Context) ([]observe.Backlog, error)
	interval time.Duration

	mu       sync.Mutex
	asked    time.Time
	backlogs []observe.Backlog
	err      error
}

func (l *lastBacklog) get(ctx context.Context) ([]observe.Backlog, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.asked.IsZero() && clock.Since(l.asked) < l.interval {
		return l.backlogs, l.err
	}
	ctx, cancel := context.WithTimeout(ctx, backlogTimeout)
	defer cancel()
	l.asked = clock.Now()
	l.backlogs, l.err = l.read(ctx)
	return l.backlogs, l.err
}
