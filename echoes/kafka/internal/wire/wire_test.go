package wire

import (
	"bytes"
	"errors"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/matryer/is"
	"go.mongodb.org/mongo-driver/v2/bson"
	"pgregory.net/rapid"

	"github.com/orionjs/orion-go/echoes"
)

// value makes a BSON value of a Go one.
func value(v any) bson.RawValue {
	t, b, err := bson.MarshalValue(v)
	if err != nil {
		panic(err)
	}
	return bson.RawValue{Type: t, Value: b}
}

// extended renders params in extended JSON, which tells types apart.
func extended(v bson.RawValue) string {
	b, err := bson.MarshalExtJSON(bson.D{{Key: "params", Value: v}}, true, false)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// testdata/node.txt was written by serialize-javascript 6.0.2; 7.1.4 writes the
// same. Each case has its text and what is read from it.
func TestDecode_7_7_WhatNodeWrites(t *testing.T) {
	t.Parallel()
	file, err := os.ReadFile("testdata/node.txt")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(file)), "\n")
	for i := 0; i+2 < len(lines); i += 3 {
		t.Run(lines[i], func(t *testing.T) {
			is := is.New(t)
			got, err := Decode([]byte(strings.TrimSpace(lines[i+1])))
			is.NoErr(err)
			is.Equal(extended(got), strings.TrimSpace(lines[i+2]))
		})
	}
	if len(lines) < 50 {
		t.Fatalf("only %d lines", len(lines))
	}
}

func TestDecode_7_7_OtherForms(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		" {\n\"params\" : [ 1 , 2 ] }\t":                      `{"params":[{"$numberInt":"1"},{"$numberInt":"2"}]}`,
		`{"params":1,"params":2}`:                             `{"params":{"$numberInt":"2"}}`,
		`{"other":{"x":undefined},"params":1}`:                `{"params":{"$numberInt":"1"}}`,
		`{"params":123n}`:                                     `{"params":{"$numberLong":"123"}}`,
		`{"params":-123n}`:                                    `{"params":{"$numberLong":"-123"}}`,
		`{"params":-0}`:                                       `{"params":{"$numberDouble":"-0.0"}}`,
		`{"params":1.0}`:                                      `{"params":{"$numberDouble":"1.0"}}`,
		`{"params":1e2}`:                                      `{"params":{"$numberDouble":"100.0"}}`,
		`{"params":0e999999999999}`:                           `{"params":{"$numberDouble":"0.0"}}`,
		`{"params":NaN}`:                                      `{"params":{"$numberDouble":"NaN"}}`,
		`{"params":9007199254740993}`:                         `{"params":{"$numberLong":"9007199254740993"}}`,
		`{"params":9223372036854775807}`:                      `{"params":{"$numberLong":"9223372036854775807"}}`,
		`{"params":9223372036854775808}`:                      `{"params":{"$numberDecimal":"9223372036854775808"}}`,
		`{"params":9223372036854776000}`:                      `{"params":{"$numberDouble":"9.223372036854776E+18"}}`,
		`{"params":0.1234567890123456789}`:                    `{"params":{"$numberDecimal":"0.1234567890123456789"}}`,
		`{"params":1e-400}`:                                   `{"params":{"$numberDecimal":"1E-400"}}`,
		`{"params":1e6000}`:                                   `{"params":{"$numberDecimal":"1E+6000"}}`,
		`{"params":new Date("2024-02-29T23:59:59Z")}`:         `{"params":{"$date":{"$numberLong":"1709251199000"}}}`,
		`{"params":{"type":"Buffer","data":[1],"subtype":4}}`: `{"params":{"$binary":{"base64":"AQ==","subType":"04"}}}`,
		`{"params":{"type":"Buffer","data":[256]}}`:           `{"params":{"type":"Buffer","data":[{"$numberInt":"256"}]}}`,
		`{"params":{"type":"Buffer","data":[1],"x":1}}`:       `{"params":{"type":"Buffer","data":[{"$numberInt":"1"}],"x":{"$numberInt":"1"}}}`,
		`{"params":{"type":"Buffer"}}`:                        `{"params":{"type":"Buffer"}}`,
		`{"params":{"$numberDecimal":"x"}}`:                   `{"params":{"$numberDecimal":"x"}}`,
		`{"params":"\ud83d\ude00\ude00\ud83dx"}`:              "{\"params\":\"😀\ufffd\ufffdx\"}",
		`{"params":"\ud83d\ud83d\ude00"}`:                     "{\"params\":\"\ufffd😀\"}",
	} {
		t.Run(text, func(t *testing.T) {
			is := is.New(t)
			got, err := Decode([]byte(text))
			is.NoErr(err)
			is.Equal(extended(got), want)
		})
	}
}

func TestDecode_7_7_AnythingElseIsAnError(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", " ", "null", "undefined", "[]", `"x"`, "1", "{", `{}`, `{"param":1}`, `{"params":}`, `{"params"}`, `{"params":1`, `{"params":1}}`, `{"params":1} x`, `{"params":1,}`, `{,"params":1}`,
		`({"params":1})`, `{params:1}`, `{'params':1}`, `{"params":'x'}`, "{\"params\":`x`}", `{"params":1}//x`, `{"params":/*x*/1}`, `{"params":1+1}`, `{"params":(1)}`, `{"params":[1,]}`, `{"params":[,1]}`, `{"params":[1 2]}`,
		`{"params":x}`, `{"params":nullx}`, `{"params":null.x}`, `{"params":undefinedx}`, `{"params":True}`, `{"params":NaNn}`, `{"params":+Infinity}`, `{"params":--Infinity}`, `{"params":-NaN}`,
		`{"params":process.exit()}`, `{"params":require("fs")}`, `{"params":eval("1")}`, `{"params":function(){}}`, `{"params":()=>1}`, `{"params":class{}}`, `{"params":/x/}`, `{"params":new RegExp("x","g")}`, `{"params":new Function("x")}`,
		`{"params":new Date}`, `{"params":new Date()}`, `{"params":new Date(0)}`, `{"params":new Date("x")}`, `{"params":new Date("2026-02-30T00:00:00.000Z")}`, `{"params":new Date("2026-08-04")}`, `{"params":new Date("2026-08-04T12:00:00.000Z",1)}`,
		`{"params":new Date("+999999-01-01T00:00:00.000Z")}`, `{"params":new Date("2026-08-04T12:00:00.000+01:00")}`, `{"params":newDate("2026-08-04T12:00:00.000Z")}`, `{"params":new Datex("2026-08-04T12:00:00.000Z")}`,
		`{"params":Date("2026-08-04T12:00:00.000Z")}`, `{"params":new Map()}`, `{"params":new Map({})}`, `{"params":new Map([1])}`, `{"params":new Map([[]])}`, `{"params":new Map([["a"]])}`, `{"params":new Map([["a",1,2]])}`,
		`{"params":new Map([[{},1]])}`, `{"params":new Map([[1.5,1]])}`, `{"params":new Map([["\u0000",1]])}`, `{"params":new Set()}`, `{"params":new Set("x")}`, `{"params":new Set([1],[2])}`, `{"params":new URL(1)}`, `{"params":new URL("a","b")}`,
		`{"params":BigInt(1)}`, `{"params":BigInt("")}`, `{"params":BigInt("1.5")}`, `{"params":BigInt("0x10")}`, `{"params":BigInt("1e3")}`, `{"params":BigInt("1"+"2")}`, `{"params":new BigInt("1")}`, `{"params":1.5n}`, `{"params":1nn}`,
		`{"params":BigInt("` + strings.Repeat("7", 35) + `")}`, `{"params":0.` + strings.Repeat("7", 35) + `}`, `{"params":1e7000}`, `{"params":1e999999999999999999999}`,
		`{"params":01}`, `{"params":-}`, `{"params":.5}`, `{"params":5.}`, `{"params":1e}`, `{"params":1e+}`, `{"params":0x10}`, `{"params":1_000}`, `{"params":- 1}`,
		`{"params":"x}`, `{"params":"\x41"}`, `{"params":"\u12"}`, `{"params":"\u12g4"}`, `{"params":"\u{41}"}`, `{"params":"\0"}`, `{"params":"\'"}`, `{"params":"\`, `{"params":"\u`, "{\"params\":\"a\nb\"}", "{\"params\":\"\xff\"}", "{\"\xff\":1}",
		`{"params":{"\u0000":1}}`, `{"params":{"a":1 "b":2}}`, `{"params":{1:2}}`, `{"params":{["a"]:1}}`, `{"params":{...x}}`, `{"params":{get a(){}}}`,
		`{"params":Array.prototype.slice.call([1])}`, `{"params":Array.prototype.slice.call({})}`, `{"params":Array.prototype.slice.call({"0":1})}`, `{"params":Array.prototype.slice.call({"1":1,"0":1,"length":2})}`,
		`{"params":Array.prototype.slice.call({"0":1,"length":0})}`, `{"params":Array.prototype.slice.call({"length":1,"0":1})}`, `{"params":Array.prototype.slice.call({"x":1,"length":1})}`, `{"params":Array.prototype.slice.call({"length":-1})}`,
		`{"params":Array.prototype.slice.call({"00":1,"length":1})}`, `{"params":Array.prototype.slice.call({"length":4294967295})}`, `{"params":Array.prototype.slice.call({"4294967294":1,"length":4294967295})}`, `{"params":Array.prototype.slice.call({"length":1.5})}`,
		`{"params":Array.prototype.splice.call({"length":1})}`, `{"params":Array.prototype.slice.apply({"length":1})}`,
		"\ufeff{\"params\":1}", "\xac\xed\x00\x05", "\x00", "{\"type\":\"Buffer\",\"data\":[]}",
	} {
		t.Run(text, func(t *testing.T) {
			is := is.New(t)
			_, err := Decode([]byte(text))
			is.True(err != nil)
			is.True(!strings.Contains(err.Error(), "\n"))
		})
	}
}

func TestDecode_7_7_DepthAndSizeAreBounded(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	nested := func(open, end string, n int) []byte {
		return []byte(`{"params":` + strings.Repeat(open, n) + "1" + strings.Repeat(end, n) + `}`)
	}
	for open, end := range map[string]string{"[": "]", `{"a":`: "}", `new Set([`: "])", `new Map([["a",`: "]])", `Array.prototype.slice.call({"0":`: `,"length":1})`} {
		_, err := Decode(nested(open, end, 60))
		is.NoErr(err)
		_, err = Decode(nested(open, end, maxDepth))
		is.True(err != nil && strings.Contains(err.Error(), "nested deeper"))
		_, err = Decode([]byte(strings.Repeat(open, 1_000_000)))
		is.True(err != nil)
	}
	_, err := Decode(make([]byte, MaxText+1))
	is.True(err != nil && strings.Contains(err.Error(), "more than"))
	_, err = Decode([]byte(`{"params":[` + strings.Repeat("0,", 7<<20) + "0]}"))
	is.True(errors.Is(err, errTooLarge))
	holes := `Array.prototype.slice.call({"length":60000})`
	_, err = Decode([]byte(`{"params":[` + holes + `]}`))
	is.NoErr(err)
	_, err = Decode([]byte(`{"params":[` + holes + "," + holes + `]}`))
	is.True(err != nil && strings.Contains(err.Error(), "lack more than"))
}

func TestEncode_7_7_Text(t *testing.T) {
	t.Parallel()
	decimal, _ := bson.ParseDecimal128("12.50")
	id, _ := bson.ObjectIDFromHex("64b7f0c2a1b2c3d4e5f60718")
	for want, v := range map[string]any{
		`{"a":1,"b":[true,null,"x"]}`: bson.D{{Key: "a", Value: 1}, {Key: "b", Value: bson.A{true, nil, "x"}}},
		`1.0`:                         1.0, `-0.0`: math.Copysign(0, -1), `0.1`: 0.1, `1e+21`: 1e21, `1e-07`: 1e-7, `123456789012345680000.0`: 123456789012345680000.0, `NaN`: math.NaN(), `-Infinity`: math.Inf(-1),
		`9223372036854775807`: int64(math.MaxInt64), `"2026-08-04T12:00:00.000Z"`: bson.DateTime(1785844800000), `"1969-12-31T23:59:59.999Z"`: bson.DateTime(-1), `"0000-01-01T00:00:00.000Z"`: bson.DateTime(-62167219200000),
		`new Date("+010000-01-01T00:00:00.000Z")`: bson.DateTime(253402300800000), `new Date("-271821-04-20T00:00:00.000Z")`: bson.DateTime(-lastDate),
		`"64b7f0c2a1b2c3d4e5f60718"`: id, `{"$numberDecimal":"12.50"}`: decimal, `{"type":"Buffer","data":[0,255]}`: []byte{0, 255}, `{"type":"Buffer","data":[7],"subtype":4}`: bson.Binary{Subtype: 4, Data: []byte{7}},
		`{"type":"Buffer","data":[7]}`: bson.Binary{Subtype: 2, Data: []byte{7}}, `null`: bson.Undefined{}, `"\"\\\n\u0009\u0000\u2028\u2029é😀</script>"`: "\"\\\n\t\x00\u2028\u2029é😀</script>",
	} {
		t.Run(want, func(t *testing.T) {
			is := is.New(t)
			got, err := Encode(value(v))
			is.NoErr(err)
			is.Equal(string(got), `{"params":`+want+`}`)
		})
	}
}

func TestEncode_7_7_WhatHasNoForm(t *testing.T) {
	t.Parallel()
	for want, v := range map[string]any{
		"params.a[1].b: a value of the BSON type regex has no form on Kafka": bson.M{"a": bson.A{1, bson.M{"b": bson.Regex{Pattern: "x"}}}},
		"params: a value of the BSON type timestamp":                         bson.Timestamp{T: 1},
		"params[0]: text that is not valid UTF-8":                            bson.A{"\xff"},
		`params."\xff": text that is not valid UTF-8`:                        bson.M{"\xff": 1},
		"params: the date of 9223372036854775807 ms":                         bson.DateTime(math.MaxInt64),
	} {
		t.Run(want, func(t *testing.T) {
			is := is.New(t)
			_, err := Encode(value(v))
			is.True(err != nil)
			is.True(strings.HasPrefix(err.Error(), want)) // the path and the reason
		})
	}
	is := is.New(t)
	deep := value(1)
	for range maxDepth + 1 {
		deep = value(bson.A{deep})
	}
	_, err := Encode(deep)
	is.True(errors.Is(err, errTooDeep))
	_, err = Encode(bson.RawValue{Type: bson.TypeEmbeddedDocument, Value: []byte{9, 0, 0, 0, 0}})
	is.True(err != nil)
}

// What a Go program publishes is what a Go program reads: numbers with their
// types, decimals digit by digit, binary data with its subtype.
func TestRoundTrip_7_7_LosesNothing(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		is := is.New(t)
		want := bson.D{
			{Key: "int", Value: rapid.Int32().Draw(t, "int")},
			{Key: "float", Value: rapid.Float64().Draw(t, "float")},
			{Key: "text", Value: rapid.String().Draw(t, "text")},
			{Key: "data", Value: bson.Binary{Subtype: rapid.SampledFrom([]byte{0, 4, 128}).Draw(t, "subtype"), Data: rapid.SliceOf(rapid.Byte()).Draw(t, "data")}},
			{Key: "flag", Value: rapid.Bool().Draw(t, "flag")},
			{Key: "list", Value: bson.A{nil, bson.D{{Key: rapid.StringMatching(`[^\x00]*`).Draw(t, "key"), Value: "x"}}}},
			{Key: "decimal", Value: bson.NewDecimal128(0x3040000000000000|rapid.Uint64Max(1<<48).Draw(t, "high"), rapid.Uint64().Draw(t, "low"))},
		}
		text, err := Encode(value(want))
		is.NoErr(err)
		got, err := Decode(text)
		is.NoErr(err)
		is.Equal(extended(got), extended(value(want)))
	})
}

// A number keeps its value for every kind of Go field that can hold it.
func TestRoundTrip_7_7_NumbersForEveryField(t *testing.T) {
	t.Parallel()
	through := func(is *is.I, v any) bson.RawValue {
		text, err := Encode(value(v))
		is.NoErr(err)
		got, err := Decode(text)
		is.NoErr(err)
		return got
	}
	rapid.Check(t, func(t *rapid.T) {
		is := is.New(t)
		n := rapid.OneOf(rapid.Int64(), rapid.Int64Range(1<<53-5, 1<<53+5)).Draw(t, "n")
		gotN, err := echoes.DecodeParams(through(is, n), (*echoes.Decoder).Int64)
		is.NoErr(err)
		is.Equal(gotN, n)

		// A float64 that is a whole number, as JavaScript prints it.
		f := math.Trunc(rapid.Float64Range(-1e21, 1e21).Draw(t, "f"))
		js, err := Decode([]byte(`{"params":` + strconv.FormatFloat(f, 'f', -1, 64) + `}`))
		is.NoErr(err)
		gotF, err := echoes.DecodeParams(js, (*echoes.Decoder).Float64)
		is.NoErr(err)
		is.Equal(gotF, f)
	})
}

func TestDecode_7_7_IsoDates(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		is := is.New(t)
		ms := rapid.Int64Range(-lastDate, lastDate).Draw(t, "ms")
		e := encoder{}
		is.True(e.date(ms) == nil)
		text := string(bytes.Trim(bytes.TrimSuffix(bytes.TrimPrefix(e.out, []byte("new Date(")), []byte(")")), `"`))
		got, ok := isoDate(text)
		is.True(ok)
		is.Equal(got, ms)
	})
}

func FuzzDecode(f *testing.F) {
	file, err := os.ReadFile("testdata/node.txt")
	if err != nil {
		f.Fatal(err)
	}
	for _, line := range strings.Split(string(file), "\n") {
		f.Add([]byte(strings.TrimSpace(line)))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		v, err := Decode(text)
		if err != nil {
			return
		}
		var sound bson.RawValue
		d := echoes.NewDecoder(v)
		if d.RawValue(&sound); d.Err() != nil {
			t.Fatalf("malformed BSON: %v", d.Err())
		}
		// What was read can be written, and settles: a date becomes text at first,
		// and a BigInt a number.
		var texts [3][]byte
		for i := range texts {
			if texts[i], err = Encode(v); err != nil {
				t.Fatalf("cannot be written again: %v", err)
			}
			if v, err = Decode(texts[i]); err != nil {
				t.Fatalf("cannot be read again: %v in %s", err, texts[i])
			}
		}
		if !bytes.Equal(texts[1], texts[2]) {
			t.Fatalf("%s became %s", texts[1], texts[2])
		}
	})
}
