package wire

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"
	"unicode/utf8"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// maxDepth bounds how deep documents and arrays may nest, as in the decoder of
// package echoes.
const maxDepth = 200

// lastDate is the last date that JavaScript has, in milliseconds.
const lastDate = 8.64e15

var (
	errTooDeep = fmt.Errorf("nested deeper than %d levels", maxDepth)
	errUTF8    = errors.New("text that is not valid UTF-8")
)

// Encode returns the text of an event with these params. The error names the
// path to a value that has no form there.
func Encode(params bson.RawValue) ([]byte, error) {
	e := encoder{out: make([]byte, 0, len(params.Value)*5/4+32)}
	e.out = append(e.out, `{"params":`...)
	if err := e.value(params, 0); err != nil {
		return nil, err.named("params")
	}
	return append(e.out, '}'), nil
}

// located is an error with the path to where it arose, built on the way up.
type located struct {
	path string
	err  error
}

func (l *located) Error() string { return l.path + ": " + l.err.Error() }
func (l *located) Unwrap() error { return l.err }

func (l *located) named(key string) *located {
	switch {
	case l.path == "" || l.path[0] == '[':
		l.path = key + l.path
	default:
		l.path = key + "." + l.path
	}
	return l
}

func (l *located) indexed(i int) *located { return l.named("[" + strconv.Itoa(i) + "]") }

func problem(err error) *located { return &located{err: err} }

type encoder struct{ out []byte }

func (e *encoder) value(v bson.RawValue, depth int) *located {
	malformed := problem(errors.New("the value is malformed"))
	switch v.Type {
	case bson.TypeNull, bson.TypeUndefined:
		e.out = append(e.out, "null"...)
	case bson.TypeBoolean:
		b, ok := v.BooleanOK()
		if !ok {
			return malformed
		}
		e.out = strconv.AppendBool(e.out, b)
	case bson.TypeInt32:
		n, ok := v.Int32OK()
		if !ok {
			return malformed
		}
		e.out = strconv.AppendInt(e.out, int64(n), 10)
	case bson.TypeInt64:
		n, ok := v.Int64OK()
		if !ok {
			return malformed
		}
		e.out = strconv.AppendInt(e.out, n, 10)
	case bson.TypeDouble:
		f, ok := v.DoubleOK()
		if !ok {
			return malformed
		}
		e.double(f)
	case bson.TypeString:
		s, ok := v.StringValueOK()
		if !ok {
			return malformed
		}
		return e.text(s)
	case bson.TypeDateTime:
		ms, ok := v.DateTimeOK()
		if !ok {
			return malformed
		}
		return e.date(ms)
	case bson.TypeObjectID:
		id, ok := v.ObjectIDOK()
		if !ok {
			return malformed
		}
		e.out = append(e.out, '"')
		e.out = hex.AppendEncode(e.out, id[:])
		e.out = append(e.out, '"')
	case bson.TypeDecimal128:
		d, ok := v.Decimal128OK()
		if !ok {
			return malformed
		}
		e.out = append(e.out, `{"$numberDecimal":"`...)
		e.out = append(e.out, d.String()...)
		e.out = append(e.out, `"}`...)
	case bson.TypeBinary:
		subtype, data, ok := v.BinaryOK()
		if !ok {
			return malformed
		}
		e.binary(subtype, data)
	case bson.TypeEmbeddedDocument, bson.TypeArray:
		return e.container(v, depth+1)
	default:
		return problem(fmt.Errorf("a value of the BSON type %s has no form on Kafka: publish it as text, a number or a document", v.Type))
	}
	return nil
}

func (e *encoder) container(v bson.RawValue, depth int) *located {
	if depth > maxDepth {
		return problem(errTooDeep)
	}
	elements, err := bson.Raw(v.Value).Elements()
	if err != nil {
		return problem(err)
	}
	array := v.Type == bson.TypeArray
	open, end := byte('{'), byte('}')
	if array {
		open, end = '[', ']'
	}
	e.out = append(e.out, open)
	for i, element := range elements {
		if i > 0 {
			e.out = append(e.out, ',')
		}
		if array {
			if l := e.value(element.Value(), depth); l != nil {
				return l.indexed(i)
			}
			continue
		}
		key := element.Key()
		if l := e.text(key); l != nil {
			return l.named(strconv.QuoteToASCII(key))
		}
		e.out = append(e.out, ':')
		if l := e.value(element.Value(), depth); l != nil {
			return l.named(key)
		}
	}
	e.out = append(e.out, end)
	return nil
}

// double writes f so that it reads as a double again.
func (e *encoder) double(f float64) {
	switch {
	case math.IsNaN(f):
		e.out = append(e.out, "NaN"...)
		return
	case math.IsInf(f, 0):
		if f < 0 {
			e.out = append(e.out, '-')
		}
		e.out = append(e.out, "Infinity"...)
		return
	}
	format := byte('f')
	if abs := math.Abs(f); abs != 0 && (abs < 1e-6 || abs >= 1e21) {
		format = 'e'
	}
	start := len(e.out)
	e.out = strconv.AppendFloat(e.out, f, format, -1, 64)
	if format == 'f' && bytes.IndexByte(e.out[start:], '.') < 0 {
		e.out = append(e.out, ".0"...)
	}
}

func (e *encoder) date(ms int64) *located {
	if math.Abs(float64(ms)) > lastDate {
		return problem(fmt.Errorf("the date of %d ms lies beyond every date of JavaScript", ms))
	}
	t := time.UnixMilli(ms).UTC()
	if year := t.Year(); year < 0 || year > 9999 {
		sign := '+'
		if year < 0 {
			sign, year = '-', -year
		}
		e.out = fmt.Appendf(e.out, `new Date("%c%06d%s")`, sign, year, t.Format("-01-02T15:04:05.000Z"))
		return nil
	}
	e.out = t.AppendFormat(e.out, `"2006-01-02T15:04:05.000Z"`)
	return nil
}

func (e *encoder) binary(subtype byte, data []byte) {
	e.out = append(e.out, `{"type":"Buffer","data":[`...)
	for i, b := range data {
		if i > 0 {
			e.out = append(e.out, ',')
		}
		e.out = strconv.AppendUint(e.out, uint64(b), 10)
	}
	e.out = append(e.out, ']')
	// The old form of generic data, subtype 2, is generic data.
	if subtype != bson.TypeBinaryGeneric && subtype != bson.TypeBinaryBinaryOld {
		e.out = append(e.out, `,"subtype":`...)
		e.out = strconv.AppendUint(e.out, uint64(subtype), 10)
	}
	e.out = append(e.out, '}')
}

// text writes a string. The two line separators are escaped because older
// JavaScript does not allow them in a string.
func (e *encoder) text(s string) *located {
	const digits = "0123456789abcdef"
	if !utf8.ValidString(s) {
		return problem(errUTF8)
	}
	e.out = append(e.out, '"')
	from := 0
	for i := 0; i < len(s); i++ {
		c := s[i]
		separator := c == 0xe2 && (s[i:i+3] == "\u2028" || s[i:i+3] == "\u2029")
		if c >= ' ' && c != '"' && c != '\\' && !separator {
			continue
		}
		e.out = append(e.out, s[from:i]...)
		switch {
		case separator:
			e.out = append(e.out, '\\', 'u', '2', '0', '2', digits[s[i+2]&0xf])
			i += 2
		case c == '"' || c == '\\':
			e.out = append(e.out, '\\', c)
		case c == '\n':
			e.out = append(e.out, '\\', 'n')
		default:
			e.out = append(e.out, '\\', 'u', '0', '0', digits[c>>4], digits[c&0xf])
		}
		from = i + 1
	}
	e.out = append(e.out, s[from:]...)
	e.out = append(e.out, '"')
	return nil
}
