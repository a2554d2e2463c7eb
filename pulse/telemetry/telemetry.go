package telemetry

import (
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/orionjs/orion-go/pulse/observe"
)

// scope names the instrumentation in what it emits.
const scope = "github.com/orionjs/orion-go/pulse/telemetry"

// NoBacklog turns the metrics off that ask the database.
const NoBacklog time.Duration = -1

// Config configures an observer. The zero value takes what was set globally with package otel.
type Config struct {
	// TracerProvider makes the spans. Default otel.GetTracerProvider().
	TracerProvider trace.TracerProvider

	// MeterProvider makes the metrics. Default otel.GetMeterProvider().
	MeterProvider metric.MeterProvider

	// Propagator writes the context of a publishing span into the headers of its events, and reads it for the
	// attempts. Default otel.GetTextMapPropagator() or, when none was set, W3C trace context and baggage: the
	// headers traceparent, tracestate and baggage.
	Propagator propagation.TextMapPropagator

	// BacklogInterval is the least time between two measurements of the backlog by one client. Each costs a
	// command for ten topics that the client leads, and is made only when the metrics are collected; in between,
	// and for a second collector, the last one is told again. Default 10 s; NoBacklog measures none.
	BacklogInterval time.Duration
}

// New makes an observer, for Config.Observer of pulse and of echoes. It is safe for concurrent use. An instrument
// that the MeterProvider refuses is reported to otel.Handle, and measures nothing.
func New(cfg Config) observe.Observer {
	if cfg.TracerProvider == nil {
		cfg.TracerProvider = otel.GetTracerProvider()
	}
	if cfg.MeterProvider == nil {
		cfg.MeterProvider = otel.GetMeterProvider()
	}
	if cfg.Propagator == nil {
		cfg.Propagator = otel.GetTextMapPropagator()
		if len(cfg.Propagator.Fields()) == 0 {
			cfg.Propagator = propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{})
		}
	}
	if cfg.BacklogInterval == 0 {
		cfg.BacklogInterval = 10 * time.Second
	}
	meter := cfg.MeterProvider.Meter(scope, metric.WithSchemaURL(schemaURL))
	return &observer{
		tracer:     cfg.TracerProvider.Tracer(scope, trace.WithSchemaURL(schemaURL)),
		propagator: cfg.Propagator,
		metrics:    newMetrics(meter),
		backlog:    newBacklogGauges(meter),
		interval:   cfg.BacklogInterval,
	}
}

// observer is the Observer for OpenTelemetry.
type observer struct {
	tracer     trace.Tracer
	propagator propagation.TextMapPropagator
	metrics    *metrics
	backlog    *backlogGauges
	interval   time.Duration
}

var _ observe.Observer = (*observer)(nil)
