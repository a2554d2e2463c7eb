package kafka_test

import (
	"context"
	"errors"
	"testing"

	"github.com/matryer/is"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdk "go.opentelemetry.io/otel/sdk/trace"

	"github.com/orionjs/orion-go/echoes"
	"github.com/orionjs/orion-go/echoes/kafka"
	"github.com/orionjs/orion-go/pulse"
	"github.com/orionjs/orion-go/pulse/observe"
	"github.com/orionjs/orion-go/pulse/pulsetest"
	"github.com/orionjs/orion-go/pulse/telemetry"
)

// spans keeps what has ended.
type spans struct {
	pulsetest.Recorder[sdk.ReadOnlySpan]
}

func (s *spans) OnEnd(span sdk.ReadOnlySpan)              { s.Add(span) }
func (*spans) OnStart(context.Context, sdk.ReadWriteSpan) {}
func (*spans) Shutdown(context.Context) error             { return nil }
func (*spans) ForceFlush(context.Context) error           { return nil }

// losses is an observer of lost partitions.
type losses struct {
	observe.Nothing
	pulsetest.Recorder[observe.LeaseLost]
}

func (l *losses) LeaseLost(lost observe.LeaseLost) { l.Add(lost) }

// of returns the spans of a name and a transport.
func of(all []sdk.ReadOnlySpan, name, system string) []sdk.ReadOnlySpan {
	var out []sdk.ReadOnlySpan
	for _, s := range all {
		for _, kv := range s.Attributes() {
			if s.Name() == name && kv.Key == "messaging.system" && kv.Value.AsString() == system {
				out = append(out, s)
			}
		}
	}
	return out
}

// One observer watches both transports. Each has its own publishing span, whose context travels in Kafka's record
// headers: the attempts are its children, and retries and dead letters keep it.
func TestObserver_TracesGoOverKafkaAndItsRetries(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := newSetup(t)
	db := pulsetest.Database(t)
	topic := s.topic(t, 1)
	ended, reader := &spans{}, metric.NewManualReader()
	traces := sdk.NewTracerProvider(sdk.WithSpanProcessor(ended))
	observer := telemetry.New(telemetry.Config{TracerProvider: traces, MeterProvider: metric.NewMeterProvider(metric.WithReader(reader))})
	var seen pulsetest.Recorder[echoes.EventContext]
	m := newMember(t, echoes.Config{
		Pulse:       &echoes.Pulse{Client: db.Client(), Config: pulse.Config{Database: db.Name(), ConsumerGroup: s.group}},
		Kafka:       kafka.New(s.config()),
		ConsumeFrom: echoes.FromPulse, PublishTo: echoes.ToBoth, Observer: observer,
	}, on(topic, func(_ context.Context, o echoes.Item[order]) error {
		seen.Add(o.EventContext)
		if o.Transport == "kafka" && o.Params.N == 1 {
			return errors.New("not today")
		}
		return nil
	}, echoes.MaxRetries(1), echoes.Transport("both")))
	is.NoErr(m.Start(t.Context()))

	ctx, request := traces.Tracer("test").Start(t.Context(), "request")
	_, err := m.Publish(ctx, topic, map[string]int{"n": 1}, echoes.WithHeaders(map[string]string{"mine": "1"}))
	is.NoErr(err)
	results, err := m.PublishMany(ctx, topic, []echoes.Draft[any]{{Params: map[string]int{"n": 2}}, {Params: map[string]int{"n": 3}}})
	is.NoErr(err)
	is.Equal(len(results), 2)
	request.End()
	seen.Wait(t, 3+4) // over Pulse, and over Kafka with a retry

	all := ended.WaitFor(t, "the attempts", func(all []sdk.ReadOnlySpan) bool {
		return len(of(all, "process "+topic, "pulse")) == 3 && len(of(all, "process "+topic, "kafka")) == 4
	})
	for _, system := range []string{"pulse", "kafka"} {
		published := map[string]bool{}
		for _, p := range of(all, "publish "+topic, system) {
			is.Equal(p.Parent().SpanID(), request.SpanContext().SpanID())
			published[p.SpanContext().SpanID().String()] = true
		}
		is.Equal(len(published), 2)
		for _, p := range of(all, "process "+topic, system) {
			is.True(published[p.Parent().SpanID().String()])
			is.Equal(p.SpanContext().TraceID(), request.SpanContext().TraceID())
			is.Equal(len(p.Links()), 1)
			is.Equal(p.Links()[0].SpanContext.SpanID(), p.Parent().SpanID())
		}
	}

	stored := s.read(t, topic, 1)[0]
	traceparent := headers(stored)["traceparent"]
	is.True(traceparent != "")
	is.Equal(headers(stored)["mine"], "1")
	dead := s.read(t, "DLQ-"+topic, 1)[0]
	is.Equal(headers(dead)["traceparent"], traceparent)

	s.waitCommitted(t, topic, 4)
	closing, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	is.NoErr(m.Close(closing))
	var data metricdata.ResourceMetrics
	is.NoErr(reader.Collect(t.Context(), &data))
	outcomes := map[string]int64{}
	for _, scope := range data.ScopeMetrics {
		for _, of := range scope.Metrics {
			sum, ok := of.Data.(metricdata.Sum[int64])
			if of.Name != "pulse.attempts" || !ok {
				continue
			}
			for _, p := range sum.DataPoints {
				text := func(key attribute.Key) string { v, _ := p.Attributes.Value(key); return v.AsString() }
				is.Equal(text("messaging.consumer.group.name"), s.group)
				if p.Value > 0 {
					outcomes[text("messaging.system")+" "+text("pulse.outcome")+" "+text("error.type")] += p.Value
				}
			}
		}
	}
	is.Equal(outcomes, map[string]int64{"pulse success ": 3, "kafka success ": 2, "kafka retry handler_error": 1, "kafka error handler_error": 1})
}
