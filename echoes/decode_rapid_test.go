package echoes

import (
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"pgregory.net/rapid"
)

// drawDoc draws a document for invoice: known and unknown keys, repeated ones
// too, with values that usually suit.
func drawDoc(t *rapid.T, depth int) bson.D {
	values := map[string]*rapid.Generator[any]{
		"id": text(), "number": whole(), "small": whole(), "count": whole(), "big": whole(), "level": whole(),
		"rate": numeric(), "ratio": numeric(), "paid": boxed(rapid.Bool()), "issued": boxed(rapid.Custom(func(t *rapid.T) bson.DateTime {
			return bson.DateTime(rapid.Int64Range(-1e15, 1e15).Draw(t, "ms"))
		})),
		"span": whole(), "ref": boxed(rapid.Custom(func(t *rapid.T) (id bson.ObjectID) {
			copy(id[:], rapid.SliceOfN(rapid.Byte(), 12, 12).Draw(t, "id"))
			return id
		})),
		"hash":  boxed(rapid.SliceOfN(rapid.Byte(), 0, 4)),
		"notes": list(text()), "grid": list(list(whole())), "labels": dict(text()),
		"customer": doc(map[string]*rapid.Generator[any]{"name": text(), "email": orNull(text()), "tags": dict(orNull(whole())), "x": text()}),
		"lines": list(doc(map[string]*rapid.Generator[any]{
			"sku": text(), "quantity": whole(), "price": numeric(), "discount": orNull(whole()), "gift": boxed(rapid.Bool()), "y": numeric(),
		})),
		"any": free(depth), "extra": dict(free(depth)), "unknown": free(depth),
	}
	values["parent"] = orNull(values["customer"])
	values["due"] = orNull(values["issued"])
	return doc(values).Draw(t, "doc").(bson.D)
}

func boxed[T any](g *rapid.Generator[T]) *rapid.Generator[any] {
	return rapid.Map(g, func(v T) any { return v })
}

func orNull(g *rapid.Generator[any]) *rapid.Generator[any] {
	return rapid.OneOf(g, rapid.Just[any](nil))
}

func text() *rapid.Generator[any] { return boxed(rapid.StringN(0, 4, -1)) }

func whole() *rapid.Generator[any] {
	return rapid.OneOf(
		boxed(rapid.Int32Range(0, 100)), boxed(rapid.Int64Range(0, 100)), boxed(rapid.Int32()), boxed(rapid.Int64()),
		rapid.Map(rapid.Int32(), func(n int32) any { return float64(n) }), boxed(rapid.Float64()), rapid.Just[any](nil),
	)
}

func numeric() *rapid.Generator[any] {
	return rapid.OneOf(whole(), rapid.Map(rapid.Float32(), func(f float32) any { return float64(f) }))
}

func list(g *rapid.Generator[any]) *rapid.Generator[any] {
	return rapid.Map(rapid.SliceOfN(g, 0, 3), func(s []any) any { return bson.A(s) })
}

func dict(g *rapid.Generator[any]) *rapid.Generator[any] {
	return rapid.Custom(func(t *rapid.T) any {
		d := bson.D{}
		for range rapid.IntRange(0, 3).Draw(t, "n") {
			d = append(d, bson.E{Key: rapid.StringMatching(`[a-c]{0,2}`).Draw(t, "key"), Value: g.Draw(t, "value")})
		}
		return d
	})
}

func doc(values map[string]*rapid.Generator[any]) *rapid.Generator[any] {
	keys := make([]string, 0, len(values))
	for key := range values {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return rapid.Custom(func(t *rapid.T) any {
		d := bson.D{}
		for range rapid.IntRange(0, 8).Draw(t, "n") {
			key := rapid.SampledFrom(keys).Draw(t, "key")
			d = append(d, bson.E{Key: key, Value: values[key].Draw(t, key)})
		}
		return d
	})
}

func free(depth int) *rapid.Generator[any] {
	gens := []*rapid.Generator[any]{text(), numeric(), boxed(rapid.Bool()), rapid.Just[any](bson.MinKey{}), rapid.Just[any](bson.Timestamp{T: 1})}
	if depth > 0 {
		gens = append(gens, rapid.Deferred(func() *rapid.Generator[any] { return list(free(depth - 1)) }),
			rapid.Deferred(func() *rapid.Generator[any] { return dict(free(depth - 1)) }))
	}
	return rapid.OneOf(gens...)
}

func TestDecode_7_3_RandomDocumentsDecodeAsTheDriverDoes(t *testing.T) {
	t.Parallel()
	outer := t
	accepted := 0
	rapid.Check(t, func(t *rapid.T) {
		d := drawDoc(t, 3)
		v := raw(rapidTB{outer, t}, d)
		ours, err := DecodeParams(v, decodeInvoice)
		var theirs invoice
		driverErr := bson.Unmarshal(v.Value, &theirs)
		switch {
		case err == nil && driverErr != nil && strings.Contains(driverErr.Error(), "overflows "):
			// The driver reads unsigned integers by way of int64.
		case err == nil && driverErr != nil:
			t.Fatalf("only ours accepts: %v\n%v", driverErr, d)
		case err == nil:
			accepted++
			if !reflect.DeepEqual(noNaN(ours), noNaN(theirs)) {
				t.Fatalf("ours  %+v\ntheirs %+v\n%v", ours, theirs, d)
			}
		case driverErr == nil && !strings.Contains(err.Error(), "without loss") && !strings.Contains(err.Error(), "got double"):
			// The driver rounds int64 to double, and takes doubles outside of
			// int64 for its bounds.
			t.Fatalf("only the driver accepts: %v\n%v", err, d)
		}
	})
	t.Logf("%d documents accepted", accepted)
	if accepted == 0 {
		t.Fatal("no document was accepted: the test proves nothing")
	}
}

// noNaN makes invoices comparable. Free values hold no NaN: rapid.Float64 draws
// none.
func noNaN(p invoice) invoice {
	if math.IsNaN(p.Rate) {
		p.Rate = 0
	}
	return p
}

func TestDecode_7_3_RandomInvoicesSurvive(t *testing.T) {
	t.Parallel()
	outer := t
	rapid.Check(t, func(t *rapid.T) {
		in := invoice{
			ID: rapid.String().Draw(t, "id"), Number: rapid.Int64().Draw(t, "number"), Small: rapid.Int8().Draw(t, "small"),
			Count: rapid.Uint32().Draw(t, "count"), Rate: rapid.Float64().Draw(t, "rate"), Ratio: rapid.Float32().Draw(t, "ratio"),
			Issued: time.UnixMilli(rapid.Int64Range(-1e14, 1e14).Draw(t, "issued")).UTC(), Span: time.Duration(rapid.Int64().Draw(t, "span")),
			Hash: rapid.SliceOf(rapid.Byte()).Draw(t, "hash"), Labels: rapid.MapOf(rapid.StringMatching(`[a-z.]*`), rapid.String()).Draw(t, "labels"),
			Notes: rapid.SliceOf(rapid.String()).Draw(t, "notes"), Axes: [3]int(rapid.SliceOfN(rapid.Int(), 3, 3).Draw(t, "axes")),
			Lines: []line{{SKU: rapid.String().Draw(t, "sku"), Price: rapid.Float64().Draw(t, "price")}},
		}
		got, err := DecodeParams(raw(rapidTB{outer, t}, in), decodeInvoice)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, in) {
			t.Fatalf("got %+v\nwant %+v", got, in)
		}
	})
}
