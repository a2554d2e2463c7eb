package telemetry_test

import (
	"context"
	"testing"

	"github.com/matryer/is"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.uber.org/goleak"

	"github.com/orionjs/orion-go/pulse/observe"
	"github.com/orionjs/orion-go/pulse/telemetry"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// w3c is what services usually propagate.
func w3c() propagation.TextMapPropagator {
	return propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{})
}

// collected is an observer with what it emits.
type collected struct {
	observe.Observer
	traces  *trace.TracerProvider
	spans   *tracetest.SpanRecorder
	reader  *metric.ManualReader
	metrics *metric.MeterProvider
}

func collect(t *testing.T, change ...func(*telemetry.Config)) *collected {
	t.Helper()
	c := &collected{spans: tracetest.NewSpanRecorder(), reader: metric.NewManualReader()}
	c.traces = trace.NewTracerProvider(trace.WithSpanProcessor(c.spans))
	c.metrics = metric.NewMeterProvider(metric.WithReader(c.reader))
	t.Cleanup(func() {
		is := is.New(t)
		is.NoErr(c.traces.Shutdown(context.Background()))
		is.NoErr(c.metrics.Shutdown(context.Background()))
	})
	cfg := telemetry.Config{TracerProvider: c.traces, MeterProvider: c.metrics, Propagator: w3c()}
	for _, f := range change {
		f(&cfg)
	}
	c.Observer = telemetry.New(cfg)
	return c
}

// ended returns the ended spans by name.
func (c *collected) ended() map[string][]trace.ReadOnlySpan {
	spans := map[string][]trace.ReadOnlySpan{}
	for _, s := range c.spans.Ended() {
		spans[s.Name()] = append(spans[s.Name()], s)
	}
	return spans
}

// series is one series of a metric: its attributes in their canonical text, and its sum or, of a histogram, its
// sum and count.
type series struct {
	sum   float64
	count uint64
}

// measured collects the metrics: by name, then by attributes.
func (c *collected) measured(t *testing.T) map[string]map[string]series {
	t.Helper()
	var data metricdata.ResourceMetrics
	is.New(t).NoErr(c.reader.Collect(context.Background(), &data))
	out := map[string]map[string]series{}
	for _, scope := range data.ScopeMetrics {
		for _, m := range scope.Metrics {
			of := map[string]series{}
			key := func(set attribute.Set) string { return set.Encoded(attribute.DefaultEncoder()) }
			switch d := m.Data.(type) {
			case metricdata.Sum[int64]:
				for _, p := range d.DataPoints {
					of[key(p.Attributes)] = series{sum: float64(p.Value)}
				}
			case metricdata.Gauge[int64]:
				for _, p := range d.DataPoints {
					of[key(p.Attributes)] = series{sum: float64(p.Value)}
				}
			case metricdata.Gauge[float64]:
				for _, p := range d.DataPoints {
					of[key(p.Attributes)] = series{sum: p.Value}
				}
			case metricdata.Histogram[int64]:
				for _, p := range d.DataPoints {
					of[key(p.Attributes)] = series{float64(p.Sum), p.Count}
				}
			case metricdata.Histogram[float64]:
				for _, p := range d.DataPoints {
					of[key(p.Attributes)] = series{p.Sum, p.Count}
				}
			default:
				t.Fatalf("%s is of type %T", m.Name, m.Data)
			}
			out[m.Name] = of
		}
	}
	return out
}

func attributesOf(s trace.ReadOnlySpan) map[attribute.Key]any {
	attrs := map[attribute.Key]any{}
	for _, kv := range s.Attributes() {
		attrs[kv.Key] = kv.Value.AsInterface()
	}
	return attrs
}
