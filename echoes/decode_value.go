package echoes

import (
	"encoding/binary"
	"strconv"
	"time"
	"unicode/utf8"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// String reads a string of valid UTF-8.
func (d *Decoder) String(p *string) { StringOf(d, p) }

// StringOf is String for every string type, named ones included.
func StringOf[T ~string](d *Decoder, p *T) {
	if d.err != nil {
		return
	}
	if d.typ != bson.TypeString {
		if d.null() {
			*p = ""
		} else {
			d.failWant("string")
		}
		return
	}
	if b, ok := d.text(); ok {
		*p = T(d.copied(b))
	}
}

// text returns the content of the string under the cursor without copying it.
func (d *Decoder) text() ([]byte, bool) {
	b := d.buf[d.off+4 : d.end-1 : d.end-1]
	if !utf8.Valid(b) {
		d.failUTF8("string", b)
		return nil, false
	}
	return b, true
}

func (d *Decoder) failUTF8(what string, b []byte) {
	at := 0
	for at < len(b) {
		r, n := utf8.DecodeRune(b[at:])
		if r == utf8.RuneError && n == 1 {
			break
		}
		at += n
	}
	d.failf("the ", what, " is not valid UTF-8 (at byte ", strconv.Itoa(at), ")")
}

// Bool reads a boolean. A number is not one.
func (d *Decoder) Bool(p *bool) { BoolOf(d, p) }

// BoolOf is Bool for every boolean type, named ones included.
func BoolOf[T ~bool](d *Decoder, p *T) {
	switch {
	case d.err != nil:
	case d.typ == bson.TypeBoolean && d.buf[d.off] <= 1:
		*p = d.buf[d.off] == 1
	case d.typ == bson.TypeBoolean:
		d.fail(errMalformed)
	case d.null():
		*p = false
	default:
		d.failWant("bool")
	}
}

// Time reads a date, or text in RFC 3339 as JSON has it. The result is in UTC;
// a date has milliseconds, text up to nanoseconds.
func (d *Decoder) Time(p *time.Time) {
	if d.err != nil {
		return
	}
	switch d.typ {
	case bson.TypeDateTime:
		*p = time.UnixMilli(int64(binary.LittleEndian.Uint64(d.buf[d.off:]))).UTC()
	case bson.TypeString:
		var t time.Time
		b, ok := d.text()
		if !ok {
			return
		}
		if err := t.UnmarshalText(b); err != nil {
			d.failf("want date or RFC 3339 text, got string ", quoteShort(b))
			return
		}
		*p = t.UTC()
	case bson.TypeNull, bson.TypeUndefined:
		*p = time.Time{}
	default:
		d.failWant("date or RFC 3339 text")
	}
}

// Duration reads a whole number of nanoseconds, as the driver stores a
// time.Duration, or text like "1m30s".
func (d *Decoder) Duration(p *time.Duration) {
	if d.err != nil || d.typ != bson.TypeString {
		IntOf(d, p)
		return
	}
	b, ok := d.text()
	if !ok {
		return
	}
	v, err := time.ParseDuration(string(b))
	if err != nil {
		d.failf("want a duration like 1m30s, got string ", quoteShort(b))
		return
	}
	*p = v
}

// Bytes reads binary data of the generic subtypes 0 and 2. Empty data gives an
// empty slice, null gives nil.
func (d *Decoder) Bytes(p *[]byte) {
	if d.err == nil && d.null() {
		*p = nil
		return
	}
	if b, ok := d.binary(); ok {
		*p = append(make([]byte, 0, len(b)), b...)
	}
}

// ByteArray reads binary data like Bytes into dst, which has to be just as
// long. It serves arrays: d.ByteArray(p.Hash[:]). null gives zeros.
func (d *Decoder) ByteArray(dst []byte) {
	if d.err == nil && d.null() {
		clear(dst)
		return
	}
	b, ok := d.binary()
	switch {
	case !ok:
	case len(b) != len(dst):
		d.failf("want ", strconv.Itoa(len(dst)), " bytes, got ", strconv.Itoa(len(b)))
	default:
		copy(dst, b)
	}
}

// binary returns the binary data under the cursor without copying it.
func (d *Decoder) binary() ([]byte, bool) {
	if d.err != nil {
		return nil, false
	}
	if d.typ != bson.TypeBinary {
		d.failWant("binary")
		return nil, false
	}
	subtype, b, ok := d.subtype()
	if !ok {
		return nil, false
	}
	if subtype != bson.TypeBinaryGeneric && subtype != bson.TypeBinaryBinaryOld {
		d.failf("want binary of subtype 0 or 2, got subtype ", strconv.Itoa(int(subtype)))
		return nil, false
	}
	return b, true
}

// subtype takes the binary under the cursor apart. Subtype 2 repeats the length
// inside.
func (d *Decoder) subtype() (byte, []byte, bool) {
	subtype, b := d.buf[d.off+4], d.buf[d.off+5:d.end:d.end]
	if subtype == bson.TypeBinaryBinaryOld {
		if n := lengthAt(b, 0); n < 0 || n != len(b)-4 {
			d.fail(errMalformed)
			return 0, nil, false
		}
		b = b[4:]
	}
	return subtype, b, true
}

// ObjectID reads an ObjectID, or the 24 hexadecimal digits that JSON has for
// one.
func (d *Decoder) ObjectID(p *bson.ObjectID) {
	if d.err != nil {
		return
	}
	switch d.typ {
	case bson.TypeObjectID:
		copy(p[:], d.buf[d.off:d.end])
	case bson.TypeString:
		b, ok := d.text()
		if !ok {
			return
		}
		id, err := bson.ObjectIDFromHex(string(b))
		if err != nil {
			d.failf("want objectId or its 24 hexadecimal digits, got string ", quoteShort(b))
			return
		}
		*p = id
	case bson.TypeNull, bson.TypeUndefined:
		*p = bson.ObjectID{}
	default:
		d.failWant("objectId")
	}
}

// quoteShort quotes text of the payload for an error, cut to a length that
// suits a log line.
func quoteShort(b []byte) string {
	if len(b) > 40 {
		return strconv.Quote(string(b[:40])) + "…"
	}
	return strconv.Quote(string(b))
}
