package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/goleak"

	"github.com/orionjs/orion-go/pulse"
	"github.com/orionjs/orion-go/pulse/pulsetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// watched is the service with its spans in memory.
type watched struct {
	*service
	spans         *spans
	url, database string
}

// spans keeps what has ended.
type spans struct {
	pulsetest.Recorder[sdk.ReadOnlySpan]
}

func (s *spans) OnEnd(span sdk.ReadOnlySpan)              { s.Add(span) }
func (*spans) OnStart(context.Context, sdk.ReadWriteSpan) {}
func (*spans) Shutdown(context.Context) error             { return nil }
func (*spans) ForceFlush(context.Context) error           { return nil }

func watch(t *testing.T) *watched {
	t.Helper()
	is := is.New(t)
	w := &watched{spans: &spans{}, database: pulsetest.Database(t).Name()}
	var err error
	w.service, err = start(t.Context(), config{
		uri: pulsetest.URI(t), database: w.database, backlogInterval: time.Millisecond,
		traces: []sdk.TracerProviderOption{sdk.WithSpanProcessor(w.spans)}, pulse: pulse.Config{PollInterval: 100 * time.Millisecond},
	})
	is.NoErr(err)
	server := httptest.NewServer(w.service)
	w.url = server.URL
	t.Cleanup(func() {
		server.Close()
		is.NoErr(w.close())
	})
	return w
}

// order sends one, and returns the status.
func (w *watched) order(ctx context.Context, t *testing.T, body string) int {
	t.Helper()
	is := is.New(t)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url+"/orders", strings.NewReader(body))
	is.NoErr(err)
	propagation.TraceContext{}.Inject(ctx, propagation.HeaderCarrier(req.Header))
	resp, err := http.DefaultClient.Do(req)
	is.NoErr(err)
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	is.NoErr(err)
	return resp.StatusCode
}

// waitFor waits for n spans of a name.
func (s *spans) waitFor(t *testing.T, name string, n int) []sdk.ReadOnlySpan {
	t.Helper()
	named := func(all []sdk.ReadOnlySpan) []sdk.ReadOnlySpan {
		var out []sdk.ReadOnlySpan
		for _, s := range all {
			if s.Name() == name {
				out = append(out, s)
			}
		}
		return out
	}
	return named(s.WaitFor(t, "spans "+name, func(all []sdk.ReadOnlySpan) bool { return len(named(all)) >= n }))
}

// A customer's trace leads through the HTTP request and the publishing to the batch that had the order in it, and
// from there through the receipts to their handler.
func TestTelemetry_ATraceLeadsFromTheRequestToTheBatch(t *testing.T) {
	is := is.New(t)
	w := watch(t)
	ctx, customer := w.traces.Tracer("customer").Start(t.Context(), "customer")
	is.Equal(w.order(ctx, t, `{"id": "1", "article": "tea", "cents": 490}`), http.StatusAccepted)
	customer.End()

	receipt := w.spans.waitFor(t, "process receipt.wanted", 1)[0]
	server := w.spans.waitFor(t, "POST /orders", 1)[0]
	publish := w.spans.waitFor(t, "publish order.placed", 1)[0]
	batch := w.spans.waitFor(t, "process order.placed", 1)[0]
	load := w.spans.waitFor(t, "load sales", 1)[0]
	asked := w.spans.waitFor(t, "publish receipt.wanted", 1)[0]

	is.Equal(server.Parent().SpanID(), customer.SpanContext().SpanID())
	is.Equal(publish.Parent().SpanID(), server.SpanContext().SpanID())
	is.Equal(publish.SpanContext().TraceID(), customer.SpanContext().TraceID())
	is.Equal(len(batch.Links()), 1)
	is.Equal(batch.Links()[0].SpanContext.SpanID(), publish.SpanContext().SpanID())
	is.Equal(batch.Links()[0].SpanContext.TraceID(), customer.SpanContext().TraceID())
	is.Equal(publish.SpanKind(), trace.SpanKindProducer) // its context is what the event was created in
	is.Equal(batch.SpanKind(), trace.SpanKindConsumer)
	is.True(!batch.Parent().IsValid())
	// The conventions for messaging, in the version that the spans name.
	is.Equal(publish.InstrumentationScope().SchemaURL, semconv.SchemaURL)
	is.Equal(attributes(publish.Attributes()), map[attribute.Key]any{
		semconv.MessagingSystemKey: "pulse", semconv.MessagingDestinationNameKey: "order.placed", semconv.MessagingMessageIDKey: "1",
		semconv.MessagingOperationNameKey: "publish", semconv.MessagingOperationTypeKey: "send",
	})
	attempt := attributes(batch.Attributes())
	is.True(attempt["pulse.delivery.id"] != "")
	delete(attempt, "pulse.delivery.id")
	is.Equal(attempt, map[attribute.Key]any{
		semconv.MessagingSystemKey: "pulse", semconv.MessagingDestinationNameKey: "order.placed", semconv.MessagingConsumerGroupNameKey: "warehouse",
		semconv.MessagingOperationNameKey: "process", semconv.MessagingOperationTypeKey: "process", semconv.MessagingBatchMessageCountKey: int64(1),
		"pulse.attempt": int64(1),
	})
	is.Equal(attributes(batch.Links()[0].Attributes), map[attribute.Key]any{semconv.MessagingMessageIDKey: "1"})
	is.Equal(attributes(asked.Attributes())[semconv.MessagingBatchMessageCountKey], int64(1)) // PublishMany
	is.Equal(len(receipt.Links()), 1)
	is.Equal(receipt.Links()[0].SpanContext.SpanID(), asked.SpanContext().SpanID())
	is.Equal(load.Parent().SpanID(), batch.SpanContext().SpanID())
	is.Equal(asked.Parent().SpanID(), load.SpanContext().SpanID())
	is.Equal(receipt.Parent().SpanID(), asked.SpanContext().SpanID())
	is.Equal(receipt.SpanContext().TraceID(), batch.SpanContext().TraceID())
}

func attributes(list []attribute.KeyValue) map[attribute.Key]any {
	all := map[attribute.Key]any{}
	for _, a := range list {
		all[a.Key] = a.Value.AsInterface()
	}
	return all
}

func TestTelemetry_WithoutADatabaseSaysHowToGetOne(t *testing.T) {
	is := is.New(t)
	err := serve(t.Context(), "", "x", "localhost:0", false, nil)
	is.True(err != nil && strings.Contains(err.Error(), "pulse dev -- go run ./examples/telemetry"))
}

// The command serves, prints spans, and ends when it is told to.
func TestTelemetry_ServesUntilItIsStopped(t *testing.T) {
	is := is.New(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	uri, database := pulsetest.URI(t), pulsetest.Database(t).Name()
	ready, ended := make(chan net.Addr, 1), make(chan error, 1)
	go func() {
		ended <- serve(ctx, uri, database, "localhost:0", true, func(address net.Addr) { ready <- address })
	}()
	select {
	case address := <-ready:
		w := &watched{url: "http://" + address.String()}
		_, families := w.scrape(t)
		is.True(len(families) > 0)
		cancel()
	case err := <-ended:
		t.Fatal(err)
	}
	is.NoErr(<-ended)
}
