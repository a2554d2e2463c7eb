package echoes

import (
	"encoding/json"
	"errors"
	"math/big"
	"net/url"
	"strings"
	"testing"

	"github.com/matryer/is"
	"go.mongodb.org/mongo-driver/v2/bson"
)

func TestEncode_7_9_JSONNumbersKeepTheirValue(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	for text, want := range map[string]any{
		"0": int64(0), "-12": int64(-12), "9223372036854775807": int64(1<<63 - 1), "1.5": 1.5, "1e3": 1000.0,
		"9223372036854775808": 9223372036854775808.0, "9223372036854775809": decimal128(t, "9223372036854775809"),
		"0.12345678901234567890": decimal128(t, "0.12345678901234567890"), "1e400": decimal128(t, "1E+400"),
	} {
		is.Equal(encoded(t, json.Number(text), (*Encoder).JSONNumber), raw(t, want)) // text
	}
	is.Equal(encoded(t, json.Number(""), (*Encoder).JSONNumber).Type, bson.TypeNull)
	for _, text := range []string{"NaN", "Infinity", "x", "1.2345678901234567890123456789012345678901"} {
		n := json.Number(text)
		_, err := EncodeParams(&n, (*Encoder).JSONNumber)
		is.True(strings.Contains(err.Error(), "is not a number that BSON holds"))
	}
}

func TestEncode_7_9_ReadBackWhatTheDriverCannot(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	n, _ := new(big.Int).SetString("-123456789012345678901234567890", 10)
	v := encoded(t, *n, (*Encoder).BigInt)
	is.Equal(v, raw(t, n.String()))
	back, err := DecodeParams(v, (*Decoder).BigInt)
	is.NoErr(err)
	is.Equal(back.Cmp(n), 0)

	u, _ := url.Parse("https://ada@example.com/a?b=c#d")
	is.Equal(encoded(t, *u, (*Encoder).URL), raw(t, *u))
	is.Equal(encoded(t, bson.DateTime(1e12), (*Encoder).DateTime), raw(t, bson.DateTime(1e12)))
	is.Equal(encoded(t, bson.Binary{Subtype: 4, Data: make([]byte, 16)}, EncodeNative[bson.Binary]), raw(t, bson.Binary{Subtype: 4, Data: make([]byte, 16)}))
	is.Equal(encoded(t, bson.Regex{Pattern: "a"}, EncodeNative[bson.Regex]), raw(t, bson.Regex{Pattern: "a"}))

	is.Equal(encoded(t, json.RawMessage(`{"a":1}`), (*Encoder).JSON), raw(t, json.RawMessage(`{"a":1}`)))
	is.Equal(encoded(t, json.RawMessage(nil), (*Encoder).JSON).Type, bson.TypeNull)
	bad := json.RawMessage(`{`)
	_, err = EncodeParams(&bad, (*Encoder).JSON)
	is.Equal(err.Error(), "params: the json.RawMessage is not JSON")
}

type (
	place  struct{ X, Y byte }
	parsed string
	shelf  struct{ n int8 }
)

func (p place) MarshalText() ([]byte, error) {
	if p.X > 'z' {
		return nil, errTeapot
	}
	return []byte{p.X, p.Y}, nil
}

func (p *place) UnmarshalText(text []byte) error { p.X, p.Y = text[0], text[1]; return nil }

func (s *shelf) MarshalKey() (string, error) { return string(rune('a' + s.n%2)), nil }

func TestEncode_7_9_KeysOfMaps(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	of := func(v bson.RawValue) string { return bson.Raw(v.Value).String() }
	is.Equal(of(encoded(t, map[place]bool{{'b', '1'}: true, {'a', '2'}: false}, func(e *Encoder, p *map[place]bool) {
		EncodeMapOf(e, p, TextName[place], (*Encoder).Bool)
	})), `{"a2": false,"b1": true}`)
	is.Equal(of(encoded(t, map[int8]bool{-3: true, 20: false}, func(e *Encoder, p *map[int8]bool) {
		EncodeMapOf(e, p, IntName, (*Encoder).Bool)
	})), `{"-3": true,"20": false}`)
	is.Equal(of(encoded(t, map[uint64]bool{1 << 63: true}, func(e *Encoder, p *map[uint64]bool) {
		EncodeMapOf(e, p, UintName, (*Encoder).Bool)
	})), `{"9223372036854775808": true}`)
	is.Equal(of(encoded(t, map[parsed]bool{"x": true}, func(e *Encoder, p *map[parsed]bool) {
		EncodeMapOf(e, p, StringName, (*Encoder).Bool)
	})), `{"x": true}`)
	is.Equal(encoded(t, map[int8]bool(nil), func(e *Encoder, p *map[int8]bool) { EncodeMapOf(e, p, IntName, (*Encoder).Bool) }).Type, bson.TypeNull)

	m := map[shelf]bool{{1}: true, {3}: true}
	_, err := EncodeParams(&m, func(e *Encoder, p *map[shelf]bool) { EncodeMapOf(e, p, MarshaledName[shelf], (*Encoder).Bool) })
	is.Equal(err.Error(), "b: two keys of the map have this name")
	bad := map[place]bool{{'~', '1'}: true}
	_, err = EncodeParams(&bad, func(e *Encoder, p *map[place]bool) { EncodeMapOf(e, p, TextName[place], (*Encoder).Bool) })
	is.True(errors.Is(err, errTeapot))
}

func TestEncode_7_9_OnlyKnownValues(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	_, err := EncodeParams(new(string), func(e *Encoder, p *string) {
		start := e.Begin()
		e.Key("status")
		e.NotOneOf(`"open", "closed"`)
		e.String(p)
		e.End(start)
	})
	is.Equal(err.Error(), `status: want one of "open", "closed"`)
}
