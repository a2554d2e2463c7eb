package echoes

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"strconv"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// JSON reads any value that JSON has a form for as JSON text, to be decoded by
// the listener. Binary data of subtype 0 is taken for such text itself, which is
// how the driver stores a json.RawMessage, and has to be valid. In all other
// places binary data becomes base64, a date RFC 3339 text in UTC, an ObjectID its
// hexadecimal digits and a Decimal128 a number. Types without such a form, NaN
// and infinities are problems. null gives nil.
func (d *Decoder) JSON(p *json.RawMessage) {
	if d.err != nil {
		return
	}
	if d.null() {
		*p = nil
		return
	}
	var out []byte
	if d.typ == bson.TypeBinary {
		d.Bytes(&out)
		if d.err == nil && !json.Valid(out) {
			d.failf("the binary data is not JSON")
		}
	} else {
		out = d.appendJSON(nil)
	}
	if d.err == nil {
		*p = out
	}
}

// appendJSON appends the value under the cursor and leaves the cursor behind it.
func (d *Decoder) appendJSON(out []byte) []byte {
	b := d.buf[d.off:d.end]
	switch d.typ {
	case bson.TypeNull, bson.TypeUndefined:
		return append(out, "null"...)
	case bson.TypeBoolean:
		return strconv.AppendBool(out, take(d, (*Decoder).Bool))
	case bson.TypeInt32, bson.TypeInt64, bson.TypeDouble, bson.TypeDecimal128:
		out, _ = d.appendNumber(out)
		return out
	case bson.TypeString:
		return appendJSONText(out, take(d, (*Decoder).String))
	case bson.TypeObjectID:
		return appendJSONText(out, bson.ObjectID(b).Hex())
	case bson.TypeDateTime:
		text, err := time.UnixMilli(int64(binary.LittleEndian.Uint64(b))).UTC().MarshalText()
		if err != nil {
			d.failf("the date has no RFC 3339 form: its year is not between 0 and 9999")
		}
		return appendJSONText(out, string(text))
	case bson.TypeBinary:
		_, data, _ := d.subtype()
		return appendJSONText(out, base64.StdEncoding.EncodeToString(data))
	case bson.TypeArray:
		return d.appendJSONElements(out, '[', ']')
	case bson.TypeEmbeddedDocument:
		return d.appendJSONElements(out, '{', '}')
	}
	d.failf("want a value that JSON has, got ", typeName(d.typ))
	return out
}

func (d *Decoder) appendJSONElements(out []byte, first, last byte) []byte {
	named := d.typ == bson.TypeEmbeddedDocument
	out = append(out, first)
	end := d.enter(d.typ, "")
	for n := 0; d.Next(end); n++ {
		if n > 0 {
			out = append(out, ',')
		}
		if named {
			out = append(appendJSONText(out, d.MapKey()), ':')
		}
		out = d.appendJSON(out)
	}
	return append(out, last)
}

// appendJSONText appends a string of valid UTF-8, or none after a problem.
func appendJSONText(out []byte, s string) []byte {
	text, err := json.Marshal(s)
	if err != nil {
		return out // strings have a form, always
	}
	return append(out, text...)
}
