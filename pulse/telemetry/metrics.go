package telemetry

import (
	"context"
	"sync"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/semconv/v1.43.0/messagingconv"

	"github.com/orionjs/orion-go/pulse/observe"
)

// The attributes of metrics that the conventions have no name for.
const (
	attrOutcome = attribute.Key("pulse.outcome")
	attrSource  = attribute.Key("pulse.wakeup.source")
	attrState   = attribute.Key("pulse.state")
)

// The bounds of the histograms. Those of durations are the conventions', latencies reach to the backlogs of outages.
var (
	durations = metric.WithExplicitBucketBoundaries(0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10)
	latencies = metric.WithExplicitBucketBoundaries(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 3600, 86400)
	sizes     = metric.WithExplicitBucketBoundaries(0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000)
)

// metrics are the instruments but for the gauges of the backlog.
type metrics struct {
	sent         metric.Int64Counter
	operation    metric.Float64Histogram
	consumed     metric.Int64Counter
	process      metric.Float64Histogram
	attempts     metric.Int64Counter
	lost         metric.Int64Counter
	wakeups      metric.Int64Counter
	claimSize    metric.Int64Histogram
	claimMissed  metric.Int64Counter
	batchSize    metric.Int64Histogram
	latency      metric.Float64Histogram
	measurements sync.Map // of series to metric.MeasurementOption
	begun        sync.Map // of series: the subscriptions whose counters have begun
}

// must reports an instrument that could not be made. What stands for it measures nothing.
func must[T any](instrument T, err error) T {
	if err != nil {
		otel.Handle(err)
	}
	return instrument
}

func newMetrics(m metric.Meter) *metrics {
	counter := func(name, unit, text string) metric.Int64Counter {
		return must(m.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(text)))
	}
	return &metrics{
		sent:      must(messagingconv.NewClientSentMessages(m)).Inst(),
		operation: must(messagingconv.NewClientOperationDuration(m, durations)).Inst(),
		consumed:  must(messagingconv.NewClientConsumedMessages(m)).Inst(),
		process:   must(messagingconv.NewProcessDuration(m, durations)).Inst(),
		attempts: counter("pulse.attempts", "{attempt}",
			"Attempts whose outcome is stored, those of lost workers included."),
		lost: counter("pulse.leases.lost", "{attempt}",
			"Attempts of this process that lost their lease before their outcome was stored."),
		wakeups: counter("pulse.wakeups", "{wakeup}",
			"Times that something told this process of work."),
		claimSize: must(m.Int64Histogram("pulse.claim.size", metric.WithUnit("{delivery}"), sizes,
			metric.WithDescription("Deliveries won with one claim."))),
		claimMissed: counter("pulse.claim.missed", "{delivery}",
			"Deliveries that a claim asked for and another process had taken."),
		batchSize: must(m.Int64Histogram("pulse.batch.size", metric.WithUnit("{message}"), sizes,
			metric.WithDescription("Events that a batch handler was called with."))),
		latency: must(m.Float64Histogram("pulse.delivery.latency", metric.WithUnit("s"), latencies,
			metric.WithDescription("From publishing an event to the start of the first attempt at it."))),
	}
}

// series names the attributes of a measurement. Which attribute a text is follows from the field.
type series struct {
	system, operation, group, topic string
	errorType, outcome, source      string
}

// with returns the attributes of a series, made once: their number is bounded by those of topics and codes.
func (m *metrics) with(s series) metric.MeasurementOption {
	if known, ok := m.measurements.Load(s); ok {
		return known.(metric.MeasurementOption)
	}
	var attrs []attribute.KeyValue
	for _, a := range []struct {
		key   attribute.Key
		value string
	}{
		{semconv.MessagingSystemKey, s.system},
		{semconv.MessagingOperationNameKey, s.operation},
		{semconv.MessagingConsumerGroupNameKey, s.group},
		{semconv.MessagingDestinationNameKey, s.topic},
		{semconv.ErrorTypeKey, s.errorType},
		{attrOutcome, s.outcome},
		{attrSource, s.source},
	} {
		if a.value != "" {
			attrs = append(attrs, a.key.String(a.value))
		}
	}
	made, _ := m.measurements.LoadOrStore(s, metric.WithAttributeSet(attribute.NewSet(attrs...)))
	return made.(metric.MeasurementOption)
}

// begin lets the counters of failures begin at 0, once for each subscription. A counter that appears with its first
// failure shows no increase: of a delivery that fails once a year nobody would hear.
func (m *metrics) begin(ctx context.Context, system, group, topic string) {
	s := series{system: system, group: group, topic: topic}
	if _, known := m.begun.Load(s); known {
		return
	}
	if _, known := m.begun.LoadOrStore(s, true); known {
		return
	}
	m.lost.Add(ctx, 0, m.with(s))
	if system == observe.Pulse {
		m.claimMissed.Add(ctx, 0, m.with(s))
	}
	for code, outcomes := range map[string][]observe.Outcome{
		"handler_error": {observe.Retry, observe.Error},
		"decode_error":  {observe.Retry, observe.Error},
		"worker_lost":   {observe.Retry, observe.Error},
		"event_expired": {observe.Error},
	} {
		for _, outcome := range outcomes {
			s.errorType, s.outcome = code, string(outcome)
			m.attempts.Add(ctx, 0, m.with(s))
		}
	}
}

func (m *metrics) published(ctx context.Context, p observe.Publish, failed int, errorType string, took time.Duration) {
	s := series{system: p.System, operation: opPublish, topic: p.Topic}
	if stored := p.Events - failed; stored > 0 {
		m.sent.Add(ctx, int64(stored), m.with(s))
	}
	s.errorType = errorType
	if failed > 0 {
		m.sent.Add(ctx, int64(failed), m.with(s))
	}
	m.operation.Record(ctx, took.Seconds(), m.with(s))
}

func (m *metrics) processed(ctx context.Context, a observe.Attempt, code string, took time.Duration) {
	s := series{system: a.System, operation: opProcess, group: a.Group, topic: a.Topic, errorType: code}
	m.consumed.Add(ctx, int64(len(a.Events)), m.with(s))
	m.process.Record(ctx, took.Seconds(), m.with(s))
	s.operation, s.errorType = "", ""
	if a.Batch {
		m.batchSize.Record(ctx, int64(len(a.Events)), m.with(s))
	}
	if a.Number == 1 {
		for _, e := range a.Events {
			// Two clocks may differ by more than an event takes.
			m.latency.Record(ctx, max(a.StartedAt.Sub(e.PublishedAt), 0).Seconds(), m.with(s))
		}
	}
}

// Settled counts an attempt.
func (o *observer) Settled(s observe.Settled) {
	o.metrics.attempts.Add(context.Background(), 1, o.metrics.with(series{
		system: s.System, group: s.Group, topic: s.Topic, errorType: s.Code, outcome: string(s.Outcome),
	}))
}

// LeaseLost counts a lost lease.
func (o *observer) LeaseLost(l observe.LeaseLost) {
	o.metrics.lost.Add(context.Background(), 1, o.metrics.with(series{system: l.System, group: l.Group, topic: l.Topic}))
}

// Claimed measures a claim.
func (o *observer) Claimed(c observe.Claimed) {
	with := o.metrics.with(series{system: observe.Pulse, group: c.Group, topic: c.Topic})
	o.metrics.claimSize.Record(context.Background(), int64(c.Won), with)
	if missed := c.Asked - c.Won; missed > 0 {
		o.metrics.claimMissed.Add(context.Background(), int64(missed), with)
	}
}

// Woken counts a wake-up.
func (o *observer) Woken(w observe.Woken) {
	o.metrics.wakeups.Add(context.Background(), 1, o.metrics.with(series{
		system: observe.Pulse, group: w.Group, topic: w.Topic, source: string(w.Source),
	}))
}
