package echoes

import (
	"encoding"
	"encoding/binary"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// String writes a string.
func (e *Encoder) String(p *string) { e.text(bson.TypeString, *p) }

// text writes one of the types that BSON writes like a string.
func (e *Encoder) text(t bson.Type, s string) {
	if !utf8.ValidString(s) {
		e.failf(badText("string", s))
		return
	}
	e.put(t)
	e.buf = binary.LittleEndian.AppendUint32(e.buf, uint32(len(s)+1))
	e.buf = append(e.buf, s...)
	e.buf = append(e.buf, 0)
}

// badText says where text stops being UTF-8.
func badText(what, s string) string {
	at := 0
	for at < len(s) {
		r, n := utf8.DecodeRuneInString(s[at:])
		if r == utf8.RuneError && n == 1 {
			break
		}
		at += n
	}
	return "the " + what + " is not valid UTF-8 (at byte " + strconv.Itoa(at) + "): binary data belongs in a []byte"
}

// badKey says why a document cannot have a key, "" if it can.
func badKey(name string) string {
	switch {
	case !utf8.ValidString(name):
		return badText("key", name)
	case strings.IndexByte(name, 0) >= 0:
		return "the key contains a NUL byte"
	}
	return ""
}

// Bool writes a boolean.
func (e *Encoder) Bool(p *bool) {
	e.put(bson.TypeBoolean)
	if *p {
		e.buf = append(e.buf, 1)
	} else {
		e.buf = append(e.buf, 0)
	}
}

// Int writes an int32 when the value fits, else an int64.
func (e *Encoder) Int(p *int) { e.integer(int64(*p), true) }

// Int8 writes an int32.
func (e *Encoder) Int8(p *int8) { e.int32(int32(*p)) }

// Int16 writes an int32.
func (e *Encoder) Int16(p *int16) { e.int32(int32(*p)) }

// Int32 writes an int32.
func (e *Encoder) Int32(p *int32) { e.int32(*p) }

// Int64 writes an int64.
func (e *Encoder) Int64(p *int64) { e.integer(*p, e.minSize > 0) }

// Uint8 writes an int32.
func (e *Encoder) Uint8(p *uint8) { e.int32(int32(*p)) }

// Uint16 writes an int32.
func (e *Encoder) Uint16(p *uint16) { e.int32(int32(*p)) }

// Uint32 writes an int64.
func (e *Encoder) Uint32(p *uint32) { e.integer(int64(*p), e.minSize > 0) }

// Uint writes an int64. A value above that is a problem.
func (e *Encoder) Uint(p *uint) { e.uint64(uint64(*p)) }

// Uint64 writes an int64. A value above that is a problem.
func (e *Encoder) Uint64(p *uint64) { e.uint64(*p) }

func (e *Encoder) uint64(v uint64) {
	if v > math.MaxInt64 {
		e.failf(strconv.FormatUint(v, 10), " is more than an int64 holds, the largest integer of BSON: use bson.Decimal128")
		return
	}
	e.integer(int64(v), e.minSize > 0)
}

// integer writes an int64, or an int32 if that is allowed and enough.
func (e *Encoder) integer(v int64, small bool) {
	if small && v == int64(int32(v)) {
		e.int32(int32(v))
		return
	}
	e.put(bson.TypeInt64)
	e.buf = binary.LittleEndian.AppendUint64(e.buf, uint64(v))
}

func (e *Encoder) int32(v int32) {
	e.put(bson.TypeInt32)
	e.buf = binary.LittleEndian.AppendUint32(e.buf, uint32(v))
}

// Float64 writes a double.
func (e *Encoder) Float64(p *float64) { e.double(*p) }

// Float32 writes a double.
func (e *Encoder) Float32(p *float32) { e.double(float64(*p)) }

func (e *Encoder) double(v float64) {
	e.put(bson.TypeDouble)
	e.buf = binary.LittleEndian.AppendUint64(e.buf, math.Float64bits(v))
}

// Duration writes its nanoseconds as an int64.
func (e *Encoder) Duration(p *time.Duration) { e.integer(int64(*p), e.minSize > 0) }

// Time writes a date, which has milliseconds. A year outside of 0 to 9999, which
// the text form of dates cannot write, is a problem.
func (e *Encoder) Time(p *time.Time) {
	// The zone can move a year over the bounds.
	if year := p.UTC().Year(); year < 0 || year > 9999 {
		e.failf("the year ", strconv.Itoa(year), " is outside of 0 to 9999")
		return
	}
	e.put(bson.TypeDateTime)
	e.buf = binary.LittleEndian.AppendUint64(e.buf, uint64(p.UnixMilli()))
}

// ObjectID writes an ObjectID.
func (e *Encoder) ObjectID(p *bson.ObjectID) {
	e.put(bson.TypeObjectID)
	e.buf = append(e.buf, p[:]...)
}

// Decimal128 writes a Decimal128.
func (e *Encoder) Decimal128(p *bson.Decimal128) {
	high, low := p.GetBytes()
	e.put(bson.TypeDecimal128)
	e.buf = binary.LittleEndian.AppendUint64(e.buf, low)
	e.buf = binary.LittleEndian.AppendUint64(e.buf, high)
}

// Bytes writes binary data of the generic subtype.
func (e *Encoder) Bytes(p *[]byte) {
	if *p == nil {
		e.null()
		return
	}
	e.ByteArray(*p)
}

// ByteArray writes binary data of the generic subtype. It serves arrays:
// e.ByteArray(p.Hash[:]).
func (e *Encoder) ByteArray(src []byte) {
	e.binary(bson.TypeBinaryGeneric, src)
}

func (e *Encoder) null() { e.put(bson.TypeNull) }

// EncodeText writes the text of a type that marshals itself to text, such as
// netip.Addr.
func EncodeText[T any, PT marshalsText[T]](e *Encoder, p *T) {
	text, err := PT(p).MarshalText()
	if err != nil {
		e.fail(err)
		return
	}
	e.text(bson.TypeString, string(text))
}

type marshalsText[T any] interface {
	*T
	encoding.TextMarshaler
}

// Raw writes a document whose bytes are well formed at every level.
func (e *Encoder) Raw(p *bson.Raw) {
	if *p == nil {
		e.null()
		return
	}
	e.Value(byte(bson.TypeEmbeddedDocument), *p, nil)
}

// RawValue writes a value whose bytes are well formed at every level.
func (e *Encoder) RawValue(p *bson.RawValue) {
	if p.IsZero() {
		e.null()
		return
	}
	e.Value(byte(p.Type), p.Value, nil)
}

// Value writes what MarshalBSONValue of a type returned: a type, and bytes that
// are well formed at every level. An error is a problem.
func (e *Encoder) Value(t byte, b []byte, err error) {
	if err != nil {
		e.fail(err)
		return
	}
	d := NewDecoder(bson.RawValue{Type: bson.Type(t), Value: b})
	if d.err == nil {
		d.wellFormed()
	}
	if d.err != nil {
		if e.err == nil {
			e.fail(d.err.Err)
			e.err.Path = joinPaths(e.err.Path, d.err.Path)
		}
		return
	}
	e.put(bson.Type(t))
	e.buf = append(e.buf, b...)
}

// Document writes what MarshalBSON of a type returned, like Value.
func (e *Encoder) Document(b []byte, err error) {
	e.Value(byte(bson.TypeEmbeddedDocument), b, err)
}

func joinPaths(outer, inner string) string {
	if outer == "" || inner == "" || inner[0] == '[' {
		return outer + inner
	}
	return outer + "." + inner
}
