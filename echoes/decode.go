package echoes

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/bits"
	"strings"
	"sync"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// maxDepth bounds how deep documents and arrays may nest in a payload. Servers
// refuse documents nested deeper than 180 levels, so nothing that was stored is
// refused here, while a handmade payload cannot exhaust the stack.
const maxDepth = 200

// Decoder reads one BSON value without reflection (spec 7.3). The code that
// echoesgen writes drives it; a decoder written by hand has the same shape:
//
//	func decodeInvoice(d *echoes.Decoder, p *Invoice) {
//		var seen uint64
//		for end := d.Begin(); d.Next(end); {
//			switch string(d.Key()) {
//			case "id":
//				if d.Present() {
//					seen |= 1 << 0
//				}
//				d.String(&p.ID)
//			case "lines":
//				echoes.Slice(d, &p.Lines, decodeLine)
//			}
//		}
//		d.Require(seen, "id")
//		d.Validate(p)
//	}
//
// The rules of all readers:
//
//   - null, undefined and an absent field give the zero value, or nil where the
//     type has it. Fields without a case are skipped.
//   - Numbers convert between int32, int64, double and Decimal128 and every Go
//     number only when nothing is lost.
//   - What a reader stores is a copy: nothing keeps the payload's bytes alive. Short
//     strings share blocks of 512 bytes. ZeroCopy changes that.
//   - The first problem stays: from then on Next returns false and no reader
//     stores anything. Err names the path of that problem.
//   - When a key occurs twice the last value wins, and documents merge, as in the
//     driver.
//   - No input makes a Decoder panic.
//
// A loop over a document has to run until Next returns false; leaving it early
// loses the position. A Decoder belongs to one goroutine.
type Decoder struct {
	buf  []byte
	root bson.Type

	// The value under the cursor: its type, its bytes buf[off:end], and its key
	// buf[key:keyEnd]. Offsets, since a slice would be a pointer more to write for
	// every field.
	typ         bson.Type
	off, end    int
	key, keyEnd int

	pos   int // where Next goes on
	elem  int // offset to blame for a problem: see path; -1 is the root
	depth int
	err   *DecodeError

	block    *strings.Builder // of short strings; see copied
	zeroCopy bool
}

// NewDecoder returns a decoder whose cursor stands on v itself, which may be
// any BSON value. A zero v counts as null. The decoder reads v.Value in place
// and never changes it.
func NewDecoder(v bson.RawValue) *Decoder {
	d := &Decoder{}
	d.reset(v)
	return d
}

func (d *Decoder) reset(v bson.RawValue) {
	*d = Decoder{block: d.block, zeroCopy: d.zeroCopy, buf: v.Value, root: v.Type, typ: v.Type, end: len(v.Value), pos: len(v.Value), elem: -1}
	if v.Type == 0 && len(v.Value) == 0 {
		d.typ = bson.TypeNull
		return
	}
	if size(v.Type, v.Value) != len(v.Value) {
		d.fail(errMalformed)
	}
}

// DecodeParams decodes v with decode and returns the result, or the zero value
// and a *DecodeError that names the path of the first problem.
func DecodeParams[P any](v bson.RawValue, decode func(*Decoder, *P)) (P, error) {
	d := decoders.Get().(*Decoder)
	var p P
	d.reset(v)
	if d.err == nil {
		decode(d, &p)
	}
	err := d.Err()
	*d = Decoder{block: d.block} // nothing keeps the payload
	decoders.Put(d)
	if err != nil {
		return *new(P), err
	}
	return p, nil
}

// decoders are those that are not in use. A decoder escapes, since it goes to a
// function that is not known here.
var decoders = sync.Pool{New: func() any { return new(Decoder) }}

// Err returns the first problem as a *DecodeError, nil if there is none.
func (d *Decoder) Err() error {
	if d.err == nil {
		return nil
	}
	return d.err
}

// Begin enters the document under the cursor and returns the bound that Next
// takes. On null there is nothing to enter and Next returns false at once; any
// other type is a problem.
func (d *Decoder) Begin() int {
	return d.enter(bson.TypeEmbeddedDocument, "document")
}

// enter is Begin for documents and arrays. The bounds of the value were checked
// when the cursor reached it.
func (d *Decoder) enter(t bson.Type, want string) int {
	switch {
	case d.err != nil || d.null():
		return -1
	case d.typ != t:
		d.failWant(want)
		return -1
	case d.buf[d.end-1] != 0:
		d.fail(errMalformed)
		return -1
	case d.depth >= maxDepth:
		d.fail(errTooDeep)
		return -1
	}
	d.depth++
	d.pos = d.off + 4
	return d.end - 1
}

// Next moves to the next field of the document that Begin entered and checks
// the bounds of its key and value. It returns false at the end, after a problem
// and when Begin found null.
func (d *Decoder) Next(end int) bool {
	if end < 0 || d.err != nil {
		return false
	}
	start := d.pos
	if start >= end {
		// What is checked from here on (Require, Validate) concerns the
		// document itself. Its last byte belongs to no field, so it stands for
		// the document when a path is looked for.
		d.pos = end + 1
		d.elem = end
		d.typ = bson.TypeEmbeddedDocument
		d.depth--
		return false
	}
	d.elem = start
	n := textEnd(d.buf[start+1 : end])
	if n < 0 {
		d.fail(errMalformed)
		return false
	}
	off := start + n + 2
	t := bson.Type(d.buf[start])
	n = size(t, d.buf[off:end])
	if n < 0 {
		d.keyEnd = d.key
		d.fail(errMalformed)
		return false
	}
	d.key, d.keyEnd = start+1, off-1
	d.typ, d.off, d.end = t, off, off+n
	d.pos = off + n
	return true
}

// Key returns the current field's name. It is a view of the payload, meant for
// `switch string(d.Key())`, which does not allocate; it must not be kept or
// changed.
func (d *Decoder) Key() []byte { return d.buf[d.key:d.keyEnd:d.keyEnd] }

// Present reports whether the value under the cursor is there, which null and
// undefined are not. A required field is seen only when it is present.
func (d *Decoder) Present() bool { return !d.null() }

func (d *Decoder) null() bool {
	return d.typ == bson.TypeNull || d.typ == bson.TypeUndefined
}

// absent reports whether the value that was just read, a scalar or a whole
// document, was null: then it counts as a field that is not there, and the
// demands on its content do not apply. The payload itself has no field around
// it that could be missing, so the demands always apply to it.
func (d *Decoder) absent() bool { return d.elem >= 0 && d.null() }

// Require is called after the loop over a document: bit i of seen says that the
// field names[i] was present, and the first one missing is a problem. A type
// with more than 64 required fields calls it once for each 64 of them. A field
// that is null as a whole is not a document that lacks fields.
func (d *Decoder) Require(seen uint64, names ...string) {
	if d.err != nil || seen == 1<<len(names)-1 || d.absent() {
		return
	}
	var missing []string
	for i, name := range names {
		if seen&(1<<i) == 0 {
			missing = append(missing, name)
		}
	}
	if len(missing) == 0 {
		return
	}
	problem := "required field is missing"
	if len(missing) > 1 {
		problem += " (so are " + strings.Join(missing[1:], ", ") + ")"
	}
	d.fail(errors.New(problem))
	d.err.Path = joinKey(d.err.Path, missing[0])
}

// Validator is implemented by parameter types that check themselves.
type Validator interface {
	// Validate returns what is wrong with the value, nil if nothing is. It is
	// called with a completely decoded value.
	Validate() error
}

// Validate calls v.Validate when the value just read was decoded without a
// problem and was not null, and makes its error a problem at that value's path.
// The original error stays reachable by errors.Is and errors.As.
func (d *Decoder) Validate(v Validator) {
	if d.err == nil && !d.absent() {
		d.Check(v.Validate())
	}
}

// Check makes err, if there is one, a problem at the path of the value just
// read. It ignores err when that value was null or there is a problem already.
func (d *Decoder) Check(err error) {
	if err != nil && d.err == nil && !d.absent() {
		d.fail(err)
	}
}

// size returns the length of a value of type t at the start of b, or -1 when it
// does not fit into b or the type is unknown. It is the one place where lengths
// of the payload are trusted.
func size(t bson.Type, b []byte) int {
	n := int(fixedSize[t]) - 1
	switch t {
	case bson.TypeString, bson.TypeJavaScript, bson.TypeSymbol:
		n = stringSize(b)
	case bson.TypeEmbeddedDocument, bson.TypeArray:
		n = lengthAt(b, 5)
	case bson.TypeBinary:
		// Length, subtype, data.
		if m := lengthAt(b, 0); m >= 0 && m <= len(b)-5 {
			n = m + 5
		}
	case bson.TypeRegex:
		if i := bytes.IndexByte(b, 0); i >= 0 {
			if j := bytes.IndexByte(b[i+1:], 0); j >= 0 {
				n = i + j + 2
			}
		}
	case bson.TypeDBPointer:
		if m := stringSize(b); m >= 0 {
			n = m + 12
		}
	case bson.TypeCodeWithScope:
		// Total length, string, document.
		n = lengthAt(b, 4+5+5)
	}
	if n > len(b) {
		return -1
	}
	return n
}

// textEnd returns the offset of the first zero byte of b, -1 if there is none. Keys
// are short: most end within the first eight bytes, which are looked at together.
func textEnd(b []byte) int {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	if len(b) >= 8 {
		word := binary.LittleEndian.Uint64(b)
		// The lowest top bit that stays is that of the first zero byte.
		if zeros := (word - ones) &^ word & tops; zeros != 0 {
			return bits.TrailingZeros64(zeros) / 8
		}
	}
	return bytes.IndexByte(b, 0)
}

// fixedSize holds the size of the types of one size, plus one.
var fixedSize = [256]uint8{
	bson.TypeInt32: 5, bson.TypeInt64: 9, bson.TypeDouble: 9, bson.TypeDateTime: 9, bson.TypeTimestamp: 9, bson.TypeObjectID: 13,
	bson.TypeDecimal128: 17, bson.TypeBoolean: 2, bson.TypeNull: 1, bson.TypeUndefined: 1, bson.TypeMinKey: 1, bson.TypeMaxKey: 1,
}

// lengthAt reads a length of at least least from the start of b, -1 if there is
// none.
func lengthAt(b []byte, least int) int {
	if len(b) < 4 {
		return -1
	}
	n := int32(binary.LittleEndian.Uint32(b))
	if int(n) < least || int(n) > len(b) {
		return -1
	}
	return int(n)
}

// stringSize returns the size of a string with its length prefix, -1 if b does
// not hold it.
func stringSize(b []byte) int {
	if n := lengthAt(b, 1); n > 0 && n <= len(b)-4 && b[3+n] == 0 {
		return 4 + n
	}
	return -1
}
