package everykind

import (
	"encoding/json"
	"net/netip"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"pgregory.net/rapid"

	"github.com/orionjs/orion-go/echoes"
)

// drawn are generators for types that are not made of others.
var drawn = map[reflect.Type]*rapid.Generator[any]{
	reflect.TypeFor[bson.Decimal128](): rapid.Map(rapid.StringMatching(`-?[1-9][0-9]{0,20}(E[+-]?[1-9])?`), func(s string) any {
		d, err := bson.ParseDecimal128(s)
		if err != nil {
			return bson.Decimal128{}
		}
		return d
	}),
	reflect.TypeFor[time.Time]():     boxed(rapid.Map(rapid.Int64Range(-1e15, 1e15), func(ms int64) bson.DateTime { return bson.DateTime(ms) })),
	reflect.TypeFor[bson.DateTime](): boxed(rapid.Map(rapid.Int64(), func(ms int64) bson.DateTime { return bson.DateTime(ms) })),
	reflect.TypeFor[time.Duration](): number(),
	reflect.TypeFor[bson.ObjectID](): boxed(rapid.Map(rapid.SliceOfN(rapid.Byte(), 12, 12), func(b []byte) bson.ObjectID { return bson.ObjectID(b) })),
	reflect.TypeFor[[]byte]():        boxed(rapid.SliceOfN(rapid.Byte(), 0, 6)),
	reflect.TypeFor[[4]byte]():       boxed(rapid.SliceOfN(rapid.Byte(), 3, 5)),
	reflect.TypeFor[any]():           free(2),
	reflect.TypeFor[bson.M]():        freeDocument(1),
	reflect.TypeFor[bson.D]():        freeDocument(1),
	reflect.TypeFor[bson.Raw]():      freeDocument(1),
	reflect.TypeFor[bson.RawValue](): free(1),
	reflect.TypeFor[json.Number]():   number(),
	reflect.TypeFor[url.URL]():       boxed(rapid.StringMatching(`(https?:)?//[a-z]{1,3}(:[0-9]{2})?(/[a-z%]{0,3})?(\?q=1)?`)),
	reflect.TypeFor[bson.Binary](): boxed(rapid.Custom(func(t *rapid.T) bson.Binary {
		return bson.Binary{Subtype: rapid.Byte().Draw(t, "subtype"), Data: []byte{1, 2}}
	})),
	reflect.TypeFor[bson.Symbol](): boxed(rapid.Map(text(), func(s any) bson.Symbol { return bson.Symbol(s.(string)) })),
	reflect.TypeFor[bson.JavaScript](): boxed(rapid.Map(text(), func(s any) bson.JavaScript {
		return bson.JavaScript(s.(string))
	})),
	reflect.TypeFor[bson.Timestamp](): boxed(rapid.Map(rapid.Uint32(), func(n uint32) bson.Timestamp { return bson.Timestamp{T: n, I: 1} })),
	reflect.TypeFor[bson.Regex]():     rapid.Just[any](bson.Regex{Pattern: "a", Options: "i"}),
	reflect.TypeFor[bson.DBPointer](): rapid.Just[any](bson.DBPointer{DB: "d"}),
	reflect.TypeFor[bson.CodeWithScope](): boxed(rapid.Map(freeDocument(1), func(d any) bson.CodeWithScope {
		return bson.CodeWithScope{Code: "c", Scope: d}
	})),
	reflect.TypeFor[bson.MinKey](): rapid.Just[any](bson.MinKey{}),
	reflect.TypeFor[bson.MaxKey](): rapid.Just[any](bson.MaxKey{}),
	reflect.TypeFor[netip.Addr]():  boxed(rapid.SampledFrom([]string{"::1", "10.0.0.1", "fe80::1%eth0", "nowhere"})),
	reflect.TypeFor[Code]():        boxed(rapid.SampledFrom([]string{"a", "b", "ab", ""})),
}

func boxed[T any](g *rapid.Generator[T]) *rapid.Generator[any] {
	return rapid.Map(g, func(v T) any { return v })
}

func text() *rapid.Generator[any] { return boxed(rapid.StringN(0, 4, -1)) }

func number() *rapid.Generator[any] {
	return rapid.OneOf(
		boxed(rapid.Int32Range(-3, 100)), boxed(rapid.Int64Range(0, 100)), boxed(rapid.Int32()), boxed(rapid.Int64()), boxed(rapid.Float64()),
		rapid.Map(rapid.Int32(), func(n int32) any { return float64(n) }), rapid.Map(rapid.Float32(), func(f float32) any { return float64(f) }),
	)
}

func free(depth int) *rapid.Generator[any] {
	return rapid.Deferred(func() *rapid.Generator[any] {
		all := []*rapid.Generator[any]{text(), number(), boxed(rapid.Bool()), rapid.Just[any](bson.MinKey{}), rapid.Just[any](bson.Timestamp{T: 1})}
		if depth > 0 {
			all = append(all, freeDocument(depth-1), rapid.Map(rapid.SliceOfN(free(depth-1), 0, 3), func(s []any) any { return bson.A(s) }))
		}
		return rapid.OneOf(all...)
	})
}

func freeDocument(depth int) *rapid.Generator[any] {
	return rapid.Custom(func(t *rapid.T) any {
		d := bson.D{}
		for range rapid.IntRange(0, 3).Draw(t, "fields") {
			d = append(d, bson.E{Key: rapid.StringMatching(`[a-c]{0,2}`).Draw(t, "key"), Value: free(depth).Draw(t, "value")})
		}
		return d
	})
}

// draw draws a BSON value for a Go type: one that mostly suits, null at times,
// fields and keys repeated at times.
func draw(t *rapid.T, typ reflect.Type, depth int) any {
	if rapid.IntRange(0, 9).Draw(t, "null") == 0 {
		return nil
	}
	if g, ok := drawn[typ]; ok {
		return g.Draw(t, typ.String())
	}
	switch typ.Kind() {
	case reflect.String:
		return text().Draw(t, "text")
	case reflect.Bool:
		return rapid.Bool().Draw(t, "bool")
	case reflect.Pointer:
		return draw(t, typ.Elem(), depth)
	case reflect.Slice, reflect.Array:
		out := bson.A{}
		for range rapid.IntRange(0, 3).Draw(t, "elements") {
			out = append(out, draw(t, typ.Elem(), depth-1))
		}
		return out
	case reflect.Map:
		out := bson.D{}
		for range rapid.IntRange(0, 3).Draw(t, "keys") {
			out = append(out, bson.E{Key: drawKey(t, typ.Key()), Value: draw(t, typ.Elem(), depth-1)})
		}
		return out
	case reflect.Struct:
		if depth <= 0 {
			return bson.D{}
		}
		return drawFields(t, typ, depth, 3)
	default:
		return number().Draw(t, "number")
	}
}

// drawFields draws fields of a struct, some of them repeated. Arrays are not: the
// driver leaves the rest of the first behind a shorter second one. Nor are free
// lists: behind one with a null the driver panics.
func drawFields(t *rapid.T, typ reflect.Type, depth, most int) bson.D {
	out := bson.D{}
	fields := keysOf(typ)
	for range rapid.IntRange(0, most).Draw(t, "fields") {
		f := rapid.SampledFrom(fields).Draw(t, "field")
		if (f.typ.Kind() == reflect.Array || f.typ == reflect.TypeFor[bson.A]()) && slices.ContainsFunc(out, func(e bson.E) bool { return e.Key == f.key }) {
			continue
		}
		out = append(out, bson.E{Key: f.key, Value: draw(t, f.typ, depth-1)})
	}
	return out
}

func drawKey(t *rapid.T, typ reflect.Type) string {
	switch g, ok := drawn[typ]; {
	case ok:
		return g.Draw(t, "key").(string)
	case typ.Kind() == reflect.String:
		return rapid.StringMatching(`[a-c]{0,2}`).Draw(t, "key")
	default:
		return rapid.StringMatching(`-?[0-9]{1,5}`).Draw(t, "key")
	}
}

type keyed struct {
	key string
	typ reflect.Type
}

// keysOf are the fields of a document for a struct, and an unknown one.
func keysOf(typ reflect.Type) []keyed {
	out := []keyed{{"unknown", reflect.TypeFor[any]()}}
	for i := range typ.NumField() {
		f := typ.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("bson"), ",")
		switch {
		case name == "-":
		case strings.Contains(options, "inline"):
			inner := f.Type
			if inner.Kind() == reflect.Pointer {
				inner = inner.Elem()
			}
			if inner.Kind() == reflect.Struct {
				out = append(out, keysOf(inner)[1:]...)
			}
		case name != "":
			out = append(out, keyed{name, f.Type})
		default:
			out = append(out, keyed{strings.ToLower(f.Name), f.Type})
		}
	}
	return out
}

// lossy are the parts of our errors that say why a value is refused that the
// driver takes by losing something, or by making something up.
var lossy = []string{"without loss", "out of range", "not a whole number", "not valid UTF-8", "want 4 bytes"}

// perCheck is how many documents a check draws: the test is worth more than a
// hundred, which is what rapid tries by default.
const perCheck = 25

func TestDecode_7_3_RandomDocumentsAsTheDriver(t *testing.T) {
	t.Parallel()
	accepted, refused := 0, 0
	compared := make(map[string]bool)
	rapid.Check(t, func(t *rapid.T) {
		for range perCheck {
			doc := drawFields(t, reflect.TypeFor[Shared](), 4, 8)
			switch outcome := compare(t, doc); outcome {
			case "equal":
				accepted++
				for _, e := range doc {
					compared[e.Key] = true
				}
			case "refused":
				refused++
			}
		}
	})
	t.Logf("%d documents accepted, %d refused that the driver takes with a loss", accepted, refused)
	for _, f := range keysOf(reflect.TypeFor[Shared]()) {
		if !compared[f.key] {
			t.Errorf("no document with %s was accepted: nothing is proved for it", f.key)
		}
	}
	if refused == 0 {
		t.Error("no document was refused that the driver takes: the generators are too tame")
	}
}

// compare decodes a document in both ways. It returns "equal", "refused" when
// only the driver accepts it and loses something, or "" when both refuse.
func compare(t *rapid.T, doc bson.D) string {
	b, err := bson.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	ours, theirs, err, driver := both(b)
	switch {
	case err == nil && driver != nil && widerThanDriver(driver) != "":
		return ""
	case err == nil && driver != nil:
		t.Fatalf("only ours accepts: %v\n%v", driver, doc)
	case err == nil:
		if d := difference(ours, theirs); d != "" {
			t.Fatalf("ours and the driver's: %s\n%v", d, doc)
		}
		return "equal"
	case driver == nil:
		if !slices.ContainsFunc(lossy, func(part string) bool { return strings.Contains(err.Error(), part) }) {
			t.Fatalf("only the driver accepts: %v\n%v", err, doc)
		}
		return "refused"
	}
	return ""
}

// TestDecode_7_3_RandomValuesSurvive stores values with the driver and reads them
// back.
func TestDecode_7_3_RandomValuesSurvive(t *testing.T) {
	t.Parallel()
	base := sampleShared(t)
	rapid.Check(t, func(t *rapid.T) {
		in := base
		in.Text, in.Name = rapid.String().Draw(t, "text"), Name(rapid.String().Draw(t, "name"))
		in.Int, in.Int8, in.Uint32 = rapid.Int().Draw(t, "int"), rapid.Int8().Draw(t, "int8"), rapid.Uint32().Draw(t, "uint32")
		in.Float32, in.Float64 = rapid.Float32().Draw(t, "float32"), rapid.Float64().Draw(t, "float64")
		in.Date = bson.DateTime(rapid.Int64().Draw(t, "date"))
		in.Time = time.UnixMilli(rapid.Int64Range(-1e14, 1e14).Draw(t, "time")).UTC()
		in.Duration = time.Duration(rapid.Int64().Draw(t, "duration"))
		in.Bytes, in.List = rapid.SliceOf(rapid.Byte()).Draw(t, "bytes"), rapid.SliceOf(rapid.String()).Draw(t, "list")
		in.Map = rapid.MapOf(rapid.StringMatching(`[a-z.$]*`), rapid.Int()).Draw(t, "map")
		in.ByInt = rapid.MapOf(rapid.Int8(), rapid.String()).Draw(t, "by int")
		in.ByUint = rapid.MapOf(rapid.Uint16(), rapid.String()).Draw(t, "by uint")
		in.Pointer = rapid.SampledFrom([]*string{nil, ptr(""), ptr("x")}).Draw(t, "pointer")
		b, err := bson.Marshal(in)
		if err != nil {
			t.Fatal(err)
		}
		got, err := echoes.DecodeParams(document(b), decodeShared)
		if err != nil {
			t.Fatal(err)
		}
		if d := difference(got, in); d != "" {
			t.Fatalf("what was stored and what is read: %s", d)
		}
	})
}
