package telemetry

import (
	"context"
	"maps"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/orionjs/orion-go/pulse/internal/clock"
	"github.com/orionjs/orion-go/pulse/observe"
)

const schemaURL = semconv.SchemaURL

// The names of the operations, as in messaging.operation.name.
const (
	opPublish = "publish"
	opProcess = "process"
)

// Publish begins the span of a publishing call. Its context is the creation context of all events of the call.
func (o *observer) Publish(ctx context.Context, p observe.Publish) (context.Context, observe.Publishing) {
	attrs := []attribute.KeyValue{
		semconv.MessagingSystemKey.String(p.System), semconv.MessagingDestinationName(p.Topic),
		semconv.MessagingOperationName(opPublish), semconv.MessagingOperationTypeSend,
	}
	if p.Batch {
		attrs = append(attrs, semconv.MessagingBatchMessageCount(p.Events))
	}
	ctx, span := o.tracer.Start(ctx, opPublish+" "+p.Topic, trace.WithSpanKind(trace.SpanKindProducer), trace.WithAttributes(attrs...))
	fields := propagation.MapCarrier{}
	o.propagator.Inject(ctx, fields)
	return ctx, &publishing{observer: o, publish: p, ctx: ctx, span: span, fields: fields, begun: clock.Now()}
}

// publishing is one call on its way.
type publishing struct {
	*observer
	publish observe.Publish
	ctx     context.Context
	span    trace.Span
	fields  propagation.MapCarrier // the context as headers
	begun   time.Time
}

// Headers adds the context to an event's headers. A context that is in them already is the publisher's choice: it
// stays, and the span links to it.
func (p *publishing) Headers(given map[string]string) map[string]string {
	if len(given) == 0 && len(p.fields) == 0 {
		return given
	}
	if own := p.creation(given); own.IsValid() {
		p.span.AddLink(trace.Link{SpanContext: own})
		return given
	}
	if len(p.fields) == 0 {
		return given
	}
	headers := make(map[string]string, len(given)+len(p.fields))
	maps.Copy(headers, given)
	maps.Copy(headers, p.fields)
	return headers
}

// creation reads the creation context of an event.
func (o *observer) creation(headers map[string]string) trace.SpanContext {
	if len(headers) == 0 {
		return trace.SpanContext{}
	}
	return trace.SpanContextFromContext(o.propagator.Extract(context.Background(), propagation.MapCarrier(headers)))
}

// End ends the span.
func (p *publishing) End(s observe.Sent) {
	var errorType string
	if s.Err != nil {
		kind := semconv.ErrorType(s.Err)
		errorType = kind.Value.AsString()
		p.span.SetAttributes(kind)
		p.span.SetStatus(codes.Error, s.Err.Error())
	}
	if s.ID != "" {
		p.span.SetAttributes(semconv.MessagingMessageID(s.ID))
	}
	p.span.End()
	p.metrics.published(p.ctx, p.publish, s.Failed, errorType, clock.Since(p.begun))
}
