package wire

import (
	"encoding/binary"
	"errors"
	"math"
	"strconv"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// maxBSON bounds what a text may become in memory. Small numbers in an array
// take seven times their text.
const maxBSON = 64 << 20

var errTooLarge = errors.New("the params are too large")

// builder writes BSON front to back. Lengths are filled in at the end of a
// document, types when the value is known.
type builder struct{ out []byte }

// begin starts a document or an array, and returns what end needs.
func (b *builder) begin() int {
	b.out = append(b.out, 0, 0, 0, 0)
	return len(b.out) - 4
}

func (b *builder) end(start int) {
	b.out = append(b.out, 0)
	binary.LittleEndian.PutUint32(b.out[start:], uint32(len(b.out)-start))
}

// field starts a field whose type follows with setType.
func (b *builder) field(key string) (at int, err error) {
	if len(b.out) > maxBSON {
		return 0, errTooLarge
	}
	at = len(b.out)
	b.out = append(b.out, 0)
	b.out = append(b.out, key...)
	b.out = append(b.out, 0)
	return at, nil
}

func (b *builder) item(i int) (at int, err error) { return b.field(strconv.Itoa(i)) }

func (b *builder) setType(at int, t bson.Type) { b.out[at] = byte(t) }

func (b *builder) drop(at int) { b.out = b.out[:at] }

func (b *builder) int32(v int32) { b.out = binary.LittleEndian.AppendUint32(b.out, uint32(v)) }

func (b *builder) int64(v int64) { b.out = binary.LittleEndian.AppendUint64(b.out, uint64(v)) }

func (b *builder) double(f float64) {
	b.out = binary.LittleEndian.AppendUint64(b.out, math.Float64bits(f))
}

func (b *builder) decimal(d bson.Decimal128) {
	high, low := d.GetBytes()
	b.out = binary.LittleEndian.AppendUint64(b.out, low)
	b.out = binary.LittleEndian.AppendUint64(b.out, high)
}

func (b *builder) string(s []byte) {
	b.int32(int32(len(s) + 1))
	b.out = append(b.out, s...)
	b.out = append(b.out, 0)
}

// specialise replaces the document from start on by what it stands for: a
// Buffer or a Decimal128 of Node. It leaves other documents alone.
func (b *builder) specialise(start int) bson.Type {
	doc := b.out[start:]
	switch {
	case hasPrefix(doc, bson.TypeString, "type"):
		if t, ok := b.buffer(start); ok {
			return t
		}
	case hasPrefix(doc, bson.TypeString, "$numberDecimal"):
		elements, err := bson.Raw(doc).Elements()
		if err != nil || len(elements) != 1 {
			break
		}
		if d, err := bson.ParseDecimal128(elements[0].Value().StringValue()); err == nil {
			b.drop(start)
			b.decimal(d)
			return bson.TypeDecimal128
		}
	}
	return bson.TypeEmbeddedDocument
}

// hasPrefix reports whether doc begins with a field of this type and key. It
// spares all other documents a closer look.
func hasPrefix(doc []byte, t bson.Type, key string) bool {
	return len(doc) > 6+len(key) && doc[4] == byte(t) && string(doc[5:5+len(key)]) == key && doc[5+len(key)] == 0
}

// buffer turns {type: "Buffer", data: [...]} into binary data, in the order of
// fields in which Node writes it.
func (b *builder) buffer(start int) (bson.Type, bool) {
	elements, err := bson.Raw(b.out[start:]).Elements()
	if err != nil || len(elements) < 2 || len(elements) > 3 || elements[0].Value().StringValue() != "Buffer" || elements[1].Key() != "data" {
		return 0, false
	}
	array, ok := elements[1].Value().ArrayOK()
	if !ok {
		return 0, false
	}
	values, err := array.Values()
	if err != nil {
		return 0, false
	}
	subtype := int32(bson.TypeBinaryGeneric)
	if len(elements) == 3 {
		if subtype, ok = elements[2].Value().Int32OK(); !ok || elements[2].Key() != "subtype" || subtype < 0 || subtype > 255 || subtype == int32(bson.TypeBinaryBinaryOld) {
			return 0, false
		}
	}
	data := make([]byte, len(values))
	for i, v := range values {
		n, ok := v.Int32OK()
		if !ok || n < 0 || n > 255 {
			return 0, false
		}
		data[i] = byte(n)
	}
	b.drop(start)
	b.int32(int32(len(data)))
	b.out = append(b.out, byte(subtype))
	b.out = append(b.out, data...)
	return bson.TypeBinary, true
}
