package everykind

import (
	"errors"
	"math"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/matryer/is"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/orionjs/orion-go/echoes"
)

// row tries one row of the table of types: values that a field accepts, and
// values that it refuses, with the error's text.
type row struct {
	accepts []bson.E
	refuses []refused
}

type refused struct {
	key   string
	value any
	want  string
}

// ownError stands for an error that the table leaves to the type.
const ownError = "\x00"

// rows are keyed by the first column.
func rows(t *testing.T) map[string]row {
	id := bson.ObjectID{1}
	hex := "0123456789abcdef01234567"
	text := func(key string) []bson.E { return []bson.E{{Key: key, Value: "x"}, {Key: key, Value: ""}} }
	numbers := func(key string) []bson.E {
		return []bson.E{{Key: key, Value: int32(7)}, {Key: key, Value: int64(7)}, {Key: key, Value: 7.0}, {Key: key, Value: decimal(t, "7.0")}}
	}
	document, array := bson.D{{Key: "1", Value: "1"}}, bson.A{nil}
	return map[string]row{
		"`string` and types made of it": {
			slices.Concat(text("text"), text("name")),
			[]refused{{"text", 5, "want string, got int32"}, {"name", bson.Symbol("s"), "want string, got symbol"}, {"text", "\xff", "the string is not valid UTF-8 (at byte 0)"}},
		},
		"`bool` and types made of it": {[]bson.E{{Key: "flag", Value: true}}, []refused{{"flag", 1, "want bool, got int32"}}},
		"`int`…`int64`, `uint`…`uint64` and types made of them": {
			slices.Concat(numbers("int"), numbers("int8"), numbers("uint64"), numbers("level"), []bson.E{{Key: "int64", Value: math.MinInt64}}),
			[]refused{
				{"int8", 300, "want int8, got int32 300, which is out of range"},
				{"int8", 1.5, "want int8, got double 1.5, which is not a whole number"},
				{"uint", -1, "want uint64, got int32 -1, which is out of range"},
				{"int64", float64(1 << 63), "want int64, got double 9.223372036854776e+18, which is out of range"},
				{"int", math.NaN(), "want int64, got double NaN, which is not a whole number"},
				{"level", "1", "want int16, got string"},
			},
		},
		"`float64`, `float32` and types made of them": {
			slices.Concat(numbers("float64"), numbers("float32"), []bson.E{
				{Key: "float64", Value: math.Inf(-1)}, {Key: "float32", Value: math.NaN()}, {Key: "float64", Value: decimal(t, "0.1")}, {Key: "float32", Value: decimal(t, "0.1")},
			}),
			[]refused{
				{"float32", 0.1, "want float32, got double 0.1, which it cannot hold without loss"},
				{"float64", int64(1<<53 + 1), "want float64, got int64 9007199254740993, which it cannot hold without loss"},
				{"float64", decimal(t, "0.10000000000000000001"), "which it cannot hold without loss"},
				{"float64", true, "want float64, got bool"},
			},
		},
		"`bson.Decimal128`": {numbers("decimal"), []refused{{"decimal", "1", "want decimal128, got string"}}},
		"`time.Time`": {
			[]bson.E{{Key: "time", Value: bson.DateTime(-1)}, {Key: "time", Value: "2026-01-02T03:04:05.000000006+01:00"}},
			[]refused{{"time", int64(0), "want date or RFC 3339 text, got int64"}, {"time", "2026-01-02", `want date or RFC 3339 text, got string "2026-01-02"`}},
		},
		"`bson.DateTime`": {
			[]bson.E{{Key: "date", Value: bson.DateTime(math.MinInt64)}, {Key: "date", Value: "2026-01-02T03:04:05.006Z"}},
			[]refused{{"date", "2026-01-02T03:04:05.0000001Z", `a date has milliseconds, got "2026-01-02T03:04:05.0000001Z"`}},
		},
		"`time.Duration`": {
			append(numbers("duration"), bson.E{Key: "duration", Value: "1m30s"}),
			[]refused{{"duration", "soon", `want a duration like 1m30s, got string "soon"`}, {"duration", 0.5, "which is not a whole number"}},
		},
		"`bson.ObjectID`": {
			[]bson.E{{Key: "id", Value: id}, {Key: "id", Value: hex}},
			[]refused{{"id", "1", `want objectId or its 24 hexadecimal digits, got string "1"`}},
		},
		"`[]byte` and types made of it": {
			[]bson.E{{Key: "bytes", Value: []byte{}}, {Key: "bytes", Value: bson.Binary{Subtype: 2, Data: []byte{1}}}},
			[]refused{{"bytes", bson.Binary{Subtype: 5}, "want binary of subtype 0 or 2, got subtype 5"}, {"bytes", "x", "want binary, got string"}},
		},
		"`[N]byte`": {[]bson.E{{Key: "hash", Value: []byte{1, 2, 3, 4}}}, []refused{{"hash", []byte{1, 2, 3}, "want 4 bytes, got 3"}}},
		"`[]E`": {
			[]bson.E{{Key: "list", Value: bson.A{}}, {Key: "list", Value: bson.A{"a", nil, bson.Undefined{}}}},
			[]refused{{"list", bson.D{}, "want array, got document"}, {"list", bson.A{"a", 1}, "list[1]: want string, got int32"}},
		},
		"`[N]E`": {[]bson.E{{Key: "triple", Value: bson.A{1}}}, []refused{{"triple", bson.A{1, 2, 3, 4}, "want at most 3 elements, got more"}}},
		"`map[K]V`, K a kind of string": {
			[]bson.E{{Key: "map", Value: bson.D{}}, {Key: "named", Value: bson.D{{Key: "a.b", Value: nil}}}},
			[]refused{{"map", bson.D{{Key: "\xff", Value: 1}}, "the key is not valid UTF-8 (at byte 0)"}, {"map", array, "want document, got array"}},
		},
		"`map[K]V`, K a kind of integer": {
			[]bson.E{{Key: "byint", Value: bson.D{{Key: "-7", Value: "x"}}}, {Key: "byuint", Value: document}},
			[]refused{{"byint", bson.D{{Key: "300", Value: "x"}}, `want a key that is an int8, got "300"`}, {"byuint", bson.D{{Key: "-1", Value: "x"}}, `want a key that is a uint16, got "-1"`}},
		},
		"`map[K]V`, K with `UnmarshalKey` or `UnmarshalText`": {
			[]bson.E{{Key: "byaddr", Value: bson.D{{Key: "::1", Value: true}}}, {Key: "bycode", Value: bson.D{{Key: "c", Value: 1}}}},
			[]refused{{"byaddr", bson.D{{Key: "x", Value: true}}, ownError}, {"bycode", bson.D{{Key: "cc", Value: 1}}, ownError}},
		},
		"`*P`": {[]bson.E{{Key: "pointer", Value: "x"}, {Key: "deep", Value: bson.D{}}}, []refused{{"pointer", 1, ownError}}},
		"structs, also without a name, recursive, instances of generic types": {
			[]bson.E{{Key: "part", Value: bson.D{}}, {Key: "tree", Value: bson.D{{Key: "children", Value: bson.A{bson.D{}}}}}, {Key: "local", Value: bson.D{{Key: "x", Value: bson.A{1}}}}, {Key: "page", Value: bson.D{{Key: "next", Value: bson.D{}}}}},
			[]refused{{"part", array, "want document, got array"}, {"page", bson.D{{Key: "items", Value: bson.A{bson.D{}, bson.D{{Key: "sku", Value: 1}}}}}, "page.items[1].sku: want string, got int32"}},
		},
		"`any`":              {[]bson.E{{Key: "any", Value: document}, {Key: "any", Value: id}}, nil},
		"`bson.M`, `bson.D`": {[]bson.E{{Key: "m", Value: document}, {Key: "d", Value: bson.D{}}}, []refused{{"m", array, "want document, got array"}, {"d", array, "want document, got array"}}},
		"`bson.A`":           {[]bson.E{{Key: "a", Value: bson.A{1, "x", nil}}}, []refused{{"a", "x", "want array, got string"}}},
		"`bson.Raw`":         {[]bson.E{{Key: "raw", Value: document}}, []refused{{"raw", array, "want document, got array"}}},
		"`bson.RawValue`":    {[]bson.E{{Key: "rawvalue", Value: document}, {Key: "rawvalue", Value: 1}}, nil},
		"`bson.Binary`, `Timestamp`, `Regex`, `JavaScript`, `CodeWithScope`, `Symbol`, `DBPointer`, `MinKey`, `MaxKey`": {
			[]bson.E{
				{Key: "binary", Value: bson.Binary{Subtype: 128, Data: []byte{}}},
				{Key: "timestamp", Value: bson.Timestamp{T: 1}},
				{Key: "regex", Value: bson.Regex{Pattern: "a"}},
				{Key: "script", Value: bson.JavaScript("a")},
				{Key: "scoped", Value: bson.CodeWithScope{Code: "a", Scope: bson.D{}}},
				{Key: "symbol", Value: bson.Symbol("a")},
				{Key: "dbpointer", Value: bson.DBPointer{}},
				{Key: "least", Value: bson.MinKey{}},
				{Key: "most", Value: bson.MaxKey{}},
			},
			[]refused{
				{"timestamp", bson.DateTime(1), "want timestamp, got date"},
				{"binary", "a", "want binary, got string"},
				{"regex", "a", "want regex, got string"},
				{"script", "a", "want javascript, got string"},
				{"scoped", "a", "want javascriptWithScope, got string"},
				{"symbol", "a", "want symbol, got string"},
				{"dbpointer", id, "want dbPointer, got objectId"},
				{"least", bson.MaxKey{}, "want minKey, got maxKey"},
				{"most", 1, "want maxKey, got int32"},
			},
		},
		"`json.Number`": {
			append(numbers("number"), bson.E{Key: "number", Value: decimal(t, "1E+3")}),
			[]refused{{"number", math.NaN(), "want a number, got double NaN, which JSON does not have"}, {"number", decimal(t, "Infinity"), "which JSON does not have"}, {"number", "1", "want a number, got string"}},
		},
		"`json.RawMessage`": {
			[]bson.E{{Key: "json", Value: document}, {Key: "json", Value: "x"}, {Key: "json", Value: []byte("[1]")}, {Key: "json", Value: 1.5}},
			[]refused{
				{"json", bson.Timestamp{}, "want a value that JSON has, got timestamp"},
				{"json", bson.A{bson.MinKey{}}, "json[0]: want a value that JSON has, got minKey"},
				{"json", []byte("{"), "the binary data is not JSON"},
				{"json", bson.D{{Key: "x", Value: math.Inf(1)}}, "json.x: want a number, got double +Inf, which JSON does not have"},
				{"json", bson.DateTime(math.MaxInt64), "the date has no RFC 3339 form"},
				{"json", bson.A{"\xff"}, "the string is not valid UTF-8"},
			},
		},
		"`big.Int`": {
			append(numbers("big"), bson.E{Key: "big", Value: "-123456789012345678901234567890"}, bson.E{Key: "bigptr", Value: decimal(t, "1E+6000")}, bson.E{Key: "big", Value: 1e300}),
			[]refused{
				{"big", 0.5, "want a whole number, got double 0.5, which is not a whole number"},
				{"big", decimal(t, "NaN"), "which is not a whole number"},
				{"big", decimal(t, "1E-1"), "which is not a whole number"},
				{"big", bson.D{}, "as which the driver stores types without exported fields"},
				{"bigptr", true, "want a whole number or its text, got bool"},
				{"big", "x", ownError},
			},
		},
		"`url.URL`": {[]bson.E{{Key: "url", Value: "https://a/b?c#d"}, {Key: "link", Value: ""}}, []refused{{"url", "%", ownError}, {"link", 1, ownError}}},
		"with `UnmarshalText` and no exported field (`netip.Addr`, `big.Float`)": {
			[]bson.E{{Key: "addr", Value: "::1"}, {Key: "addr", Value: []byte{127, 0, 0, 1}}, {Key: "float", Value: "1.5"}},
			[]refused{{"addr", bson.D{}, "want string, got an empty document, as which the driver stores types without exported fields: publish them as text"}, {"addr", "x", ownError}, {"float", 1.5, "want string, got double"}},
		},
		"with `UnmarshalText`, else (`uuid.UUID`, enums with text)": {
			[]bson.E{{Key: "uuid", Value: uuid.UUID{1}.String()}, {Key: "uuid", Value: uuid.UUID{1}}, {Key: "uuid", Value: bson.Binary{Subtype: 4, Data: make([]byte, 16)}}, {Key: "shade", Value: "b"}, {Key: "shade", Value: 7}},
			[]refused{{"uuid", "x", ownError}, {"shade", "bb", ownError}, {"shade", 256, ownError}},
		},
		"with `UnmarshalBSONValue(byte, []byte) error` or `UnmarshalBSON([]byte) error`": {
			[]bson.E{{Key: "money", Value: 5}, {Key: "sized", Value: document}},
			[]refused{{"money", "5", ownError}},
		},
		"`echoes:\"required\"`": {
			[]bson.E{{Key: "id", Value: "2"}},
			[]refused{{"id", nil, "required field is missing"}, {"status", nil, "status: required field is missing"}},
		},
		"`echoes:\"enum\"`": {
			[]bson.E{{Key: "status", Value: "paid"}, {Key: "rank", Value: 1}, {Key: "rank", Value: nil}, {Key: "statuses", Value: bson.D{{Key: "a", Value: bson.A{"open", nil}}}}, {Key: "month", Value: int64(1)}},
			[]refused{
				{"status", "lost", `want one of "open", "paid", got string "lost"`},
				{"status", "", `want one of "open", "paid", got string ""`},
				{"rank", 2, "want one of 1, 3, got int32 2"},
				{"month", 13.0, "got double 13"},
				{"statuses", bson.D{{Key: "a", Value: bson.A{"open", "x"}}}, `statuses.a[1]: want one of "open", "paid", got string "x"`},
				{"rank", "1", "want uint8, got string"},
			},
		},
		"`Validate() error`": {
			[]bson.E{{Key: "range", Value: nil}, {Key: "ranges", Value: bson.A{nil, bson.D{}}}, {Key: "percent", Value: 0}},
			[]refused{{"range", bson.D{{Key: "from", Value: 2}}, ownError}, {"ranges", bson.A{bson.D{{Key: "from", Value: 2}}}, ownError}, {"percent", 101, ownError}},
		},
	}
}

// tableRows reads the first and the last column of tables whose header begins
// with a word.
func tableRows(t *testing.T, first string) map[string]string {
	t.Helper()
	content, err := os.ReadFile("../../../docs/types.md")
	if err != nil {
		t.Fatal(err)
	}
	out := make(map[string]string)
	inTable := false
	for line := range strings.Lines(string(content)) {
		columns := strings.Split(strings.TrimSpace(line), " | ")
		switch {
		case !strings.HasPrefix(line, "|"):
			inTable = false
		case strings.HasPrefix(line, "| "+first+" |"):
			inTable = true
		case inTable && !strings.HasPrefix(line, "|-"):
			out[strings.TrimPrefix(columns[0], "| ")] = strings.TrimSuffix(columns[len(columns)-1], " |")
		}
	}
	return out
}

var quoted = regexp.MustCompile("`([^`]+)`")

// TestDecode_7_3_EveryRowOfTheTable tries each row of docs/types.md, and that the
// errors in it are the real ones.
func TestDecode_7_3_EveryRowOfTheTable(t *testing.T) {
	t.Parallel()
	documented := tableRows(t, "Go type")
	for name, text := range tableRows(t, "On") {
		documented[name] = text
	}
	tried := rows(t)
	for name := range documented {
		if _, ok := tried[name]; !ok {
			t.Errorf("no test for the row %s", name)
		}
	}
	for name, r := range tried {
		text, ok := documented[name]
		if !ok {
			t.Errorf("docs/types.md has no row %s", name)
			continue
		}
		t.Run(name, func(t *testing.T) {
			var errs []string
			for _, e := range r.accepts {
				if err := decodeField(t, e.Key, e.Value); err != nil {
					t.Errorf("%s %v: %v", e.Key, e.Value, err)
				}
			}
			for _, c := range r.refuses {
				err := decodeField(t, c.key, c.value)
				var problem *echoes.DecodeError
				if !errors.As(err, &problem) || c.want != ownError && !strings.Contains(err.Error(), c.want) || problem.Path == "" {
					t.Errorf("%s %v: got %v, want %s", c.key, c.value, err, c.want)
					continue
				}
				errs = append(errs, err.Error())
			}
			for _, m := range quoted.FindAllStringSubmatch(text, -1) {
				if !slices.ContainsFunc(errs, func(e string) bool { return strings.HasSuffix(e, m[1]) }) && strings.Contains(m[1], " ") {
					t.Errorf("no error is %q, as the table says: %q", m[1], errs)
				}
			}
		})
	}
}

// decodeField decodes a document with one field by the type that has it. The
// demands of Checked on its other fields are met.
func decodeField(t *testing.T, key string, value any) error {
	t.Helper()
	has := func(typ reflect.Type) bool {
		return slices.ContainsFunc(keysOf(typ), func(f keyed) bool { return f.key == key })
	}
	b := marshal(t, bson.D{{Key: key, Value: value}})
	var err error
	switch {
	case has(reflect.TypeFor[Checked]()) && key != "id" || key == "id" && (value == nil || value == "2"):
		doc := bson.D{{Key: key, Value: value}}
		for _, e := range []bson.E{{Key: "id", Value: "1"}, {Key: "status", Value: "open"}} {
			if e.Key != key {
				doc = append(doc, e)
			}
		}
		_, err = echoes.DecodeParams(document(marshal(t, doc)), decodeChecked)
	case has(reflect.TypeFor[Foreign]()):
		_, err = echoes.DecodeParams(document(b), decodeForeign)
	default:
		_, err = echoes.DecodeParams(document(b), decodeShared)
	}
	return err
}

// TestDecode_7_3_NullIsAbsent: null and undefined are the zero value for every
// field, also behind another value of the same key.
func TestDecode_7_3_NullIsAbsent(t *testing.T) {
	t.Parallel()
	nullIsAbsent(t, decodeShared, marshal(t, sampleShared(t)))
	nullIsAbsent(t, decodeForeign, marshal(t, sampleForeign(t)))
}

func nullIsAbsent[T any](t *testing.T, decode func(*echoes.Decoder, *T), sample []byte) {
	t.Helper()
	is := is.New(t)
	elements, err := bson.Raw(sample).Elements()
	is.NoErr(err)
	for _, e := range elements {
		if e.Key() == "rawvalue" || e.Key() == "else" || e.Key() == "country" {
			continue // keeps null; a key of the inline map; makes what is embedded
		}
		for _, null := range []any{nil, bson.Undefined{}} {
			for _, doc := range []bson.D{{{Key: e.Key(), Value: null}}, {{Key: e.Key(), Value: e.Value()}, {Key: e.Key(), Value: null}}} {
				got, err := echoes.DecodeParams(document(marshal(t, doc)), decode)
				is.NoErr(err)
				if d := difference(got, *new(T)); d != "" {
					t.Errorf("%v: %s", doc, d)
				}
			}
		}
	}
}

// TestDecode_7_3_ValidationCarriesPath: the error of a check, by value or by
// pointer, names the path and stays reachable.
func TestDecode_7_3_ValidationCarriesPath(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	err := decodeField(t, "ranges", bson.A{nil, bson.D{{Key: "from", Value: 2}, {Key: "to", Value: 1}}})
	is.True(errors.Is(err, ErrRange))
	is.Equal(err.Error(), "ranges[1]: from is after to")
	is.Equal(decodeField(t, "percent", -1).Error(), "percent: want 0 to 100")
}
