// Command telemetry is a service that one can watch: it takes orders over HTTP, publishes them, and loads them in
// batches into a warehouse table. /metrics is for Prometheus; spans go to the standard output with -spans. Beside it
// lie a dashboard for Grafana and alert rules for Prometheus.
//
//	curl -X POST localhost:8080/orders -d '{"id": "1", "article": "tea", "cents": 490}'
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	otelprometheus "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/exporters/stdout/stdouttrace"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/trace"

	"github.com/orionjs/orion-go/pulse"
	"github.com/orionjs/orion-go/pulse/telemetry"
)

func main() {
	address := flag.String("listen", "localhost:8080", "where to listen")
	spans := flag.Bool("spans", false, "print spans")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := serve(ctx, os.Getenv("MONGODB_URI"), "telemetry", *address, *spans, func(address net.Addr) {
		fmt.Printf("http://%s/orders takes orders, http://%s/metrics tells of them\n", address, address)
	}); err != nil {
		fmt.Fprintln(os.Stderr, "telemetry:", err)
		os.Exit(1)
	}
}

// serve serves until ctx ends. Ready is told the address, and must return at once.
func serve(ctx context.Context, uri, database, address string, spans bool, ready func(net.Addr)) error {
	if uri == "" {
		return errors.New("the environment variable MONGODB_URI is not set: start this with `go run ./cmd/pulse dev -- go run ./examples/telemetry`, or set it to the connection string of a replica set")
	}
	var exporters []trace.TracerProviderOption
	if spans {
		// A real service exports them, with go.opentelemetry.io/otel/exporters/otlp/otlptrace for example.
		exporter, err := stdouttrace.New()
		if err != nil {
			return err
		}
		exporters = append(exporters, trace.WithBatcher(exporter))
	}
	s, err := start(ctx, config{uri: uri, database: database, traces: exporters, backlogInterval: 10 * time.Second})
	if err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return errors.Join(err, s.close())
	}
	server := &http.Server{Handler: s, ReadHeaderTimeout: 10 * time.Second}
	ready(listener.Addr())
	shut := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(shut)
		soon, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		_ = server.Shutdown(soon)
	})
	err = server.Serve(listener)
	if !errors.Is(err, http.ErrServerClosed) {
		stop()
		return errors.Join(err, s.close())
	}
	<-shut // requests that were being served
	return s.close()
}

// config is what differs between the command and its test.
type config struct {
	uri, database   string
	traces          []trace.TracerProviderOption
	backlogInterval time.Duration
	pulse           pulse.Config
}

// service is the whole: HTTP in front, Pulse behind it, and what watches both.
type service struct {
	http.Handler
	mongo   *mongo.Client
	client  *pulse.Client
	traces  *trace.TracerProvider
	metrics *metric.MeterProvider
}

// start begins to serve events. Requests come through the Handler.
func start(ctx context.Context, cfg config) (_ *service, err error) {
	s := &service{}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()

	// What follows is all that telemetry needs.
	registry := prometheus.NewRegistry()
	reader, err := otelprometheus.New(otelprometheus.WithRegisterer(registry), otelprometheus.WithoutScopeInfo())
	if err != nil {
		return nil, err
	}
	s.metrics = metric.NewMeterProvider(metric.WithReader(reader))
	s.traces = trace.NewTracerProvider(cfg.traces...)
	propagator := propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{})
	cfg.pulse.Observer = telemetry.New(telemetry.Config{
		TracerProvider: s.traces, MeterProvider: s.metrics, Propagator: propagator, BacklogInterval: cfg.backlogInterval,
	})

	if s.mongo, err = mongo.Connect(options.Client().ApplyURI(cfg.uri).SetServerSelectionTimeout(10 * time.Second)); err != nil {
		return nil, err
	}
	cfg.pulse.ConsumerGroup, cfg.pulse.Database = "warehouse", cfg.database
	if s.client, err = pulse.New(ctx, s.mongo, cfg.pulse); err != nil {
		return nil, err
	}
	w := &warehouse{client: s.client, table: s.mongo.Database(cfg.database).Collection("sales"), tracer: s.traces.Tracer("warehouse")}
	// Batches go into the table with one insert each; a receipt is a matter of its own for each order.
	if _, err := orderPlaced.SubscribeBatch(ctx, s.client, 100, w.load, pulse.MaxRetries(5)); err != nil {
		return nil, err
	}
	if _, err := receiptWanted.Subscribe(ctx, s.client, w.receipt, pulse.Unordered(), pulse.ExecutionVersion(2), pulse.MaxRetries(1), pulse.RetryDelay(50*time.Millisecond)); err != nil {
		return nil, err
	}

	mux := http.NewServeMux()
	mux.Handle("POST /orders", otelhttp.NewHandler(takeOrders(s.client), "POST /orders",
		otelhttp.WithTracerProvider(s.traces), otelhttp.WithMeterProvider(s.metrics), otelhttp.WithPropagators(propagator)))
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	s.Handler = mux
	return s, nil
}

// close ends what start has begun, telemetry last: what the end of the others tells is exported, too.
func (s *service) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	var problem error
	if s.client != nil {
		problem = s.client.Close(ctx)
	}
	if s.mongo != nil {
		problem = errors.Join(problem, s.mongo.Disconnect(ctx))
	}
	if s.traces != nil {
		problem = errors.Join(problem, s.traces.Shutdown(ctx))
	}
	if s.metrics != nil {
		problem = errors.Join(problem, s.metrics.Shutdown(ctx))
	}
	return problem
}
