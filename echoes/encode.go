package echoes

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"sync"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// Encoder writes one BSON value without reflection (spec 7.9). The code that
// echoesgen writes for a type with //echoes:topic drives it, as the mirror image
// of a decode function:
//
//	func encodeInvoice(e *echoes.Encoder, p *Invoice) {
//		start := e.Begin()
//		e.Key("id")
//		e.String(&p.ID)
//		e.Key("lines")
//		echoes.EncodeSlice(e, &p.Lines, encodeLine)
//		e.End(start)
//		e.Validate(p)
//	}
//
// The bytes are those of the MongoDB driver for the same value, wherever the
// driver's form can be decoded again without loss:
//
//   - int is written as int32 where it fits, int64 and the larger unsigned kinds
//     as int64, smaller kinds as int32; the tag option minsize takes int32 where
//     a value fits.
//   - A nil pointer, slice, map or interface is null; an empty slice or map stays
//     empty.
//   - time.Time is written in milliseconds of UTC.
//
// These differ from the driver's:
//
//   - The keys of a map are sorted, so that a value has one encoding.
//   - A type that parses text and has no exported fields, which the driver stores
//     as an empty document, is written as text.
//   - bson.Raw without bytes and a zero bson.RawValue are null.
//   - Text that is not UTF-8, a key with a NUL byte, a year outside of 0 to 9999
//     and a nil field that is required are problems, since some reader could not
//     read them. NaN and the infinities are numbers like others.
//
// The first problem stays, and Err names its path. An Encoder is made by
// EncodeParams and belongs to one goroutine.
type Encoder struct {
	buf []byte // the type of the value as a whole, then its bytes
	at  int    // where the type of the value being written belongs
	err *EncodeError

	depth   int
	minSize int      // how many fields around ask for it
	keys    []string // of the maps being written, each sorted
}

// EncodeError says why parameters cannot be encoded. Publishing returns it
// inside an *InvalidEventError.
type EncodeError struct {
	// Path leads to the offending value, as in lines[0].price. It is empty when
	// the value as a whole is at fault. A path that is longer than 300 bytes lacks
	// its middle.
	Path string
	// Err is the problem, or what Validate returned.
	Err error
}

// Error gives "lines[0].note: the string is not valid UTF-8 (at byte 3)".
func (e *EncodeError) Error() string {
	if e.Path == "" {
		return "params: " + e.Err.Error()
	}
	return e.Path + ": " + e.Err.Error()
}

// Unwrap returns the problem itself.
func (e *EncodeError) Unwrap() error { return e.Err }

// encoders keeps the buffers of encoders. What is larger than maxPooled is left
// to the garbage collector.
var encoders = sync.Pool{New: func() any { return new(Encoder) }}

const maxPooled = 256 << 10

// EncodeParams encodes *p with encode and returns the result, whose bytes belong
// to the caller, or an *EncodeError that names the path of the first problem. A
// panic of the type's own methods is such a problem. *p is not changed, and must
// not be changed meanwhile.
func EncodeParams[P any](p *P, encode func(*Encoder, *P)) (v bson.RawValue, err error) {
	e := encoders.Get().(*Encoder)
	e.reset()
	defer func() {
		if r := recover(); r != nil {
			e.fail(fmt.Errorf("its encoding panicked: %v", r))
			v, err = bson.RawValue{}, e.err
		}
		if cap(e.buf) <= maxPooled {
			clear(e.keys[:cap(e.keys)]) // they hold on to text of the value
			e.err = nil
			encoders.Put(e)
		}
	}()
	encode(e, p)
	if e.err != nil {
		return bson.RawValue{}, e.err
	}
	return bson.RawValue{Type: bson.Type(e.buf[0]), Value: bytes.Clone(e.buf[1:])}, nil
}

func (e *Encoder) reset() {
	*e = Encoder{buf: append(e.buf[:0], 0), keys: e.keys[:0]}
}

// Err returns the first problem as an *EncodeError, nil if there is none.
func (e *Encoder) Err() error {
	if e.err == nil {
		return nil
	}
	return e.err
}

// Begin begins a document and returns what End needs.
func (e *Encoder) Begin() int { return e.begin(bson.TypeEmbeddedDocument) }

// begin opens a document or an array. Its length stays 0 until the end, which is
// how path knows it as open.
func (e *Encoder) begin(t bson.Type) int {
	e.put(t)
	start := len(e.buf)
	e.buf = append(e.buf, 0, 0, 0, 0)
	if e.depth++; e.depth > maxDepth {
		e.fail(errTooDeep)
	}
	return start
}

// End ends the document that Begin began.
func (e *Encoder) End(start int) {
	e.buf = append(e.buf, 0)
	binary.LittleEndian.PutUint32(e.buf[start:], uint32(len(e.buf)-start))
	e.depth--
}

// Key begins a field of the document; a value has to follow. The name is one
// that a document can have: no NUL, and UTF-8.
func (e *Encoder) Key(name string) {
	e.at = len(e.buf)
	e.buf = append(e.buf, 0)
	e.buf = append(e.buf, name...)
	e.buf = append(e.buf, 0)
}

// key is Key for a name that comes from the value.
func (e *Encoder) key(name string) {
	if problem := badKey(name); problem != "" {
		// Something has to stand there for the path to name it.
		e.Key(strings.ReplaceAll(strings.ToValidUTF8(name, "\uFFFD"), "\x00", "\uFFFD"))
		e.failf(problem)
		return
	}
	e.Key(name)
}

// Required says that the field whose key was written must not be null, and
// whether it is there.
func (e *Encoder) Required(there bool) {
	if !there {
		e.failf("the field is required, and nil")
	}
}

// MinSize begins (true) or ends a value that has the tag option minsize: in all of
// it integers take the smallest size.
func (e *Encoder) MinSize(begin bool) {
	if begin {
		e.minSize++
	} else {
		e.minSize--
	}
}

// Validate calls v.Validate when everything was encoded so far, and makes its
// error a problem at the path of the value just written. The original error stays
// reachable by errors.Is and errors.As.
func (e *Encoder) Validate(v Validator) {
	if e.err == nil {
		if err := v.Validate(); err != nil {
			e.fail(err)
		}
	}
}

// put sets the type of the value that is about to be written.
func (e *Encoder) put(t bson.Type) { e.buf[e.at] = byte(t) }

// fail records the first problem, with its path.
func (e *Encoder) fail(err error) {
	if e.err == nil {
		e.err = &EncodeError{Path: cutPath(e.path()), Err: err}
	}
}

func (e *Encoder) failf(parts ...string) {
	if e.err == nil {
		e.fail(errors.New(strings.Join(parts, "")))
	}
}

// path finds the way to the value that was written last or is about to be, by
// walking through what is there. A document that is not complete has no length
// yet, a value that was not written no type: the way leads through the former and
// ends at the latter.
func (e *Encoder) path() string {
	var path string
	t, off := bson.Type(e.buf[0]), 1
	for container(t) && len(e.buf) >= off+4 && binary.LittleEndian.Uint32(e.buf[off:]) == 0 {
		key, next := "", -1
		for pos, index := off+4, 0; pos < len(e.buf); index++ {
			n := bytes.IndexByte(e.buf[pos+1:], 0)
			key = string(e.buf[pos+1 : pos+1+n])
			if t == bson.TypeArray {
				key = fmt.Sprintf("[%d]", index)
			}
			next = pos
			off = pos + n + 2
			if n = size(bson.Type(e.buf[pos]), e.buf[off:]); n < 0 {
				break
			}
			pos = off + n
		}
		switch {
		case next < 0:
			return path // nothing in it yet
		case t == bson.TypeArray:
			path += key
		default:
			path = joinKey(path, key)
		}
		t = bson.Type(e.buf[next])
	}
	return path
}

func container(t bson.Type) bool { return t == bson.TypeEmbeddedDocument || t == bson.TypeArray }
