package pulse_test

import (
	"context"
	"testing"
	"time"

	"github.com/matryer/is"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/orionjs/orion-go/pulse"
	"github.com/orionjs/orion-go/pulse/observe"
	"github.com/orionjs/orion-go/pulse/pulsetest"
	"github.com/orionjs/orion-go/pulse/telemetry"
)

// BenchmarkObserver tells what an event costs its client, without an observer and with one: allocations are
// counted over publishing, and over claiming, handling and settling in batches of claims.
func BenchmarkObserver(b *testing.B) {
	observers := []struct {
		name string
		made func() observe.Observer
	}{
		{"none", func() observe.Observer { return nil }},
		{"nothing", func() observe.Observer { return observe.Nothing{} }},
		{"telemetry, unsampled", func() observe.Observer { return measured(trace.NeverSample()) }},
		{"telemetry, all sampled", func() observe.Observer { return measured(trace.AlwaysSample()) }},
	}
	for _, o := range observers {
		b.Run("publish/"+o.name, func(b *testing.B) {
			is := is.New(b)
			c, _ := benchClient(b, o.made())
			topic := pulse.NewTopic[order]("order.created")
			b.ReportAllocs()
			for i := range b.N {
				_, err := topic.Publish(b.Context(), c, order{Number: i})
				is.NoErr(err)
			}
		})
		b.Run("handle/"+o.name, func(b *testing.B) {
			is := is.New(b)
			c, _ := benchClient(b, o.made())
			topic := pulse.NewTopic[order]("order.created")
			messages := make([]pulse.Message[order], b.N)
			_, err := topic.PublishMany(b.Context(), c, messages)
			is.NoErr(err)
			handled := make(chan struct{}, b.N)
			b.ReportAllocs()
			b.ResetTimer()
			_, err = topic.Subscribe(b.Context(), c, func(context.Context, *pulse.Event[order]) error {
				handled <- struct{}{}
				return nil
			}, unordered(pulse.OffsetReset(pulse.Earliest))...)
			is.NoErr(err)
			for range b.N {
				<-handled
			}
		})
	}
}

func measured(sampler trace.Sampler) observe.Observer {
	return telemetry.New(telemetry.Config{
		TracerProvider: trace.NewTracerProvider(trace.WithSampler(sampler), trace.WithSpanProcessor(trace.NewSimpleSpanProcessor(tracetest.NewNoopExporter()))),
		MeterProvider:  metric.NewMeterProvider(metric.WithReader(metric.NewManualReader())),
	})
}

// benchClient starts a client in a database of its own that polls rarely, so that what is counted is the events'.
func benchClient(b *testing.B, o observe.Observer) (*pulse.Client, *mongo.Database) {
	b.Helper()
	is := is.New(b)
	mc, err := mongo.Connect(options.Client().ApplyURI(pulsetest.URI(b)))
	is.NoErr(err)
	db := pulsetest.Database(b)
	config := fast(db)
	config.Observer, config.PollInterval = o, 3*time.Second
	c, err := pulse.New(b.Context(), mc, config)
	is.NoErr(err)
	b.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		is.NoErr(c.Close(ctx))
		is.NoErr(mc.Disconnect(ctx))
	})
	return c, db
}
