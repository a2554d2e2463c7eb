package jsonbson

import (
	"bytes"
	"encoding/json"
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

// decimal128 parses what the test itself has written.
func decimal128(text string) bson.Decimal128 {
	d, err := bson.ParseDecimal128(text)
	if err != nil {
		panic(err)
	}
	return d
}

// convert returns the document as the driver reads it. The driver checks every length in it on the way.
func convert(t testing.TB, text string) (bson.D, error) {
	raw, err := Document([]byte(text), 1<<20)
	if err != nil {
		if raw != nil {
			t.Errorf("%s: an error comes with a document", shorten(text))
		}
		return nil, err
	}
	if err := raw.Validate(); err != nil {
		t.Errorf("%s: no valid BSON: %v", shorten(text), err)
	}
	var d bson.D
	if err := bson.Unmarshal(raw, &d); err != nil {
		t.Errorf("%s: the driver cannot read it: %v", shorten(text), err)
	}
	again, err := bson.Marshal(d)
	if err != nil || string(again) != string(raw) {
		t.Errorf("%s: the driver would write other bytes (%v)", shorten(text), err)
	}
	return d, nil
}

func TestDocument_KeepsEveryValueAndTheOrderOfKeys(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	got, err := convert(t, ` {"z": null, "a": [true, "", {"+1": 1, "": {}}, []], "é": "日本 👍 \u00e9\ud83d\ude00\u0000", "Z": "2019-05-15T15:20:41Z", "f": false} `)
	is.NoErr(err)
	is.Equal(got, bson.D{
		{Key: "z", Value: nil},
		{Key: "a", Value: bson.A{true, "", bson.D{{Key: "+1", Value: int32(1)}, {Key: "", Value: bson.D{}}}, bson.A{}}},
		{Key: "é", Value: "日本 👍 é😀\x00"},
		{Key: "Z", Value: "2019-05-15T15:20:41Z"},
		{Key: "f", Value: false},
	})
}

// A key that extended JSON gives a meaning to is a key like all others.
func TestDocument_GivesNoKeyAMeaning(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	text := `{"$oid":"5d505646cf6d4fe581014ab2","$ref":"x","a":{"$date":"2019-05-15T15:20:41Z"},"b":{"$numberLong":"1"},"c":{"$numberDouble":"NaN"},"a.b":1,"$set":{"$id":2,"$db":"d"}}`
	got, err := convert(t, text)
	is.NoErr(err)
	is.Equal(got[2], bson.E{Key: "a", Value: bson.D{{Key: "$date", Value: "2019-05-15T15:20:41Z"}}})
	is.Equal(got[6], bson.E{Key: "$set", Value: bson.D{{Key: "$id", Value: int32(2)}, {Key: "$db", Value: "d"}}})
	is.Equal(len(got), 7)

	// The reason why the driver's own parser is not used.
	var other bson.D
	err = bson.UnmarshalExtJSON([]byte(text), false, &other)
	is.True(err != nil || fmt.Sprint(other) != fmt.Sprint(got))
	is.NoErr(bson.UnmarshalExtJSON([]byte(`{"n": 12345678901234567890}`), false, &other))
	is.True(fmt.Sprint(other[0].Value) != "12345678901234567890") // rounded without a word
}

func TestDocument_StoresNumbersExactly(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]any{
		"0":                                     int32(0),
		"-1":                                    int32(-1),
		"2147483647":                            int32(math.MaxInt32),
		"-2147483648":                           int32(math.MinInt32),
		"2147483648":                            int64(math.MaxInt32 + 1),
		"9007199254740993":                      int64(9007199254740993), // 2^53+1: no double
		"9223372036854775807":                   int64(math.MaxInt64),
		"-9223372036854775808":                  int64(math.MinInt64),
		"9223372036854775808":                   decimal128("9223372036854775808"),
		"18446744073709551615":                  decimal128("18446744073709551615"),
		"10000000000000000000":                  decimal128("10000000000000000000"),
		"1" + strings.Repeat("0", 5000) + ".00": decimal128("1E+5000"),
		"0.1":                                   0.1,
		"-0":                                    math.Copysign(0, -1),
		"-0.0":                                  math.Copysign(0, -1),
		"1.50":                                  1.5,
		"1E3":                                   1000.0,
		"1e-7":                                  1e-7,
		"0e99999999999999999999":                0.0,
		"1.7976931348623157e308":                math.MaxFloat64,
		"5e-324":                                math.SmallestNonzeroFloat64,
		"0.30000000000000004":                   0.30000000000000004,
		"0.10000000000000001":                   decimal128("0.10000000000000001"),
		"3.141592653589793238462643383279503":   decimal128("3.141592653589793238462643383279503"),
		"1e400":                                 decimal128("1E+400"),
		"1234567890123456789012345678901234":    decimal128("1234567890123456789012345678901234"),
		"1e-" + strings.Repeat("0", 1000) + "6176":  decimal128("1E-6176"),
		"0." + strings.Repeat("0", 400) + "12":      decimal128("1.2E-401"),
		"12345678901234567890123456789012340000e-4": decimal128("1234567890123456789012345678901234"),
	} {
		t.Run(shorten(text), func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			got, err := convert(t, `{"n":[`+text+`]}`)
			is.NoErr(err)
			value := got[0].Value.(bson.A)[0]
			is.Equal(fmt.Sprintf("%T %v", value, value), fmt.Sprintf("%T %v", want, want))
		})
	}
}

// Every number is stored with exactly its value, computed here with big rationals, or refused.
func TestDocument_NeverRoundsANumber(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(
			rapid.StringMatching(`-?(0|[1-9][0-9]{0,40})(\.[0-9]{1,40})?([eE][+-]?[0-9]{1,3})?`),
			rapid.Map(rapid.Float64(), func(f float64) string { return strconv.FormatFloat(f, 'g', -1, 64) }),
			rapid.Map(rapid.Int64(), func(n int64) string { return strconv.FormatInt(n, 10) }),
		).Filter(func(s string) bool { return json.Valid([]byte(s)) }).Draw(t, "number")
		want, ok := new(big.Rat).SetString(text)
		if !ok {
			t.Fatalf("%s is no number", text)
		}
		value, err := number(text)
		if err != nil {
			if digits := decimalOf(text).digits; len(digits) <= 34 && math.Abs(float64(decimalOf(text).exp)) < 6000 {
				t.Fatalf("%s could be stored: %v", text, err)
			}
			return
		}
		printed := fmt.Sprint(value)
		if f, isDouble := value.(float64); isDouble {
			printed = strconv.FormatFloat(f, 'e', -1, 64)
		}
		got, ok := new(big.Rat).SetString(printed)
		if !ok || got.Cmp(want) != 0 {
			t.Fatalf("%s was stored as %T %v", text, value, value)
		}
	})
}

func TestDocument_SaysWhatCannotBeStored(t *testing.T) {
	t.Parallel()
	deep := func(n int) string {
		return `{"a":` + strings.Repeat("[", n-1) + strings.Repeat("]", n-1) + "}"
	}
	_, err := convert(t, deep(MaxDepth))
	is.New(t).NoErr(err)

	for name, c := range map[string]struct{ text, want string }{
		"empty":           {``, "no valid JSON: unexpected end of JSON input (at byte 0)"},
		"cut off":         {`{"a":1`, "no valid JSON: unexpected end of JSON input (at byte 6)"},
		"more than one":   {`{} {}`, "no valid JSON: invalid character '{' after top-level value (at byte 4)"},
		"trailing comma":  {`{"a":[1,]}`, "no valid JSON: invalid character ']' looking for beginning of value (at byte 9)"},
		"no JSON":         {`{"a":NaN}`, "no valid JSON: invalid character 'N' looking for beginning of value (at byte 6)"},
		"null":            {`null`, "want a JSON object"},
		"array":           {`[1]`, "want a JSON object"},
		"string":          {`"x"`, "want a JSON object"},
		"number":          {`7`, "want a JSON object"},
		"UTF-8":           {"{\"a\":\"\xff\"}", "the text is not valid UTF-8 (at byte 6)"},
		"duplicate key":   {`{"a":{"b":[{"c":1,"c":2}]}}`, "a.b[0].c: the key occurs twice in its object"},
		"escaped twice":   {`{"a":1,"\u0061":2}`, "a: the key occurs twice in its object"},
		"NUL in a key":    {`{"a":{"x\u0000":1}}`, `a."x\x00": a key with a NUL character cannot be stored`},
		"too many digits": {`{"a":[0,{"n":12345678901234567890123456789012345}]}`, "a[1].n: " + errNumber.Error()},
		"too large":       {`{"n":1e6145}`, "n: " + errNumber.Error()},
		"too small":       {`{"n":-1e-6177}`, "n: " + errNumber.Error()},
		"huge exponent":   {`{"n":1e99999999999999999999}`, "n: " + errNumber.Error()},
		"too deep":        {deep(MaxDepth + 1), "nested deeper than 100 levels"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			_, err := convert(t, c.text)
			is.True(err != nil)                             // refused
			is.True(strings.HasSuffix(err.Error(), c.want)) // says what and where
			is.True(len(err.Error()) < 500)
			if t.Failed() {
				t.Log(err)
			}
		})
	}
}

// The limit is exact, and holds while converting, not only at the end.
func TestDocument_KeepsToTheLimit(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	for _, text := range []string{`{}`, `{"a":"b"}`, `{"a":[1,{"b":[[]]},9007199254740993]}`} {
		whole, err := Document([]byte(text), 1<<20)
		is.NoErr(err)
		_, err = Document([]byte(text), len(whole))
		is.NoErr(err)
		_, err = Document([]byte(text), len(whole)-1)
		is.True(err != nil)
		is.True(strings.HasSuffix(err.Error(), fmt.Sprintf("the document takes more than %d bytes when stored", len(whole)-1)))
	}
	zeros := []byte(`{"list":[` + strings.Repeat("0,", 1<<20) + `0]}`)
	c := converter{tokens: json.NewDecoder(bytes.NewReader(zeros)), maxBytes: 1000}
	c.tokens.UseNumber()
	_, err := c.tokens.Token()
	is.NoErr(err)
	is.True(c.object(1) != nil)
	is.True(len(c.out) < 1100) // it stopped there
}

// No text makes the converter panic, and what it accepts is what encoding/json reads.
func FuzzDocument(f *testing.F) {
	for _, seed := range []string{`{"a":[1,2.5,{"b":null}],"$ref":1e400}`, `{"a":"\ud800","b":-0}`, `{"a":1}{`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := convert(t, string(data))
		if err != nil {
			return
		}
		var want map[string]any
		if err := json.Unmarshal(data, &want); err == nil && len(want) != len(got) {
			t.Fatalf("%d keys, want %d", len(got), len(want))
		}
	})
}

func shorten(s string) string {
	if len(s) > 40 {
		return s[:40] + fmt.Sprintf("_%d", len(s))
	}
	return s
}
