package echoes

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
	"unsafe"

	"github.com/google/uuid"
	"github.com/matryer/is"
	"go.mongodb.org/mongo-driver/v2/bson"
)

func TestDecode_7_3_EqualsWhatTheDriverDecodes(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	v := raw(t, sampleInvoice(t))
	var want invoice
	is.NoErr(bson.Unmarshal(v.Value, &want))
	got, err := DecodeParams(v, decodeInvoice)
	is.NoErr(err)
	is.Equal(got, want)
}

// problems lists what is wrong with a payload and what the error must say.
func TestDecode_7_3_ErrorNamesThePath(t *testing.T) {
	t.Parallel()
	deep := bson.D{}
	for range maxDepth + 1 {
		deep = bson.D{{Key: "sub", Value: deep}}
	}
	type m = bson.M
	cases := map[string]struct {
		value any
		want  string
	}{
		"scalar":            {m{"id": 7}, "id: want string, got int32"},
		"in a list":         {m{"lines": bson.A{m{}, m{"price": "9"}}}, "lines[1].price: want float64, got string"},
		"list itself":       {m{"lines": m{}}, "lines: want array, got document"},
		"element":           {m{"lines": bson.A{m{}, 3}}, "lines[1]: want document, got int32"},
		"after null":        {m{"lines": bson.A{nil, m{"sku": true}}}, "lines[1].sku: want string, got bool"},
		"list of lists":     {m{"grid": bson.A{bson.A{}, bson.A{1, 2, "x"}}}, "grid[1][2]: want int64, got string"},
		"pointer":           {m{"parent": m{"email": 1.5}}, "parent.email: want string, got double"},
		"map":               {m{"labels": m{"a": 1}}, "labels.a: want string, got int32"},
		"map, odd key":      {m{"labels": m{"a.b c": 1}}, `labels["a.b c"]: want string, got int32`},
		"map, empty key":    {m{"labels": m{"": 1}}, `labels[""]: want string, got int32`},
		"map, long key":     {m{"labels": m{strings.Repeat("k", 100): 1}}, "labels[\"" + strings.Repeat("k", 64) + "…\"]: want string, got int32"},
		"map of pointers":   {m{"customer": m{"tags": m{"x": 1 << 20}}}, "customer.tags.x: want int16, got int32 1048576, which is out of range"},
		"fraction":          {m{"number": 1.5}, "number: want int64, got double 1.5, which is not a whole number"},
		"NaN":               {m{"number": math.NaN()}, "number: want int64, got double NaN, which is not a whole number"},
		"infinity":          {m{"number": math.Inf(-1)}, "number: want int64, got double -Inf, which is not a whole number"},
		"too big":           {m{"small": 128}, "small: want int8, got int32 128, which is out of range"},
		"negative unsigned": {m{"count": -1}, "count: want uint32, got int32 -1, which is out of range"},
		"lossy float":       {m{"rate": int64(1<<53 + 1)}, "rate: want float64, got int64 9007199254740993, which it cannot hold without loss"},
		"lossy float32":     {m{"ratio": 0.1}, "ratio: want float32, got double 0.1, which it cannot hold without loss"},
		"time":              {m{"issued": "yesterday"}, `issued: want date or RFC 3339 text, got string "yesterday"`},
		"time of number":    {m{"issued": int64(5)}, "issued: want date or RFC 3339 text, got int64"},
		"duration":          {m{"span": "soon"}, `span: want a duration like 1m30s, got string "soon"`},
		"objectId":          {m{"ref": "xyz"}, `ref: want objectId or its 24 hexadecimal digits, got string "xyz"`},
		"binary subtype":    {m{"hash": bson.Binary{Subtype: 4, Data: make([]byte, 16)}}, "hash: want binary of subtype 0 or 2, got subtype 4"},
		"array too long":    {m{"axes": bson.A{1, 2, 3, 4}}, "axes[3]: want at most 3 elements, got more"},
		"UTF-8":             {m{"id": "ab\xffc"}, "id: the string is not valid UTF-8 (at byte 2)"},
		"UTF-8 in a key":    {m{"labels": m{"a\xfe": "x"}}, `labels["a\xfe"]: the key is not valid UTF-8 (at byte 1)`},
		"UTF-8 deep inside": {m{"any": bson.A{m{"x": "\xc0"}}}, "any[0].x: the string is not valid UTF-8 (at byte 0)"},
		"bomb":              {m{"any": deep}, "any" + strings.Repeat(".sub", 49) + ".…sub" + strings.Repeat(".sub", 18) + ": nested deeper than 200 levels"},
		"whole":             {"text", "params: want document, got string"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			got, err := DecodeParams(raw(t, c.value), decodeInvoice)
			is.True(err != nil)
			is.Equal(err.Error(), c.want)
			is.Equal(got, invoice{}) // nothing half decoded is handed out
		})
	}
}

// A path that is too long to be read keeps both ends, and whole characters.
func TestDecode_7_3_LongPathsAreCut(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	short := strings.Repeat("ä", maxPath/2)
	is.Equal(cutPath(short), short)
	for _, step := range []string{"ä", "€", "x"} {
		for n := range 4 {
			path := strings.Repeat("x", n) + strings.Repeat(step, maxPath+1)
			got := cutPath(path)
			is.True(len(got) <= maxPath && utf8.ValidString(got))
			head, tail, ok := strings.Cut(got, "…")
			is.True(ok && strings.HasPrefix(path, head) && strings.HasSuffix(path, tail) && len(tail) > 60)
		}
	}
}

func TestDecode_7_3_NullUndefinedAndAbsentAreZero(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	doc := bson.D{}
	for _, e := range sampleDoc(t) {
		doc = append(doc, bson.E{Key: e.Key, Value: nil})
	}
	got, err := DecodeParams(raw(t, doc), decodeInvoice)
	is.NoErr(err)
	is.Equal(got, invoice{})

	for i := range doc {
		doc[i].Value = bson.Undefined{}
	}
	got, err = DecodeParams(raw(t, doc), decodeInvoice)
	is.NoErr(err)
	is.Equal(got, invoice{})

	for _, v := range []bson.RawValue{{}, raw(t, nil), raw(t, bson.D{})} {
		got, err = DecodeParams(v, decodeInvoice)
		is.NoErr(err)
		is.Equal(got, invoice{})
	}

	// Null elements and values keep their place.
	got, err = DecodeParams(raw(t, bson.M{"lines": bson.A{nil, bson.M{"sku": "b"}}, "labels": bson.M{"k": nil}, "notes": bson.A{}}), decodeInvoice)
	is.NoErr(err)
	is.Equal(got, invoice{Lines: []line{{}, {SKU: "b"}}, Labels: map[string]string{"k": ""}, Notes: []string{}})
}

func sampleDoc(t *testing.T) bson.D {
	t.Helper()
	b, err := bson.Marshal(sampleInvoice(t))
	if err != nil {
		t.Fatal(err)
	}
	var doc bson.D
	if err := bson.Unmarshal(b, &doc); err != nil {
		t.Fatal(err)
	}
	return doc
}

func TestDecode_7_3_UnknownFieldsAreDropped(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	doc := bson.D{
		{Key: "x", Value: bson.D{{Key: "id", Value: 5}}},
		{Key: "id", Value: "a"},
		{Key: "y", Value: bson.Regex{Pattern: "p", Options: "i"}},
		{Key: "ID", Value: 3}, // keys are matched exactly
		{Key: "lines", Value: bson.A{bson.D{{Key: "z", Value: bson.A{1}}, {Key: "sku", Value: "s"}}}},
	}
	got, err := DecodeParams(raw(t, doc), decodeInvoice)
	is.NoErr(err)
	is.Equal(got, invoice{ID: "a", Lines: []line{{SKU: "s"}}})
}

func TestDecode_7_3_RequiredAndValidate(t *testing.T) {
	t.Parallel()
	type m = bson.M
	ok := m{"sku": "a", "price": 1}
	cases := map[string]struct {
		value any
		want  string
	}{
		"fine":                {ok, ""},
		"missing":             {m{"sku": "a"}, "price: required field is missing"},
		"both missing":        {m{}, "sku: required field is missing (so are price)"},
		"null is missing":     {m{"sku": nil, "price": 0}, "sku: required field is missing"},
		"whole payload null":  {nil, "sku: required field is missing (so are price)"},
		"nested":              {m{"sku": "a", "price": 1, "rows": bson.A{ok, m{"price": 2}}}, "rows[1].sku: required field is missing"},
		"null pointer":        {m{"sku": "a", "price": 1, "sub": nil}, ""},
		"null element":        {m{"sku": "a", "price": 1, "rows": bson.A{nil, ok}}, ""},
		"last element null":   {bson.D{{Key: "price", Value: 1}, {Key: "rows", Value: bson.A{nil}}}, "sku: required field is missing"},
		"validate":            {m{"sku": "a", "price": -1}, "params: price must not be negative"},
		"validate in element": {m{"sku": "a", "price": 1, "rows": bson.A{ok, m{"sku": "b", "price": -2}}}, "rows[1]: price must not be negative"},
		"validate, pointer":   {m{"sku": "a", "price": 1, "sub": m{"sku": "b", "price": -2}}, "sub: price must not be negative"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			_, err := DecodeParams(raw(t, c.value), decodeStrictLine)
			if c.want == "" {
				is.NoErr(err)
				return
			}
			is.True(err != nil)
			is.Equal(err.Error(), c.want)
			is.Equal(errors.Is(err, errNegative), strings.Contains(name, "validate"))
		})
	}
}

func TestDecode_7_3_MoreThan64RequiredFields(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	names := make([]string, 70)
	full := bson.D{}
	for i := range names {
		names[i] = "f" + strconv.Itoa(i)
		full = append(full, bson.E{Key: names[i], Value: i})
	}
	decode := func(d *Decoder, _ *struct{}) {
		var seen [2]uint64
		for end := d.Begin(); d.Next(end); {
			for i := range names {
				if string(d.Key()) == names[i] && d.Present() {
					seen[i/64] |= 1 << (i % 64)
				}
			}
		}
		d.Require(seen[0], names[:64]...)
		d.Require(seen[1], names[64:]...)
	}
	_, err := DecodeParams(raw(t, full), decode)
	is.NoErr(err)
	for _, gone := range []int{0, 63, 64, 69} {
		doc := append(append(bson.D{}, full[:gone]...), full[gone+1:]...)
		_, err := DecodeParams(raw(t, doc), decode)
		var de *DecodeError
		is.True(errors.As(err, &de))
		is.True(strings.HasPrefix(de.Path, "f"))
	}
}

func TestDecode_7_3_ValidateSeesOnlyCompleteValues(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	calls := 0
	decode := func(d *Decoder, p *string) {
		for end := d.Begin(); d.Next(end); {
			d.String(p)
		}
		d.Validate(validatorFunc(func() error { calls++; return nil }))
	}
	_, err := DecodeParams(raw(t, bson.D{{Key: "a", Value: "x"}, {Key: "b", Value: 1}}), decode)
	is.True(err != nil)
	is.Equal(calls, 0)
	_, err = DecodeParams(raw(t, bson.D{{Key: "a", Value: "x"}}), decode)
	is.NoErr(err)
	is.Equal(calls, 1)
}

type validatorFunc func() error

func (f validatorFunc) Validate() error { return f() }

func TestDecode_7_3_TimesAndDurations(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	at := time.Date(2026, 3, 1, 8, 30, 0, 123e6, time.UTC)
	for _, v := range []any{at, at.In(time.FixedZone("x", 3600)), "2026-03-01T08:30:00.123Z", "2026-03-01T09:30:00.123+01:00", bson.NewDateTimeFromTime(at)} {
		got, err := DecodeParams(raw(t, v), (*Decoder).Time)
		is.NoErr(err)
		is.Equal(got, at)
		is.Equal(got.Location(), time.UTC)
	}
	got, err := DecodeParams(raw(t, "2026-03-01T08:30:00.123456789Z"), (*Decoder).Time)
	is.NoErr(err)
	is.Equal(got.Nanosecond(), 123456789)
	for _, ms := range []int64{math.MinInt64, -1, 0, math.MaxInt64} {
		got, err := DecodeParams(raw(t, bson.DateTime(ms)), (*Decoder).Time)
		is.NoErr(err)
		is.Equal(got, bson.DateTime(ms).Time().UTC())
	}
	for _, v := range []any{90 * time.Second, int64(9e10), 9e10, "1m30s"} {
		got, err := DecodeParams(raw(t, v), (*Decoder).Duration)
		is.NoErr(err)
		is.Equal(got, 90*time.Second)
	}
}

func TestDecode_7_3_TextTypes(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	addr, err := DecodeParams(raw(t, "10.0.0.1"), Text[netip.Addr])
	is.NoErr(err)
	is.Equal(addr, netip.MustParseAddr("10.0.0.1"))

	id := uuid.MustParse("0190a1b2-0000-7000-8000-0123456789ab")
	for _, v := range []any{id.String(), bson.Binary{Subtype: bson.TypeBinaryUUID, Data: id[:]}, bson.Binary{Data: id[:]}} {
		got, err := DecodeParams(raw(t, v), Text[uuid.UUID])
		is.NoErr(err)
		is.Equal(got, id)
	}
	list, err := DecodeParams(raw(t, bson.A{"10.0.0.1", nil}), func(d *Decoder, p *[]netip.Addr) { Slice(d, p, Text[netip.Addr]) })
	is.NoErr(err)
	is.Equal(list, []netip.Addr{netip.MustParseAddr("10.0.0.1"), {}})

	_, err = DecodeParams(raw(t, 5), Text[netip.Addr])
	is.Equal(err.Error(), "params: want string, got int32")
	_, err = DecodeParams(raw(t, netip.MustParseAddr("10.0.0.1")), Text[netip.Addr])
	is.Equal(err.Error(), "params: want string, got an empty document, as which the driver stores types without exported fields: publish them as text")
	_, err = DecodeParams(raw(t, bson.D{{Key: "a", Value: 1}}), Text[netip.Addr])
	is.Equal(err.Error(), "params: want string, got document")
	_, err = DecodeParams(raw(t, "no"), Text[netip.Addr])
	is.True(strings.HasPrefix(err.Error(), "params: "))

	level := func(d *Decoder, p *slog.Level) {
		if !TryText(d, p) {
			IntOf(d, p)
		}
	}
	for _, v := range []any{slog.LevelWarn, "WARN", 4.0} {
		got, err := DecodeParams(raw(t, v), level)
		is.NoErr(err)
		is.Equal(got, slog.LevelWarn)
	}
	_, err = DecodeParams(raw(t, true), level)
	is.Equal(err.Error(), "params: want int64, got bool")
	_, err = DecodeParams(raw(t, "LOUD"), level)
	is.True(strings.Contains(err.Error(), "LOUD"))

	var fixed [16]byte
	_, err = DecodeParams(raw(t, bson.Binary{Data: id[:]}), func(d *Decoder, _ *struct{}) { d.ByteArray(fixed[:]) })
	is.NoErr(err)
	is.Equal(fixed, [16]byte(id))
	_, err = DecodeParams(raw(t, bson.Binary{Data: id[:3]}), func(d *Decoder, _ *struct{}) { d.ByteArray(fixed[:]) })
	is.Equal(err.Error(), "params: want 16 bytes, got 3")
}

func TestDecode_7_3_NothingAliasesThePayload(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	doc := bson.D{
		{Key: "id", Value: "text"},
		{Key: "hash", Value: []byte("bytes")},
		{Key: "labels", Value: bson.M{"key": "value"}},
		{Key: "notes", Value: bson.A{"note"}},
		{Key: "any", Value: bson.D{{Key: "s", Value: "v"}, {Key: "b", Value: bson.Binary{Data: []byte("data")}}}},
		{Key: "extra", Value: bson.M{"k": bson.A{"e"}}},
	}
	v := raw(t, doc)
	got, err := DecodeParams(v, decodeInvoice)
	is.NoErr(err)
	want, err := DecodeParams(raw(t, doc), decodeInvoice)
	is.NoErr(err)
	kept, err := DecodeParams(v, (*Decoder).Raw)
	is.NoErr(err)
	value, err := DecodeParams(v, (*Decoder).RawValue)
	is.NoErr(err)
	for i := range v.Value {
		v.Value[i] = 0xff
	}
	is.Equal(got, want)
	is.NoErr(kept.Validate())
	is.NoErr(value.Validate())
}

// ZeroCopy is for strings and keys; what a handler may change is copied still.
func TestDecode_7_3_ZeroCopyKeepsTextInThePayload(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	v := raw(t, bson.D{
		{Key: "id", Value: "text"},
		{Key: "notes", Value: bson.A{"", strings.Repeat("note", 40)}},
		{Key: "labels", Value: bson.M{"key": "value"}},
		{Key: "hash", Value: []byte("bytes")},
		{Key: "any", Value: bson.D{{Key: "s", Value: "v"}, {Key: "b", Value: bson.Binary{Data: []byte("data")}}}},
	})
	copies, err := DecodeParams(v, decodeInvoice)
	is.NoErr(err)
	decode := func(d *Decoder, p *invoice) {
		d.ZeroCopy()
		decodeInvoice(d, p)
	}
	got, err := DecodeParams(v, decode)
	is.NoErr(err)
	is.Equal(got, copies)
	for i := range v.Value {
		v.Value[i] ^= 1
	}
	is.True(got.ID != copies.ID)
	is.True(got.Notes[0] == "" && got.Notes[1] != copies.Notes[1])
	is.Equal(got.Labels["key"], "") // the key has changed too
	is.Equal(got.Hash, copies.Hash)
	theirs, ours := got.Any.(bson.D), copies.Any.(bson.D)
	is.True(theirs[0].Key != ours[0].Key && theirs[0].Value != ours[0].Value)
	is.Equal(theirs[1].Value, ours[1].Value)

	again, err := DecodeParams(raw(t, bson.D{{Key: "id", Value: "text"}}), decodeInvoice) // a decoder used before
	is.NoErr(err)
	is.Equal(again.ID, "text")
}

// A listener's option, or the service's default, reaches its decoder.
func TestHandle_7_3_ZeroCopy(t *testing.T) {
	t.Parallel()
	v := raw(t, bson.D{{Key: "id", Value: "text"}})
	for name, c := range map[string]struct {
		defaults, own []Option
		want          bool
	}{
		"by default": {nil, nil, false},
		"listener":   {nil, []Option{ZeroCopy(true)}, true},
		"service":    {[]Option{ZeroCopy(true)}, nil, true},
		"taken back": {[]Option{ZeroCopy(true)}, []Option{ZeroCopy(false)}, false},
	} {
		is := is.New(t)
		for _, listen := range []func(keep func(invoice)) Listener{
			func(keep func(invoice)) Listener {
				return On("t", func(_ context.Context, p invoice) error { keep(p); return nil }, decodeInvoice, c.own...)
			},
			func(keep func(invoice)) Listener {
				return OnItem("t", func(_ context.Context, i Item[invoice]) error { keep(i.Params); return nil }, decodeInvoice, c.own...)
			},
			func(keep func(invoice)) Listener {
				return OnBatch("t", 5, func(_ context.Context, items []Item[invoice]) error { keep(items[0].Params); return nil }, decodeInvoice, c.own...)
			},
		} {
			inside := false
			l := listen(func(p invoice) {
				at := uintptr(unsafe.Pointer(unsafe.StringData(p.ID)))
				first := uintptr(unsafe.Pointer(unsafe.SliceData(v.Value)))
				inside = at >= first && at < first+uintptr(len(v.Value))
			})
			a := newApp(t, Config{Pulse: pulseConfig(), Defaults: c.defaults}, service{l})
			is.NoErr(a.Handle(t.Context(), "t", []Message{{Params: v}}))
			if inside != c.want {
				t.Errorf("%s, %s: in the payload: %v", name, l.kind, inside)
			}
		}
	}
}

func TestDecode_7_3_RawIsCheckedAtEveryLevel(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	v := raw(t, bson.D{{Key: "a", Value: bson.A{bson.D{{Key: "b", Value: "text"}}}}})
	at := strings.Index(string(v.Value), "text") - 4
	v.Value[at] = 77
	_, err := DecodeParams(v, (*Decoder).Raw)
	is.Equal(err.Error(), "a[0].b: malformed BSON")
	_, err = DecodeParams(v, (*Decoder).RawValue)
	is.Equal(err.Error(), "a[0].b: malformed BSON")
}

func TestDecode_7_3_ArraysWithHolesKeepTheirOrder(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	doc, err := bson.Marshal(bson.D{{Key: "7", Value: "a"}, {Key: "7", Value: "b"}, {Key: "x", Value: "c"}})
	is.NoErr(err)
	got, err := DecodeParams(bson.RawValue{Type: bson.TypeArray, Value: doc}, func(d *Decoder, p *[]string) { Slice(d, p, (*Decoder).String) })
	is.NoErr(err)
	is.Equal(got, []string{"a", "b", "c"})
}

func TestDecode_7_3_ErrorNamesTopicAndEvent(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	err := &DecodeError{Topic: "invoice.created", EventID: "ev-1", Path: "lines[0].price", Err: errors.New("want float64, got string")}
	is.Equal(err.Error(), "echoes: topic invoice.created, event ev-1: lines[0].price: want float64, got string")
}

func TestDecode_7_3_PreallocationIsBounded(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	// 100,000 nulls announce 100,000 elements of 4 KiB; the first of them is
	// wrong, so nothing but the first allocation is made.
	list := make(bson.A, 100_000)
	list[0] = "x"
	v := raw(t, list)
	type big [4096]byte
	result := testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		for range b.N {
			_, err := DecodeParams(v, func(d *Decoder, p *[]big) { Slice(d, p, func(d *Decoder, p *big) { d.ByteArray(p[:]) }) })
			if err == nil {
				b.Fatal("accepted")
			}
		}
	})
	is.True(result.AllocedBytesPerOp() < 2*firstAlloc)
}
