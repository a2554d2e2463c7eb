package echoes

import (
	"bytes"
	"encoding/binary"
	"math"
	"unicode/utf8"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// Raw reads a document and keeps its bytes, copied and checked to be well
// formed at every level. null gives nil.
func (d *Decoder) Raw(p *bson.Raw) {
	switch {
	case d.err != nil:
	case d.null():
		*p = nil
	case d.typ != bson.TypeEmbeddedDocument:
		d.failWant("document")
	case d.wellFormed():
		*p = bytes.Clone(d.buf[d.off:d.end])
	}
}

// RawValue reads any value and keeps its type and bytes, copied and checked to
// be well formed at every level. null is kept as null.
func (d *Decoder) RawValue(p *bson.RawValue) {
	if d.err == nil && d.wellFormed() {
		*p = bson.RawValue{Type: d.typ, Value: bytes.Clone(d.buf[d.off:d.end])}
	}
}

// wellFormed walks through the value under the cursor and leaves the cursor on
// it.
func (d *Decoder) wellFormed() bool {
	if d.typ == bson.TypeEmbeddedDocument || d.typ == bson.TypeArray || d.typ == bson.TypeCodeWithScope {
		// A copy, so that the cursor stays; a problem found by it is ours.
		walk := *d
		walk.skim()
		if walk.err != nil && d.err == nil {
			d.err = walk.err
		}
	}
	return d.err == nil
}

func (d *Decoder) skim() {
	if d.typ == bson.TypeCodeWithScope {
		d.code()
		return
	}
	for end := d.enter(d.typ, ""); d.Next(end); {
		switch d.typ {
		case bson.TypeEmbeddedDocument, bson.TypeArray, bson.TypeCodeWithScope:
			d.skim()
		}
	}
}

// M reads a document into a map whose values are as Any gives them. null gives
// nil.
func (d *Decoder) M(p *bson.M) {
	m := map[string]any(*p)
	Map(d, &m, (*Decoder).Any)
	if d.err == nil {
		*p = m
	}
}

// D reads a document into an ordered list whose values are as Any gives them.
// null gives nil.
func (d *Decoder) D(p *bson.D) {
	end := d.enter(bson.TypeEmbeddedDocument, "document")
	if end < 0 {
		if d.err == nil {
			*p = nil
		}
		return
	}
	doc := make(bson.D, 0, d.count(end, 32))
	for d.Next(end) {
		if !utf8.Valid(d.Key()) {
			d.failUTF8("key", d.Key())
			return
		}
		doc = append(doc, bson.E{Key: d.copied(d.Key())})
		d.Any(&doc[len(doc)-1].Value)
	}
	if d.err == nil {
		*p = doc
	}
}

// Any reads any value as the Go type that the driver chooses for it: bson.D,
// bson.A, string, int32, int64, float64, bool, bson.DateTime, bson.ObjectID,
// bson.Decimal128, bson.Binary and so on. null and undefined give nil.
func (d *Decoder) Any(p *any) {
	if d.err != nil {
		return
	}
	var v any
	b := d.buf[d.off:d.end]
	switch d.typ {
	case bson.TypeNull, bson.TypeUndefined:
	case bson.TypeString:
		v = take(d, (*Decoder).String)
	case bson.TypeEmbeddedDocument:
		v = take(d, (*Decoder).D)
	case bson.TypeArray:
		v = take(d, (*Decoder).array)
	case bson.TypeInt32:
		v = int32(binary.LittleEndian.Uint32(b))
	case bson.TypeInt64:
		v = int64(binary.LittleEndian.Uint64(b))
	case bson.TypeDouble:
		v = math.Float64frombits(binary.LittleEndian.Uint64(b))
	case bson.TypeBoolean:
		v = take(d, (*Decoder).Bool)
	case bson.TypeDateTime:
		v = bson.DateTime(binary.LittleEndian.Uint64(b))
	case bson.TypeObjectID:
		v = bson.ObjectID(b)
	case bson.TypeDecimal128:
		v = decimalAt(b).value()
	case bson.TypeBinary:
		if subtype, data, ok := d.subtype(); ok {
			v = bson.Binary{Subtype: subtype, Data: append([]byte{}, data...)}
		}
	case bson.TypeTimestamp:
		v = bson.Timestamp{T: binary.LittleEndian.Uint32(b[4:]), I: binary.LittleEndian.Uint32(b)}
	case bson.TypeRegex:
		v = d.regex()
	case bson.TypeDBPointer:
		v = bson.DBPointer{DB: d.content(b), Pointer: bson.ObjectID(b[len(b)-12:])}
	case bson.TypeJavaScript:
		v = bson.JavaScript(d.content(b))
	case bson.TypeSymbol:
		v = bson.Symbol(d.content(b))
	case bson.TypeCodeWithScope:
		v = d.code()
	case bson.TypeMinKey:
		v = bson.MinKey{}
	case bson.TypeMaxKey:
		v = bson.MaxKey{}
	}
	if d.err == nil {
		*p = v
	}
}

// take reads the value under the cursor with read.
func take[T any](d *Decoder, read func(*Decoder, *T)) T {
	var v T
	read(d, &v)
	return v
}

func (d *Decoder) array(p *bson.A) {
	s := []any(*p)
	Slice(d, &s, (*Decoder).Any)
	*p = s
}

// content copies the string with length prefix at the start of b.
func (d *Decoder) content(b []byte) string {
	s := b[4 : stringSize(b)-1]
	if !utf8.Valid(s) {
		d.failUTF8(typeName(d.typ), s)
		return ""
	}
	return d.copied(s)
}

func (d *Decoder) regex() bson.Regex {
	b := d.buf[d.off:d.end]
	if !utf8.Valid(b) {
		d.failUTF8("regex", b)
		return bson.Regex{}
	}
	pattern, options, _ := bytes.Cut(b[:len(b)-1], []byte{0})
	return bson.Regex{Pattern: string(pattern), Options: string(options)}
}

// code reads the code with scope under the cursor and leaves the cursor on its
// end. It holds the total length, a string and a document.
func (d *Decoder) code() bson.CodeWithScope {
	inner := d.buf[d.off+4 : d.end]
	n := stringSize(inner)
	if n < 0 || size(bson.TypeEmbeddedDocument, inner[n:]) != len(inner)-n {
		d.fail(errMalformed)
		return bson.CodeWithScope{}
	}
	text := d.content(inner)
	elem, end := d.elem, d.end
	d.typ, d.off = bson.TypeEmbeddedDocument, d.off+4+n
	scope := take(d, (*Decoder).D)
	// The scope is a part of this field: a path does not lead into it.
	d.elem, d.pos, d.end = elem, end, end
	return bson.CodeWithScope{Code: bson.JavaScript(text), Scope: scope}
}
