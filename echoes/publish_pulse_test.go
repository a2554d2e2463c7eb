package echoes

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/matryer/is"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/orionjs/orion-go/pulse"
	"github.com/orionjs/orion-go/pulse/pulsetest"
)

func TestPulse_7_9_TypedFromPublishToHandlers(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	db := pulsetest.Database(t)
	var items pulsetest.Recorder[Item[invoice]]
	a := started(t, onPulse(db), service{OnItem("invoice", func(_ context.Context, item Item[invoice]) error {
		items.Add(item)
		return nil
	}, decodeInvoice, single(OffsetReset("earliest"))...)})
	want := sampleInvoice(t)
	ref, err := PublishEncoded(t.Context(), a, "invoice", &want, encodeInvoice, WithHeaders(map[string]string{"h": "v"}))
	is.NoErr(err)
	results, err := PublishManyEncoded(t.Context(), a, "invoice", []Draft[invoice]{{Params: want, ID: "second"}, {}}, encodeInvoice)
	is.NoErr(err)

	got := map[string]Item[invoice]{}
	for _, item := range items.Wait(t, 3) {
		got[item.EventID] = item
	}
	is.Equal(got[ref.ID].Params, want)
	is.Equal(got[ref.ID].Headers["h"], "v")
	is.Equal(got["second"].Params, want)
	is.Equal(got[results[1].ID].Params.Lines, nil)

	var doc struct{ Data struct{ Params bson.Raw } }
	is.NoErr(db.Collection("orionjs.pulse.events").FindOne(t.Context(), bson.M{"_id": "second"}).Decode(&doc))
	is.Equal(doc.Data.Params, bson.Raw(encoded(t, want, encodeInvoice).Value))
}

func TestPulse_1_2_PublishManyReportsPerEvent(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	db := pulsetest.Database(t)
	a := started(t, onPulse(db))
	publish(t, a, "t", note{"here"}, WithID("same"))
	publish(t, a, "t", note{"here"}, WithID("other"))

	drafts := []Draft[any]{{Params: note{"here"}, ID: "same"}, {Params: note{"not here"}, ID: "other"}}
	for i := range 1500 {
		drafts = append(drafts, Draft[any]{Params: note{fmt.Sprint(i)}, Headers: map[string]string{"i": fmt.Sprint(i)}})
	}
	results, err := a.PublishMany(t.Context(), "t", drafts)
	is.True(strings.HasPrefix(err.Error(), "echoes: publish to t: 1 of 1502 events were not stored, each result says why; the first: "))
	is.Equal(len(results), len(drafts))
	is.True(results[0].Duplicate)
	is.NoErr(results[0].Err)
	var conflict *pulse.ConflictError
	is.True(errors.As(results[1].Err, &conflict))
	for _, r := range results[2:] {
		is.NoErr(r.Err)
		is.True(r.ID != "" && !r.CreatedAt.IsZero() && !r.Duplicate)
	}
	n, err := db.Collection("orionjs.pulse.events").CountDocuments(t.Context(), bson.M{})
	is.NoErr(err)
	is.Equal(n, int64(1502))
}

func TestPulse_1_6_InvalidEventsAreNoOutage(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := started(t, onPulse(pulsetest.Database(t)))
	large := strings.Repeat("x", 17<<20)
	for name, publish := range map[string]func() error{
		"header": func() error {
			_, err := a.Publish(t.Context(), "t", 1, WithHeaders(map[string]string{"a": "\xff"}))
			return err
		},
		"too large": func() error { _, err := a.Publish(t.Context(), "t", large); return err },
		"text":      func() error { _, err := a.Publish(t.Context(), "t", "\xff"); return err },
		"many": func() error {
			_, err := a.PublishMany(t.Context(), "t", []Draft[any]{{Params: 1}, {Params: large}})
			return err
		},
	} {
		err := publish()
		var bad *InvalidEventError
		if !errors.As(err, &bad) || bad.Topic != "t" || bad.Index != map[string]int{"many": 1}[name] {
			t.Errorf("%s: %v", name, err)
		}
	}
	// What concerns the app or the server is none.
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := a.Publish(ctx, "t", 1)
	var bad *InvalidEventError
	is.True(err != nil && !errors.As(err, &bad))
	is.NoErr(a.Close(t.Context()))
	_, err = a.PublishMany(t.Context(), "t", []Draft[any]{{Params: 1}})
	is.True(errors.Is(err, ErrClosed))
}
