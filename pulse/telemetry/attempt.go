package telemetry

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/orionjs/orion-go/pulse/internal/clock"
	"github.com/orionjs/orion-go/pulse/observe"
)

// The attributes of spans that the conventions have no name for.
const (
	attrDelivery = attribute.Key("pulse.delivery.id")
	attrAttempt  = attribute.Key("pulse.attempt")
)

// Attempt begins the span of a handler's run: for a single event a child of the span that published it, which
// also brings the publisher's baggage, for a batch the root of a new trace. Either links to what published its
// events.
func (o *observer) Attempt(ctx context.Context, a observe.Attempt) (context.Context, func(*observe.Failure)) {
	begun := clock.Now()
	o.metrics.begin(ctx, a.System, a.Group, a.Topic)
	if a.StartedAt.IsZero() {
		a.StartedAt = begun
	}
	attrs := append(make([]attribute.KeyValue, 0, 10),
		semconv.MessagingSystemKey.String(a.System), semconv.MessagingDestinationName(a.Topic), semconv.MessagingConsumerGroupName(a.Group),
		semconv.MessagingOperationName(opProcess), semconv.MessagingOperationTypeProcess, attrAttempt.Int(a.Number),
	)
	if a.Delivery != "" {
		attrs = append(attrs, attrDelivery.String(a.Delivery))
	}
	if a.Partition != "" {
		attrs = append(attrs, semconv.MessagingDestinationPartitionID(a.Partition), semconv.MessagingKafkaOffset(int(a.Offset)))
	}
	single := !a.Batch && len(a.Events) == 1
	if single {
		ctx = o.propagator.Extract(ctx, propagation.MapCarrier(a.Events[0].Headers))
		attrs = append(attrs, semconv.MessagingMessageID(a.Events[0].ID))
	} else {
		attrs = append(attrs, semconv.MessagingBatchMessageCount(len(a.Events)))
	}
	ctx, span := o.tracer.Start(ctx, opProcess+" "+a.Topic,
		trace.WithSpanKind(trace.SpanKindConsumer), trace.WithAttributes(attrs...), trace.WithLinks(o.links(a.Events)...))
	return ctx, func(f *observe.Failure) {
		code := ""
		if f != nil {
			code = f.Code
			fail(span, f)
		}
		span.End()
		o.metrics.processed(ctx, a, code, clock.Since(begun))
	}
}

// links returns one link for each span that published some of the events: those of one PublishMany have the same,
// and a span keeps only so many links (128, unless its provider is told otherwise).
func (o *observer) links(events []observe.Event) []trace.Link {
	links := make([]trace.Link, 0, min(len(events), 128))
	at := make(map[trace.SpanID]int, len(links))
	counts := make([]int, 0, cap(links))
	for _, e := range events {
		from := o.creation(e.Headers)
		if !from.IsValid() {
			continue
		}
		if i, known := at[from.SpanID()]; known && links[i].SpanContext.TraceID() == from.TraceID() {
			counts[i]++
			links[i].Attributes = []attribute.KeyValue{semconv.MessagingBatchMessageCount(counts[i])}
			continue
		}
		at[from.SpanID()] = len(links)
		counts = append(counts, 1)
		links = append(links, trace.Link{SpanContext: from, Attributes: []attribute.KeyValue{semconv.MessagingMessageID(e.ID)}})
	}
	return links
}

// fail marks the span of a failed attempt. Its code is of the few that are stored with attempts.
func fail(span trace.Span, f *observe.Failure) {
	if !span.IsRecording() {
		return
	}
	span.SetAttributes(semconv.ErrorTypeKey.String(f.Code))
	span.SetStatus(codes.Error, f.Message)
	attrs := []attribute.KeyValue{semconv.ExceptionType(f.Name), semconv.ExceptionMessage(f.Message)}
	if f.Stack != "" {
		attrs = append(attrs, semconv.ExceptionStacktrace(f.Stack))
	}
	span.AddEvent("exception", trace.WithAttributes(attrs...))
}
