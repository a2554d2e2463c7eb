package telemetry_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/matryer/is"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/baggage"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/orionjs/orion-go/pulse/observe"
	"github.com/orionjs/orion-go/pulse/telemetry"
)

// published publishes through the observer, and returns the event's headers.
func published(ctx context.Context, o observe.Observer, given map[string]string) map[string]string {
	_, p := o.Publish(ctx, observe.Publish{System: observe.Pulse, Topic: "order.created", Events: 1})
	headers := p.Headers(given)
	p.End(observe.Sent{ID: "e1"})
	return headers
}

func TestTraces_AnAttemptIsTheChildOfWhatPublishedItsEvent(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	c := collect(t)
	tracer := c.traces.Tracer("test")
	member, err := baggage.NewMember("tenant", "acme")
	is.NoErr(err)
	bag, err := baggage.New(member)
	is.NoErr(err)
	ctx, request := tracer.Start(baggage.ContextWithBaggage(t.Context(), bag), "request")
	given := map[string]string{"mine": "1"}
	headers := published(ctx, c, given)
	request.End()
	is.Equal(given, map[string]string{"mine": "1"})
	is.Equal(headers["mine"], "1")
	is.Equal(headers["baggage"], "tenant=acme")
	is.True(headers["traceparent"] != "")

	ctx, end := c.Attempt(t.Context(), observe.Attempt{
		System: observe.Pulse, Group: "billing", Topic: "order.created", Delivery: "d1", Number: 2,
		Events: []observe.Event{{ID: "e1", Headers: headers}},
	})
	is.Equal(baggage.FromContext(ctx).Member("tenant").Value(), "acme") // on to what the handler calls
	_, inner := tracer.Start(ctx, "inner")
	inner.End()
	end(&observe.Failure{Code: "handler_error", Name: "*errors.errorString", Message: "no", Stack: "stack"})

	spans := c.ended()
	publish, process := spans["publish order.created"][0], spans["process order.created"][0]
	is.Equal(publish.Parent().SpanID(), request.SpanContext().SpanID())
	is.Equal(publish.SpanKind(), trace.SpanKindProducer)
	is.Equal(attributesOf(publish), map[attribute.Key]any{
		"messaging.system": "pulse", "messaging.destination.name": "order.created", "messaging.operation.name": "publish",
		"messaging.operation.type": "send", "messaging.message.id": "e1",
	})
	is.Equal(process.Parent().SpanID(), publish.SpanContext().SpanID())
	is.Equal(process.SpanContext().TraceID(), request.SpanContext().TraceID())
	is.Equal(process.SpanKind(), trace.SpanKindConsumer)
	is.Equal(len(process.Links()), 1)
	is.Equal(process.Links()[0].SpanContext.SpanID(), publish.SpanContext().SpanID())
	is.Equal(attributesOf(process), map[attribute.Key]any{
		"messaging.system": "pulse", "messaging.destination.name": "order.created", "messaging.operation.name": "process",
		"messaging.operation.type": "process", "messaging.message.id": "e1", "messaging.consumer.group.name": "billing",
		"pulse.delivery.id": "d1", "pulse.attempt": int64(2), "error.type": "handler_error",
	})
	is.Equal(process.Status().Code, codes.Error)
	is.Equal(process.Status().Description, "no")
	is.Equal(len(process.Events()), 1)
	is.Equal(len(process.Events()[0].Attributes), 3)
	is.Equal(spans["inner"][0].Parent().SpanID(), process.SpanContext().SpanID())
}

func TestTraces_ABatchLinksToEachSpanThatPublished(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	c := collect(t)
	var events []observe.Event
	for i := range 3 {
		events = append(events, observe.Event{ID: fmt.Sprint("single", i), Headers: published(t.Context(), c, nil)})
	}
	_, p := c.Publish(t.Context(), observe.Publish{System: observe.Pulse, Topic: "order.created", Batch: true, Events: 200})
	for i := range 200 {
		events = append(events, observe.Event{ID: fmt.Sprint("many", i), Headers: p.Headers(nil)})
	}
	p.End(observe.Sent{})
	events = append(events, observe.Event{ID: "untraced"}, observe.Event{ID: "odd", Headers: map[string]string{"traceparent": "nonsense"}})
	_, end := c.Attempt(t.Context(), observe.Attempt{System: observe.Pulse, Group: "billing", Topic: "order.created", Number: 1, Batch: true, Events: events})
	end(nil)

	spans := c.ended()
	batch := spans["process order.created"][0]
	is.True(!batch.Parent().IsValid()) // it has many causes, and belongs to none of their traces
	is.Equal(batch.Status().Code, codes.Unset)
	is.Equal(attributesOf(batch)["messaging.batch.message_count"], int64(205))
	is.Equal(len(batch.Links()), 4)
	is.Equal(batch.DroppedLinks(), 0)
	linked := map[trace.SpanID]attribute.KeyValue{}
	for _, l := range batch.Links() {
		linked[l.SpanContext.SpanID()] = l.Attributes[0]
	}
	for _, s := range spans["publish order.created"] {
		attr, ok := linked[s.SpanContext().SpanID()]
		is.True(ok)
		if count, many := attributesOf(s)["messaging.batch.message_count"]; many {
			is.Equal(count, int64(200))
			is.Equal(attr.Value.AsInt64(), int64(200))
		} else {
			is.Equal(string(attr.Key), "messaging.message.id")
		}
	}
}

// A publisher that gives an event a context keeps it, and the span links to it.
func TestTraces_AContextThatIsGivenStays(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	c := collect(t)
	_, own := c.traces.Tracer("test").Start(t.Context(), "own")
	given := propagation.MapCarrier{}
	w3c().Inject(trace.ContextWithSpan(t.Context(), own), given)
	headers := published(t.Context(), c, given)
	is.Equal(headers, map[string]string(given))
	publish := c.ended()["publish order.created"][0]
	is.Equal(len(publish.Links()), 1)
	is.Equal(publish.Links()[0].SpanContext.SpanID(), own.SpanContext().SpanID())
}

// Where nothing is traced, nothing is written.
func TestTraces_NothingIsWrittenWhereNothingIsTraced(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	c := collect(t, func(cfg *telemetry.Config) { cfg.TracerProvider = noop.NewTracerProvider() })
	is.Equal(published(t.Context(), c, nil), nil)
	is.Equal(published(t.Context(), c, map[string]string{"a": "b"}), map[string]string{"a": "b"})
	// But a context that comes in from elsewhere is handed on, although this process makes no spans.
	foreign := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, Remote: true})
	headers := published(trace.ContextWithSpanContext(t.Context(), foreign), c, nil)
	is.Equal(headers["traceparent"], "00-01000000000000000000000000000000-0200000000000000-00")
}

func TestTraces_AFailedPublishIsAnError(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	c := collect(t)
	_, p := c.Publish(t.Context(), observe.Publish{System: observe.Kafka, Topic: "order.created", Events: 1})
	p.Headers(nil)
	p.End(observe.Sent{Failed: 1, Err: fmt.Errorf("publish: %w", &failure{errors.New("down")})})
	span := c.ended()["publish order.created"][0]
	is.Equal(span.Status().Code, codes.Error)
	is.Equal(attributesOf(span)["error.type"], "*telemetry_test.failure")
	is.Equal(attributesOf(span)["messaging.system"], "kafka")
}

type failure struct{ error }

func TestTraces_KafkaSaysWhereAnEventLies(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	c := collect(t)
	_, end := c.Attempt(t.Context(), observe.Attempt{
		System: observe.Kafka, Group: "billing", Topic: "order.created", Number: 1, Events: []observe.Event{{ID: "e1"}}, Partition: "3", Offset: 7,
	})
	end(nil)
	span := c.ended()["process order.created"][0]
	is.True(!span.Parent().IsValid())
	is.Equal(attributesOf(span)["messaging.destination.partition.id"], "3")
	is.Equal(attributesOf(span)["messaging.kafka.offset"], int64(7))
}
