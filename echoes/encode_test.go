package echoes

import (
	"errors"
	"math"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"
	"go.mongodb.org/mongo-driver/v2/bson"
	"pgregory.net/rapid"
)

func encoded[P any](t testing.TB, p P, encode func(*Encoder, *P)) bson.RawValue {
	t.Helper()
	v, err := EncodeParams(&p, encode)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// text draws valid text, some of it with what needs care.
func anyText() *rapid.Generator[string] {
	return rapid.OneOf(rapid.StringN(0, 12, -1), rapid.SampledFrom([]string{"", "\x00", "ü", "\U0001F600", "a\x00b"}))
}

func mapKey() *rapid.Generator[string] { return rapid.StringMatching(`[a-zé$_. ]{0,6}`) }

func date() *rapid.Generator[time.Time] {
	first, last := time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(9999, 12, 31, 23, 59, 59, 999e6, time.UTC)
	return rapid.Map(rapid.Int64Range(first.UnixMilli(), last.UnixMilli()), func(ms int64) time.Time { return time.UnixMilli(ms).UTC() })
}

// or draws nil, or a value.
func or[T any](t *rapid.T, g *rapid.Generator[T], label string) *T {
	if !rapid.Bool().Draw(t, label+" there") {
		return nil
	}
	v := g.Draw(t, label)
	return &v
}

// slice draws nil, an empty slice or one with elements.
func slice[T any](t *rapid.T, g *rapid.Generator[T], label string) []T {
	if !rapid.Bool().Draw(t, label+" there") {
		return nil
	}
	return append([]T{}, rapid.SliceOfN(g, 0, 4).Draw(t, label)...)
}

// mapOf draws nil, or a map with at most the given number of keys. The driver
// encodes a map in any order, so only up to one key can be compared with it.
func mapOf[T any](t *rapid.T, g *rapid.Generator[T], most int, label string) map[string]T {
	if !rapid.Bool().Draw(t, label+" there") {
		return nil
	}
	return rapid.MapOfN(mapKey(), g, 0, most).Draw(t, label)
}

func drawCustomer(t *rapid.T, most int) customer {
	tags := mapOf(t, rapid.Ptr(rapid.Map(rapid.Int16(), func(n int16) level { return level(n) }), true), most, "tags")
	return customer{Name: anyText().Draw(t, "name"), Email: or(t, anyText(), "email"), Tags: tags}
}

func drawInvoice(t *rapid.T, most int) invoice {
	lines := rapid.Custom(func(t *rapid.T) line {
		return line{
			SKU: anyText().Draw(t, "sku"), Quantity: rapid.Int().Draw(t, "quantity"), Price: rapid.Float64().Draw(t, "price"),
			Discount: or(t, rapid.Int64(), "discount"), Gift: rapid.Bool().Draw(t, "gift"),
		}
	})
	anything := rapid.SampledFrom([]any{
		nil, "x", int32(1), int64(1) << 40, 2.5, true,
		bson.D{{Key: "a", Value: bson.A{int32(1), nil}}},
		bson.A{},
		bson.D{},
		bson.DateTime(1e12),
		bson.ObjectID{1},
		bson.Binary{Data: []byte{1, 2}},
		bson.Binary{Subtype: 4, Data: make([]byte, 16)},
		bson.Timestamp{T: 1, I: 2},
		bson.Regex{Pattern: "a", Options: "i"},
		bson.MinKey{},
		bson.JavaScript("f()"), bson.Symbol("s"),
		bson.CodeWithScope{Code: "f()", Scope: bson.D{{Key: "a", Value: int32(1)}}},
	})
	c := rapid.Custom(func(t *rapid.T) customer { return drawCustomer(t, most) })
	var axes [3]int
	for i := range axes {
		axes[i] = rapid.Int().Draw(t, "axis")
	}
	return invoice{
		ID: anyText().Draw(t, "id"), Number: rapid.Int64().Draw(t, "number"), Small: rapid.Int8().Draw(t, "small"),
		Count: rapid.Uint32().Draw(t, "count"), Big: rapid.Uint64Max(math.MaxInt64).Draw(t, "big"), Level: level(rapid.Int16().Draw(t, "level")),
		Rate: rapid.Float64().Draw(t, "rate"), Ratio: rapid.Float32().Draw(t, "ratio"), Paid: rapid.Bool().Draw(t, "paid"),
		Total:  bson.NewDecimal128(rapid.Uint64Max(0x3041<<48).Draw(t, "high"), rapid.Uint64().Draw(t, "low")),
		Issued: date().Draw(t, "issued"), Due: or(t, date(), "due"), Span: time.Duration(rapid.Int64().Draw(t, "span")),
		Ref: bson.ObjectID(rapid.SliceOfN(rapid.Byte(), 12, 12).Draw(t, "ref")), Hash: slice(t, rapid.Byte(), "hash"),
		Customer: c.Draw(t, "customer"), Parent: or(t, c, "parent"), Lines: slice(t, lines, "lines"),
		Labels: mapOf(t, anyText(), most, "labels"), Notes: slice(t, anyText(), "notes"), Axes: axes,
		Grid: slice(t, rapid.Custom(func(t *rapid.T) []int { return slice(t, rapid.Int(), "row") }), "grid"),
		Any:  anything.Draw(t, "any"), Extra: mapOf(t, anything, most, "extra"),
	}
}

func TestEncode_7_9_SameBytesAsTheDriver(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		inv := drawInvoice(t, 1)
		want, err := bson.Marshal(inv)
		if err != nil {
			t.Fatal(err)
		}
		got, err := EncodeParams(&inv, encodeInvoice)
		if err != nil {
			t.Fatal(err)
		}
		if got.Type != bson.TypeEmbeddedDocument || !reflect.DeepEqual(got.Value, want) {
			t.Fatalf("got  %v\nwant %v", bson.Raw(got.Value), bson.Raw(want))
		}
	})
}

func TestEncode_7_9_DecodeGivesTheValueBack(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		inv := drawInvoice(t, 4)
		v, err := EncodeParams(&inv, encodeInvoice)
		if err != nil {
			t.Fatal(err)
		}
		back, err := DecodeParams(v, decodeInvoice)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(back, inv) {
			t.Fatalf("got  %#v\nwant %#v", back, inv)
		}
		again, err := EncodeParams(&inv, encodeInvoice)
		if err != nil || !again.Equal(v) {
			t.Fatal("the second encoding of one value differs")
		}
	})
}

func TestEncode_7_9_MapsAreSorted(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	m := map[string]map[string]int{"b": {"z": 1, "y": 2, "x": 3}, "a": {}, "c": nil}
	inner := func(e *Encoder, p *map[string]int) { EncodeMap(e, p, (*Encoder).Int) }
	v := encoded(t, m, func(e *Encoder, p *map[string]map[string]int) { EncodeMap(e, p, inner) })
	is.Equal(bson.Raw(v.Value).String(), `{"a": {},"b": {"x": {"$numberInt":"3"},"y": {"$numberInt":"2"},"z": {"$numberInt":"1"}},"c": null}`)
}

func TestEncode_7_9_ValuesThatAreNoDocuments(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	is.Equal(encoded(t, "x", (*Encoder).String), raw(t, "x"))
	is.Equal(encoded(t, []int{1, 2}, func(e *Encoder, p *[]int) { EncodeSlice(e, p, (*Encoder).Int) }), raw(t, []int{1, 2}))
	is.Equal(encoded(t, []int(nil), func(e *Encoder, p *[]int) { EncodeSlice(e, p, (*Encoder).Int) }).Type, bson.TypeNull)
	is.Equal(encoded(t, bson.RawValue{}, (*Encoder).RawValue).Type, bson.TypeNull)
	is.Equal(encoded(t, bson.Raw(nil), (*Encoder).Raw).Type, bson.TypeNull)
	is.Equal(encoded(t, netip.MustParseAddr("10.1.2.3"), EncodeText[netip.Addr]), raw(t, "10.1.2.3"))
	is.Equal(encoded(t, [4]byte{1, 2, 3, 4}, func(e *Encoder, p *[4]byte) { e.ByteArray(p[:]) }), raw(t, [4]byte{1, 2, 3, 4}))
}

func TestEncode_7_9_ManyNeighboursAreNoDepth(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	inv := invoice{Lines: make([]line, 2*maxDepth)}
	is.Equal(encoded(t, inv, encodeInvoice), raw(t, inv))
}

func TestEncode_7_9_MinSize(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	type sizes struct {
		A int64           `bson:"a,minsize"`
		B int64           `bson:"b,minsize"`
		C []uint64        `bson:"c,minsize"`
		D uint            `bson:"d"`
		E time.Duration   `bson:"e,minsize"`
		F map[string]uint `bson:"f,minsize"`
	}
	s := sizes{A: 1, B: 1 << 40, C: []uint64{1, 1 << 40}, D: 1, E: 1, F: map[string]uint{"x": 2}}
	v := encoded(t, s, func(e *Encoder, p *sizes) {
		start := e.Begin()
		e.MinSize(true)
		e.Key("a")
		e.Int64(&p.A)
		e.Key("b")
		e.Int64(&p.B)
		e.Key("c")
		EncodeSlice(e, &p.C, (*Encoder).Uint64)
		e.MinSize(false)
		e.Key("d")
		e.Uint(&p.D)
		e.MinSize(true)
		e.Key("e")
		e.Duration(&p.E)
		e.Key("f")
		EncodeMap(e, &p.F, (*Encoder).Uint)
		e.MinSize(false)
		e.End(start)
	})
	is.Equal(v, raw(t, s))
}

func TestEncode_7_9_InlineMap(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	type open struct {
		ID   string         `bson:"id"`
		Rest map[string]any `bson:",inline"`
	}
	encode := func(e *Encoder, p *open) {
		start := e.Begin()
		e.Key("id")
		e.String(&p.ID)
		EncodeInline(e, &p.Rest, (*Encoder).Any, "id")
		e.End(start)
	}
	one := open{ID: "1", Rest: map[string]any{"x": "y"}}
	is.Equal(encoded(t, one, encode), raw(t, one))
	is.Equal(encoded(t, open{ID: "1"}, encode), raw(t, open{ID: "1"}))
	_, err := EncodeParams(&open{Rest: map[string]any{"id": 1}}, encode)
	is.Equal(err.Error(), "id: the inline map has the key of a field")
}

// marshals writes what it is told to.
type marshals struct {
	t   byte
	b   []byte
	err error
}

func (m *marshals) MarshalBSONValue() (byte, []byte, error) { return m.t, m.b, m.err }

func encodeMarshals(e *Encoder, p *marshals) { e.Value(p.MarshalBSONValue()) }

var errTeapot = errors.New("a teapot")

func TestEncode_7_9_ProblemsHaveAPath(t *testing.T) {
	t.Parallel()
	bad := "caf\xe9"
	inDoc := func(key string, encode func(*Encoder)) func() error {
		return func() error {
			_, err := EncodeParams(new(int), func(e *Encoder, _ *int) {
				start := e.Begin()
				e.Key("first")
				e.M(&bson.M{"k": 1})
				e.Key(key)
				encode(e)
				e.End(start)
			})
			return err
		}
	}
	strict := func(l strictLine) func() error {
		return func() error { _, err := EncodeParams(&l, encodeStrictLine); return err }
	}
	loop := &strictLine{}
	loop.Sub = loop
	for name, c := range map[string]struct {
		encode func() error
		want   string
	}{
		"text at the top": {func() error { _, err := EncodeParams(&bad, (*Encoder).String); return err }, "params: the string is not valid UTF-8 (at byte 3): binary data belongs in a []byte"},
		"text inside": {func() error {
			inv := invoice{Lines: []line{{}, {SKU: bad}}}
			_, err := EncodeParams(&inv, encodeInvoice)
			return err
		}, "lines[1].sku: the string is not valid UTF-8 (at byte 3)"},
		"text in a map in an array in a map": {inDoc("a b", func(e *Encoder) { e.M(&bson.M{"k": bson.A{1, map[string]string{"x": "", "y": bad}}}) }), `["a b"].k[1].y: the string is`},
		"key of a map":                       {inDoc("labels", func(e *Encoder) { m := map[string]int{bad: 1}; EncodeMap(e, &m, (*Encoder).Int) }), "labels[\"caf\uFFFD\"]: the key is not valid UTF-8 (at byte 3)"},
		"NUL in a key":                       {inDoc("d", func(e *Encoder) { e.D(&bson.D{{Key: "a\x00b"}}) }), "d[\"a\uFFFDb\"]: the key contains a NUL byte"},
		"year too large":                     {inDoc("at", func(e *Encoder) { t := time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC); e.Time(&t) }), "at: the year 10000 is outside of 0 to 9999"},
		"year by its zone":                   {inDoc("at", func(e *Encoder) { t := time.Date(0, 1, 1, 0, 0, 0, 0, time.FixedZone("", 3600)); e.Time(&t) }), "at: the year -1 is outside of 0 to 9999"},
		"date of the driver":                 {inDoc("at", func(e *Encoder) { var a any = bson.DateTime(math.MaxInt64); e.Any(&a) }), "at: the year 292278994 is outside of 0 to 9999"},
		"unsigned":                           {inDoc("n", func(e *Encoder) { n := uint64(math.MaxUint64); e.Uint64(&n) }), "n: 18446744073709551615 is more than an int64 holds"},
		"required":                           {inDoc("lines", func(e *Encoder) { e.Required(false); e.M(new(bson.M)) }), "lines: the field is required, and nil"},
		"validate":                           {strict(strictLine{Price: -1}), "params: price must not be negative"},
		"validate inside":                    {strict(strictLine{Rows: []strictLine{{}, {Sub: &strictLine{Price: -1}}}}), "rows[1].sub: price must not be negative"},
		"validate an element":                {strict(strictLine{Rows: []strictLine{{}, {Price: -1}}}), "rows[1]: price must not be negative"},
		"no end":                             {strict(*loop), strings.Repeat("sub.", 50) + "…sub" + strings.Repeat(".sub", 18) + ": nested deeper than 200 levels"},
		"own error":                          {inDoc("v", func(e *Encoder) { encodeMarshals(e, &marshals{err: errTeapot}) }), "v: a teapot"},
		"own bytes are none":                 {inDoc("v", func(e *Encoder) { encodeMarshals(e, &marshals{t: byte(bson.TypeString), b: []byte{9}}) }), "v: malformed BSON"},
		"own document is malformed inside": {inDoc("v", func(e *Encoder) {
			e.Document([]byte("\x10\x00\x00\x00\x03a\x00\x08\x00\x00\x00\x08b\x00\x01\x00"), nil)
		}), "v.a: malformed BSON"},
		"no type":                  {inDoc("v", func(e *Encoder) { e.RawValue(&bson.RawValue{Type: 0x42}) }), "v: malformed BSON"},
		"text of a type":           {inDoc("v", func(e *Encoder) { EncodeText(e, &teapot{}) }), "v: a teapot"},
		"panic":                    {inDoc("v", func(*Encoder) { panic("no encoding today") }), "v: its encoding panicked: no encoding today"},
		"no encoder of the driver": {inDoc("v", func(e *Encoder) { var a any = make(chan int); e.Any(&a) }), "v: no encoder found for chan int"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := c.encode()
			var problem *EncodeError
			if !errors.As(err, &problem) || !strings.HasPrefix(err.Error(), c.want) {
				t.Errorf("got  %v\nwant %s", err, c.want)
			}
		})
	}
}

type teapot struct{}

func (*teapot) MarshalText() ([]byte, error) { return nil, errTeapot }

func TestEncode_7_9_TheReasonStaysReachable(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	_, err := EncodeParams(&strictLine{Rows: []strictLine{{Price: -1}}}, encodeStrictLine)
	is.True(errors.Is(err, errNegative))
	_, err = EncodeParams(&strictLine{Sub: &strictLine{}}, encodeStrictLine)
	is.NoErr(err) // the buffer's next user has no problem
}

func TestEncode_7_9_AllocatesOnce(t *testing.T) {
	is := is.New(t)
	inv := sampleInvoice(t)
	inv.Any, inv.Extra, inv.Customer.Tags = nil, nil, nil
	if raceEnabled {
		return // the race detector lets pools forget
	}
	ours := testing.AllocsPerRun(100, func() { _, _ = EncodeParams(&inv, encodeInvoice) })
	driver := testing.AllocsPerRun(100, func() { _, _ = bson.Marshal(&inv) })
	t.Logf("%.0f allocations, the driver %.0f", ours, driver)
	is.True(ours <= 2) // the result, and the value that a map lends
}

func BenchmarkEncode(b *testing.B) {
	inv := sampleInvoice(b)
	b.Run("invoice/echoes", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := EncodeParams(&inv, encodeInvoice); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("invoice/driver", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := bson.Marshal(&inv); err != nil {
				b.Fatal(err)
			}
		}
	})
	small := line{SKU: "a", Quantity: 1, Price: 2.5, Gift: true}
	b.Run("small/echoes", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := EncodeParams(&small, encodeLine); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("small/driver", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := bson.Marshal(&small); err != nil {
				b.Fatal(err)
			}
		}
	})
}
