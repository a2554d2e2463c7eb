package echoestest_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.uber.org/goleak"

	"github.com/orionjs/orion-go/echoes"
	"github.com/orionjs/orion-go/echoes/echoestest"
	"github.com/orionjs/orion-go/echoes/echoestest/internal/shop"
	"github.com/orionjs/orion-go/pulse"
)

func TestMain(m *testing.M) {
	flag.Parse()
	if testing.Short() {
		_ = flag.Set("test.skip", "^ExamplePublished$") // it needs a server
	}
	goleak.VerifyTestMain(m)
}

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

func closeApp(t testing.TB, app *echoes.App) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := app.Close(ctx); err != nil {
		t.Error(err)
	}
}

// failing is a test that may fail.
type failing struct {
	testing.TB
	text string
}

func (f *failing) Helper()           {}
func (f *failing) Fatal(args ...any) { f.text = fmt.Sprint(args...); runtime.Goexit() }

func (f *failing) Fatalf(format string, args ...any) {
	f.text = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// failure returns what the helper fails its test with.
func failure(t *testing.T, helper func(t testing.TB)) string {
	f := &failing{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		helper(f)
	}()
	<-done
	return f.text
}

func TestHandle_7_10_GoesThroughTheMiddleware(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	var calls []string
	app, err := echoes.New(echoes.Config{Logger: quiet, Middleware: []echoes.Middleware{
		func(ctx context.Context, call echoes.Call, next func(context.Context) error) error {
			ec, ok := echoes.FromContext(ctx)
			is.True(ok == (call.Kind == echoes.KindEvent))
			err := next(ctx)
			calls = append(calls, fmt.Sprint(call.Topic, " ", call.Transport, " ", call.Attempt, " ", len(call.Items), " ", ec.EventID, " ", err))
			return err
		},
	}}, &shop.Shop{Events: &echoestest.Publisher{}})
	is.NoErr(err)
	err = echoestest.Handle(t, app, "order.placed", bson.RawValue{Type: bson.TypeEmbeddedDocument, Value: encoded(t, shop.Order{Number: "9"})})
	is.True(errors.Is(err, shop.ErrNothing))
	is.NoErr(echoestest.Handle(t, app, "order.counted", shop.Order{Number: "1"}, shop.Order{Number: "2"}))
	is.Equal(calls, []string{"order.placed pulse 1 1 event-1 order 9: nothing to pay", "order.counted pulse 1 2  <nil>"})
}

func encoded(t *testing.T, v any) bson.Raw {
	t.Helper()
	raw, err := bson.Marshal(v)
	is.New(t).NoErr(err)
	return raw
}

func TestHandle_7_8_SkipsWhatABatchCannotDecode(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	service := &shop.Shop{}
	app := echoestest.New(t, service)
	is.NoErr(echoestest.Handle(t, app, "order.counted",
		shop.Order{Number: "1", Cents: 10}, json.RawMessage(`{"cents": 1}`), encoded(t, shop.Order{Number: "3", Cents: 300})))
	is.Equal(service.Counted, int64(310))
	is.Equal(app.SkippedItems("order.counted"), 1)
}

func TestHandle_GivesTheHandlerTheCallersContext(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	type key struct{}
	var got any
	app, err := echoes.New(echoes.Config{Logger: quiet, Middleware: []echoes.Middleware{
		func(ctx context.Context, _ echoes.Call, next func(context.Context) error) error {
			got = ctx.Value(key{})
			return next(ctx)
		},
	}}, &shop.Shop{})
	is.NoErr(err)
	is.NoErr(echoestest.HandleContext(context.WithValue(t.Context(), key{}, "tenant"), t, app, "order.counted", nil))
	is.Equal(got, "tenant")
	is.Equal(app.SkippedItems("order.counted"), 1) // no params at all
}

func TestHandle_FailsATestThatCallsItWrongly(t *testing.T) {
	t.Parallel()
	app := echoestest.New(t, &shop.Shop{})
	for want, call := range map[string]func(testing.TB){
		`no listener handles topic "order.paid"; there are listeners for ["order.placed" "order.counted"]`: func(t testing.TB) {
			_ = echoestest.Handle(t, app, "order.paid", shop.Order{})
		},
		"2 events in a call, the listener takes 1 to 1": func(t testing.TB) {
			_ = echoestest.Handle(t, app, "order.placed", shop.Order{}, shop.Order{})
		},
		"event 1: the params are not JSON": func(t testing.TB) {
			_ = echoestest.Handle(t, app, "order.placed", json.RawMessage(`{`))
		},
		"cannot be encoded": func(t testing.TB) {
			_ = echoestest.Handle(t, app, "order.placed", make(chan int))
		},
	} {
		if got := failure(t, call); !strings.Contains(got, want) {
			t.Errorf("%q does not say %q", got, want)
		}
	}
}

func TestPublisher_1_3_StoresAnIDOnce(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	p := &echoestest.Publisher{}
	first, err := p.Publish(t.Context(), "order.placed", shop.Order{Number: "1"}, echoes.WithID("a"))
	is.NoErr(err)
	is.True(!first.Duplicate)
	second, err := shop.PublishOrder(t.Context(), p, shop.Order{Number: "1"}, echoes.WithID("a"))
	is.NoErr(err)
	is.True(second.Duplicate)
	_, err = p.Publish(t.Context(), "order.placed", shop.Order{Number: "2"}, echoes.WithID("a"))
	var conflict *pulse.ConflictError
	is.True(errors.As(err, &conflict))
	is.Equal(p.Len(), 1)
}

func TestPublisher_1_6_RefusesWhatCannotBeStored(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	p := &echoestest.Publisher{}
	var invalid *echoes.InvalidEventError
	_, err := p.Publish(t.Context(), " ", nil)
	is.True(errors.As(err, &invalid))
	_, err = p.PublishMany(t.Context(), "order.placed", []echoes.Draft[any]{{Params: shop.Order{Number: "1"}}, {Params: make(chan int)}})
	is.True(errors.As(err, &invalid) && invalid.Index == 1)
	is.Equal(p.Len(), 0)
	results, err := shop.PublishManyOrder(t.Context(), p, []echoes.Draft[shop.Order]{{Params: shop.Order{Number: "1"}}, {Params: shop.Order{Number: "2"}, Headers: map[string]string{"tenant": "b"}}})
	is.NoErr(err)
	is.Equal(len(results), 2)
	orders := echoestest.Items[shop.Order](t, p, "order.placed")
	is.Equal(orders[1].Params.Number, "2")
	is.Equal(orders[1].Headers, map[string]string{"tenant": "b"})
	is.Equal(orders[1].EventID, results[1].ID)
}

func TestPublisher_FailsWhenItIsTold(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	outage := errors.New("no primary")
	p := &echoestest.Publisher{Err: outage}
	app := echoestest.New(t, &shop.Shop{Events: p})
	is.True(errors.Is(echoestest.Handle(t, app, "order.placed", shop.Order{Number: "1", Cents: 1}), outage))
	is.Equal(p.Len(), 0)
}
