package everykind

import (
	"encoding/json"
	"math"
	"net/netip"
	"net/url"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/matryer/is"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/orionjs/orion-go/echoes"
)

func ptr[T any](v T) *T { return &v }

func decimal(t testing.TB, s string) bson.Decimal128 {
	t.Helper()
	d, err := bson.ParseDecimal128(s)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// sampleShared has a value in every field.
func sampleShared(t testing.TB) Shared {
	link, err := url.Parse("https://user:word@example.com:8080/a%20b?q=1#top")
	if err != nil {
		t.Fatal(err)
	}
	part := Part{SKU: "a", Quantity: 2, Price: 0.1, Note: ptr("n")}
	id := bson.ObjectID{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}
	return Shared{
		Text: "grüße", Name: "named", Flag: true,
		Int: math.MinInt64, Int8: math.MinInt8, Int16: math.MaxInt16, Int32: math.MinInt32, Int64: math.MaxInt64,
		Uint: 7, Uint8: math.MaxUint8, Uint16: math.MaxUint16, Uint32: math.MaxUint32, Uint64: math.MaxInt64,
		Float32: 1.5, Float64: math.Pi, Level: -3, Decimal: decimal(t, "12.50"),
		Time: time.UnixMilli(1700000000123).UTC(), Date: -1, Duration: 90 * time.Second, ID: id,
		Bytes: []byte{1, 2}, Hash: [4]byte{1, 2, 3, 4}, List: []string{"a", ""}, Triple: [3]int{1, 2, 3},
		Map: map[string]int{"a": 1}, Named: map[Name]*Part{"p": &part, "none": nil}, ByInt: map[int8]string{-7: "x"},
		ByUint: map[uint16]string{65535: "y"}, ByAddr: map[netip.Addr]bool{netip.MustParseAddr("::1"): true}, ByCode: map[Code]int{{'c'}: 1},
		Pointer: ptr("p"), Deep: ptr(&part), Part: part, Parts: []Part{part, {}},
		Tree: &Tree{Name: "t", Parent: &Tree{Name: "p"}, Children: []Tree{{Name: "c"}}, ByName: map[string]*Tree{"n": {}}},
		Page: Page[Part]{Items: []Part{part}, Next: &Page[Part]{}}, Alias: Alias{Items: []map[string]int64{{"x": 1}, nil}},
		Local: struct{ X, Y []int }{X: []int{1}, Y: []int{}}, Inline: Inline{City: "c", Street: ptr("s")}, Behind: &Behind{"CL"}, Tagged: 5,
		Any: bson.D{{Key: "a", Value: bson.A{int32(1), "x", nil}}}, M: bson.M{"k": 1.5}, D: bson.D{{Key: "d", Value: true}}, A: bson.A{int64(1)},
		Raw: marshal(t, bson.D{{Key: "r", Value: 1}}), RawValue: bson.RawValue{Type: bson.TypeBoolean, Value: []byte{1}},
		Number: "-12.5", URL: *link, Link: link,
		Binary: bson.Binary{Subtype: 4, Data: []byte("abc")}, Symbol: "sym", Script: "js", Timestamp: bson.Timestamp{T: 1, I: 2},
		Regex: bson.Regex{Pattern: "^a", Options: "i"}, DBPointer: bson.DBPointer{DB: "db", Pointer: id},
		Scoped: bson.CodeWithScope{Code: "f", Scope: bson.D{{Key: "x", Value: int32(1)}}},
	}
}

// sampleForeign and sampleChecked are documents with a value for every field.

func sampleForeign(t testing.TB) bson.D {
	id := uuid.MustParse("6ba7b810-9dad-11d1-80b4-00c04fd430c8")
	return bson.D{
		{Key: "uuid", Value: bson.Binary{Subtype: 4, Data: id[:]}},
		{Key: "uuids", Value: bson.A{id.String(), nil, id}},
		{Key: "addr", Value: "10.0.0.1"},
		{Key: "prefix", Value: "10.0.0.0/8"},
		{Key: "big", Value: "123456789012345678901234567890"},
		{Key: "bigptr", Value: decimal(t, "1E+3")},
		{Key: "float", Value: "1.5"},
		{Key: "json", Value: bson.D{
			{Key: "a", Value: bson.A{int32(1), 2.5, true, nil, "é\"<"}},
			{Key: "at", Value: bson.DateTime(0)},
			{Key: "id", Value: bson.ObjectID{}},
			{Key: "bin", Value: []byte("hi")},
			{Key: "dec", Value: decimal(t, "1.50")},
		}},
		{Key: "jsons", Value: bson.A{bson.Binary{Data: []byte(`{"x":1}`)}, "text", int64(math.MaxInt64), nil}},
		{Key: "money", Value: int64(5)},
		{Key: "sized", Value: bson.D{{Key: "a", Value: 1}, {Key: "b", Value: 2}}},
		{Key: "shade", Value: "b"},
		{Key: "else", Value: bson.D{{Key: "x", Value: 1}}},
	}
}

func sampleChecked() bson.D {
	return bson.D{
		{Key: "id", Value: "1"},
		{Key: "status", Value: "open"},
		{Key: "rank", Value: 3},
		{Key: "statuses", Value: bson.D{{Key: "k", Value: bson.A{"paid", nil}}}},
		{Key: "month", Value: 12},
		{Key: "range", Value: bson.D{{Key: "from", Value: 1}, {Key: "to", Value: 2}}},
		{Key: "ranges", Value: bson.A{bson.D{}, nil}},
		{Key: "percent", Value: 100},
	}
}

func TestDecode_7_3_EveryKindAsTheDriver(t *testing.T) {
	t.Parallel()
	in := sampleShared(t)
	b := marshal(t, in)
	got, err := echoes.DecodeParams(document(b), decodeShared)
	if err != nil {
		t.Fatal(err)
	}
	if d := difference(got, in); d != "" {
		t.Errorf("what was stored and what is read: %s", d)
	}
	var theirs Shared
	if err := bson.Unmarshal(b, &theirs); err != nil {
		t.Fatal(err)
	}
	if d := difference(got, theirs); d != "" {
		t.Errorf("ours and the driver's: %s", d)
	}
}

func TestDecode_7_3_ForeignTypes(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	p, err := echoes.DecodeParams(document(marshal(t, sampleForeign(t))), decodeForeign)
	is.NoErr(err)
	id := uuid.MustParse("6ba7b810-9dad-11d1-80b4-00c04fd430c8")
	is.Equal(p.UUID, id)
	is.Equal(p.UUIDs, []*uuid.UUID{&id, nil, &id})
	is.Equal(p.Addr, netip.MustParseAddr("10.0.0.1"))
	is.Equal(*p.Prefix, netip.MustParsePrefix("10.0.0.0/8"))
	is.Equal(p.Big.String(), "123456789012345678901234567890")
	is.Equal(p.BigPtr.String(), "1000")
	is.Equal(p.Float.String(), "1.5")
	is.Equal(string(p.JSON), `{"a":[1,2.5,true,null,"é\"\u003c"],"at":"1970-01-01T00:00:00Z","id":"000000000000000000000000","bin":"aGk=","dec":1.50}`)
	is.Equal(p.JSONs, []json.RawMessage{[]byte(`{"x":1}`), []byte(`"text"`), []byte("9223372036854775807"), nil})
	is.Equal(p.Money.cents, int64(5))
	is.Equal(p.Sized.fields, 2)
	is.Equal(p.Shade, Shade('b'))
	is.Equal(p.Rest, map[string]any{"else": bson.D{{Key: "x", Value: int32(1)}}})
}

func TestDecode_7_3_CheckedTypes(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	p, err := echoes.DecodeParams(document(marshal(t, sampleChecked())), decodeChecked)
	is.NoErr(err)
	is.Equal(p, Checked{
		ID: "1", Status: Open, Rank: High, Statuses: map[string][]*Status{"k": {ptr(Paid), nil}}, Month: time.December,
		Range: Range{1, 2}, Ranges: []*Range{{}, nil}, Percent: 100,
	})
}
