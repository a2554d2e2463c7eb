package echoes

import (
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"testing"

	"github.com/matryer/is"
	"go.mongodb.org/mongo-driver/v2/bson"
	"pgregory.net/rapid"
)

// number is a BSON number with its exact value, nil for NaN and infinities.
type number struct {
	value   any
	exact   *big.Rat
	decimal bool
}

func numberOf(t testing.TB, value any) number {
	switch v := value.(type) {
	case int32:
		return number{value, new(big.Rat).SetInt64(int64(v)), false}
	case int64:
		return number{value, new(big.Rat).SetInt64(v), false}
	case float64:
		return number{value, new(big.Rat).SetFloat64(v), false}
	case string:
		dec := decimal128(t, v)
		n := number{value: dec, decimal: true}
		if coefficient, exp, err := dec.BigInt(); err == nil {
			ten := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(max(exp, -exp))), nil)
			n.exact = new(big.Rat).SetInt(coefficient)
			if exp < 0 {
				n.exact.Quo(n.exact, new(big.Rat).SetInt(ten))
			} else {
				n.exact.Mul(n.exact, new(big.Rat).SetInt(ten))
			}
		}
		return n
	default:
		t.Fatalf("no number: %T", value)
		return number{}
	}
}

// checkNumber reads v as every Go number type and compares with exact
// arithmetic: what is accepted is right, and what can be held is accepted.
func checkNumber(t testing.TB, value any) {
	n := numberOf(t, value)
	v := raw(t, n.value)
	checkInt(t, n, v, math.MinInt, math.MaxInt, (*Decoder).Int)
	checkInt(t, n, v, math.MinInt8, math.MaxInt8, (*Decoder).Int8)
	checkInt(t, n, v, math.MinInt16, math.MaxInt16, (*Decoder).Int16)
	checkInt(t, n, v, math.MinInt32, math.MaxInt32, (*Decoder).Int32)
	checkInt(t, n, v, math.MinInt64, math.MaxInt64, (*Decoder).Int64)
	checkInt(t, n, v, 0, math.MaxUint, (*Decoder).Uint)
	checkInt(t, n, v, 0, math.MaxUint8, (*Decoder).Uint8)
	checkInt(t, n, v, 0, math.MaxUint16, (*Decoder).Uint16)
	checkInt(t, n, v, 0, math.MaxUint32, (*Decoder).Uint32)
	checkInt(t, n, v, 0, math.MaxUint64, (*Decoder).Uint64)
	checkFloat(t, n, v, 64, (*Decoder).Float64)
	checkFloat(t, n, v, 32, (*Decoder).Float32)
}

func checkInt[T signed | unsigned](t testing.TB, n number, v bson.RawValue, least int64, most uint64, decode func(*Decoder, *T)) {
	got, err := DecodeParams(v, decode)
	fits := n.exact != nil && n.exact.IsInt() &&
		n.exact.Num().Cmp(big.NewInt(least)) >= 0 && n.exact.Num().Cmp(new(big.Int).SetUint64(most)) <= 0
	switch {
	case fits != (err == nil):
		t.Fatalf("%v (%T) as %T: fits is %v, error is %v", n.value, n.value, got, fits, err)
	case fits && fmt.Sprint(got) != n.exact.Num().String():
		t.Fatalf("%v (%T) as %T: got %v", n.value, n.value, got, got)
	}
}

func checkFloat[T float](t testing.TB, n number, v bson.RawValue, width int, decode func(*Decoder, *T)) {
	got, err := DecodeParams(v, decode)
	if n.exact == nil {
		if err != nil || fmt.Sprint(got) != fmt.Sprint(n.value) && !math.IsInf(float64(got), 0) {
			t.Fatalf("%v as %T: got %v, %v", n.value, got, got, err)
		}
		return
	}
	text := n.exact.FloatString(20)
	if n.decimal {
		text = n.value.(bson.Decimal128).String()
	}
	nearest, parseErr := strconv.ParseFloat(text, width)
	if !n.decimal {
		nearest, _ = n.exact.Float64()
		if width == 32 {
			f, _ := n.exact.Float32()
			nearest = float64(f)
		}
	}
	fits := false
	if parseErr == nil && !math.IsInf(nearest, 0) {
		exact := new(big.Rat).SetFloat64(nearest).Cmp(n.exact) == 0
		shortest, _ := new(big.Rat).SetString(strconv.FormatFloat(nearest, 'e', -1, width))
		fits = exact && (!n.decimal || n.exact.IsInt() && new(big.Int).Abs(n.exact.Num()).IsUint64()) ||
			n.decimal && shortest.Cmp(n.exact) == 0
	}
	switch {
	case fits != (err == nil):
		t.Fatalf("%v (%T) as %T: fits is %v, error is %v", n.value, n.value, got, fits, err)
	case fits && float64(got) != nearest:
		t.Fatalf("%v (%T) as %T: got %v, want %v", n.value, n.value, got, got, nearest)
	}
}

func TestDecode_7_3_NumbersConvertOnlyWithoutLoss(t *testing.T) {
	t.Parallel()
	var edges []int64
	for _, shift := range []int{0, 7, 8, 15, 16, 24, 31, 32, 53, 54, 62} {
		for _, d := range []int64{-1, 0, 1} {
			edges = append(edges, 1<<shift+d, -1<<shift+d)
		}
	}
	edges = append(edges, math.MaxInt64, math.MinInt64)
	for _, n := range edges {
		if int64(int32(n)) == n {
			checkNumber(t, int32(n))
		}
		checkNumber(t, n)
		checkNumber(t, float64(n))
		checkNumber(t, float64(n)+0.5)
		checkNumber(t, strconv.FormatInt(n, 10))
		checkNumber(t, strconv.FormatInt(n, 10)+".5")
		checkNumber(t, strconv.FormatInt(n, 10)+".00")
	}
	for _, f := range []float64{
		math.NaN(), math.Inf(1), math.Inf(-1), math.Copysign(0, -1), 0.1, 0.5, 1e300, 1 << 63, 1 << 64, -1 << 63,
		math.MaxFloat32, math.MaxFloat64, math.SmallestNonzeroFloat32, math.SmallestNonzeroFloat64, math.Pi,
	} {
		checkNumber(t, f)
	}
	for _, s := range []string{
		"NaN", "Infinity", "-Infinity", "-0", "0E+6000", "0E-6000", "1E+2", "100.00", "1000000000000000000000E-19", "0.1", "0.10",
		"0.1000000000000000055511151231257827", "9223372036854775808", "-9223372036854775809", "18446744073709551615",
		"18446744073709551616", "1E+19", "1E+20", "1.7976931348623157E+308", "1.8E+308", "1E-400", "1E+6000", "5E-324", "4.9E-324",
		"1152921504606846976", "9999999999999999999999999999999999", "1E-6176", "9.999999999999999999999999999999999E+6144",
	} {
		checkNumber(t, s)
	}
}

func TestDecode_7_3_RandomNumbersConvertOnlyWithoutLoss(t *testing.T) {
	t.Parallel()
	outer := t
	rapid.Check(t, func(t *rapid.T) {
		tb := rapidTB{outer, t}
		checkNumber(tb, rapid.Int32().Draw(t, "int32"))
		checkNumber(tb, rapid.Int64().Draw(t, "int64"))
		checkNumber(tb, rapid.Float64().Draw(t, "double"))
		checkNumber(tb, float64(rapid.Float32().Draw(t, "float")))
		checkNumber(tb, rapid.StringMatching(`-?[1-9][0-9]{0,20}(\.[0-9]{1,12})?`).Draw(t, "decimal"))
		checkNumber(tb, rapid.StringMatching(`-?[1-9]\.[0-9]{1,20}E[+-][1-9][0-9]{0,2}`).Draw(t, "scientific"))
		checkNumber(tb, strconv.FormatFloat(rapid.Float64().Draw(t, "shortest"), 'e', -1, 64))
	})
}

func TestDecode_7_3_NumbersBecomeDecimal128(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	for value, want := range map[any]string{
		int32(-7): "-7", int64(math.MaxInt64): "9223372036854775807", 0.1: "0.1", 1e21: "1E+21", math.Inf(1): "Infinity", 1.5e-300: "1.5E-300",
	} {
		got, err := DecodeParams(raw(t, value), (*Decoder).Decimal128)
		is.NoErr(err)
		is.Equal(got.String(), want)
	}
	got, err := DecodeParams(raw(t, math.NaN()), (*Decoder).Decimal128)
	is.NoErr(err)
	is.True(got.IsNaN())
	_, err = DecodeParams(raw(t, "1"), (*Decoder).Decimal128)
	is.Equal(err.Error(), "params: want decimal128, got string")
}

// TestDecode_7_3_OnlyTheRightTypes reads a value of every type with every
// reader that is not for numbers.
func TestDecode_7_3_OnlyTheRightTypes(t *testing.T) {
	t.Parallel()
	oid := bson.ObjectID{1}
	values := map[string]any{
		"double": 1.5, "string": "s", "document": bson.D{{Key: "a", Value: 1}}, "array": bson.A{1}, "binary": bson.Binary{Data: []byte{1}},
		"objectId": oid, "bool": true, "date": bson.DateTime(1), "regex": bson.Regex{Pattern: "p"}, "dbPointer": bson.DBPointer{DB: "d", Pointer: oid},
		"javascript": bson.JavaScript("j"), "symbol": bson.Symbol("s"), "javascriptWithScope": bson.CodeWithScope{Code: "c", Scope: bson.D{}},
		"int32": int32(1), "timestamp": bson.Timestamp{T: 1}, "int64": int64(1), "decimal128": decimal128(t, "1.5"), "minKey": bson.MinKey{}, "maxKey": bson.MaxKey{},
	}
	readers := map[string]struct {
		read    func(bson.RawValue) error
		accepts string
	}{
		"string":   {reads((*Decoder).String), "string"},
		"bool":     {reads((*Decoder).Bool), "bool"},
		"date":     {reads((*Decoder).Time), "date"},
		"duration": {reads((*Decoder).Duration), "int32 int64"},
		"bytes":    {reads((*Decoder).Bytes), "binary"},
		"objectId": {reads((*Decoder).ObjectID), "objectId"},
		"raw":      {reads((*Decoder).Raw), "document"},
		"m":        {reads((*Decoder).M), "document"},
		"d":        {reads((*Decoder).D), "document"},
		"int":      {reads((*Decoder).Int), "int32 int64"},
		"float":    {reads((*Decoder).Float64), "double int32 int64 decimal128"},
		"decimal":  {reads((*Decoder).Decimal128), "double int32 int64 decimal128"},
		"list":     {reads(func(d *Decoder, p *[]any) { Slice(d, p, (*Decoder).Any) }), "array"},
		"map":      {reads(func(d *Decoder, p *map[string]any) { Map(d, p, (*Decoder).Any) }), "document"},
		"any":      {reads((*Decoder).Any), ""},
		"rawValue": {reads((*Decoder).RawValue), ""},
	}
	for name, value := range values {
		v := raw(t, value)
		for reader, r := range readers {
			err := r.read(v)
			accepted := r.accepts == ""
			for _, s := range strings.Fields(r.accepts) {
				accepted = accepted || s == name
			}
			if accepted != (err == nil) {
				t.Errorf("%s of %s: %v", reader, name, err)
			}
			if err != nil && !strings.Contains(err.Error(), "got "+name) {
				t.Errorf("%s of %s does not say what it got: %v", reader, name, err)
			}
		}
		checkAny(t, v)
	}
}

func reads[T any](decode func(*Decoder, *T)) func(bson.RawValue) error {
	return func(v bson.RawValue) error {
		_, err := DecodeParams(v, decode)
		return err
	}
}

// checkAny compares the free form of a value with the driver's.
func checkAny(t testing.TB, v bson.RawValue) {
	is := is.New(t)
	got, err := DecodeParams(v, (*Decoder).Any)
	is.NoErr(err)
	var want any
	is.NoErr(v.Unmarshal(&want))
	is.Equal(got, want)
}
