package echoes

import (
	"bytes"
	"encoding"
	"net/url"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// Text reads a string into a type that parses text, such as netip.Addr, and
// binary data of any subtype into one that also parses that, such as a UUID.
// null gives the zero value, anything else is a problem.
//
// The driver does not write such types as text: it ignores MarshalText, and
// stores what the type is made of. TryText leaves room for that form; a struct
// with nothing but unexported fields has none, and arrives as an empty document.
func Text[T any, PT textual[T]](d *Decoder, p *T) {
	switch {
	case TryText[T, PT](d, p):
	case d.typ == bson.TypeEmbeddedDocument && d.end-d.off == len(emptyDocument):
		d.failf("want string, got an empty document, as which the driver stores types without exported fields: publish them as text")
	default:
		d.failWant("string")
	}
}

const emptyDocument = "\x05\x00\x00\x00\x00"

type textual[T any] interface {
	*T
	encoding.TextUnmarshaler
}

// TryText is Text for a type that has another form too, the one in which the
// driver stores it. It returns false, and has done nothing, when the value is in
// that form:
//
//	if !echoes.TryText(d, p) {
//		echoes.IntOf(d, p)
//	}
func TryText[T any, PT textual[T]](d *Decoder, p *T) bool {
	if d.err != nil {
		return true
	}
	var v T
	switch d.typ {
	case bson.TypeNull, bson.TypeUndefined:
	case bson.TypeString:
		b, ok := d.text()
		if !ok {
			return true
		}
		if err := PT(&v).UnmarshalText(b); err != nil {
			d.fail(err)
			return true
		}
	case bson.TypeBinary:
		u, ok := any(&v).(encoding.BinaryUnmarshaler)
		if !ok {
			return false
		}
		_, b, ok := d.subtype()
		if !ok {
			return true
		}
		if err := u.UnmarshalBinary(bytes.Clone(b)); err != nil {
			d.fail(err)
			return true
		}
	default:
		return false
	}
	*p = v
	return true
}

// URL reads a string with url.Parse, which is also the form in which the driver
// stores a url.URL.
func (d *Decoder) URL(p *url.URL) {
	var s string
	switch {
	case d.err != nil:
	case d.null():
		*p = url.URL{}
	default:
		if d.String(&s); d.err != nil {
			return
		}
		u, err := url.Parse(s)
		if err != nil {
			d.fail(err)
			return
		}
		*p = *u
	}
}
