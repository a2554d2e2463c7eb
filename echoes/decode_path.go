package echoes

import (
	"bytes"
	"errors"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.mongodb.org/mongo-driver/v2/bson"
)

var (
	errMalformed = errors.New("malformed BSON")
	errTooDeep   = errors.New("nested deeper than " + strconv.Itoa(maxDepth) + " levels")
)

// DecodeError says why a payload could not be decoded into a listener's
// parameter type (spec 7.3). A delivery that fails with it follows the retry
// policy like any other, with code decode_error.
type DecodeError struct {
	// Topic and EventID are empty when a Decoder is used outside a listener.
	Topic, EventID string
	// Path leads to the offending value, as in lines[0].price. It is empty
	// when the payload as a whole is at fault. A path that is longer than 300
	// bytes lacks its middle.
	Path string
	// Err is the problem: "want float64, got string", or what Validate
	// returned.
	Err error
}

// Error gives "echoes: topic invoice.created, event ev-1: lines[0].price: want
// float64, got string", without the first two parts when they are unknown.
func (e *DecodeError) Error() string {
	var b strings.Builder
	if e.Topic != "" || e.EventID != "" {
		b.WriteString("echoes: topic " + e.Topic + ", event " + e.EventID + ": ")
	}
	if e.Path != "" {
		b.WriteString(e.Path)
	} else {
		b.WriteString("params")
	}
	b.WriteString(": ")
	b.WriteString(e.Err.Error())
	return b.String()
}

// Unwrap returns the problem itself.
func (e *DecodeError) Unwrap() error { return e.Err }

// fail records the first problem, with its path.
func (d *Decoder) fail(err error) {
	if d.err == nil {
		d.err = &DecodeError{Path: cutPath(d.path()), Err: err}
	}
}

func (d *Decoder) failf(parts ...string) {
	if d.err == nil {
		d.fail(errors.New(strings.Join(parts, "")))
	}
}

// failWant records that the value under the cursor has another type.
func (d *Decoder) failWant(want string) {
	d.failf("want ", want, ", got ", typeName(d.typ))
}

// path finds the way to d.elem by walking again from the root. Keeping the path
// while decoding would cost on every field; this costs only once, on failure.
//
// Every field owns the bytes from its type to the end of its value; a
// document's length and closing byte are left to the document itself. So the
// offset to blame is either the start of a field or lies in the innermost
// document that is at fault.
func (d *Decoder) path() string {
	if d.elem < 0 {
		return ""
	}
	var path string
	pos, end := 4, len(d.buf)-1
	array := d.root == bson.TypeArray
	for index := 0; pos < end; index++ {
		n := bytes.IndexByte(d.buf[pos+1:end], 0)
		if n < 0 {
			return path
		}
		key := d.buf[pos+1 : pos+1+n]
		off := pos + n + 2
		t := bson.Type(d.buf[pos])
		n = size(t, d.buf[off:end])
		broken := n < 0
		if broken {
			n = end - off
		}
		if d.elem >= off+n {
			pos = off + n
			continue
		}
		if array {
			path += "[" + strconv.Itoa(index) + "]"
		} else {
			path = joinKey(path, string(key))
		}
		container := t == bson.TypeEmbeddedDocument || t == bson.TypeArray
		if d.elem == pos || broken || !container {
			return path
		}
		array = t == bson.TypeArray
		pos, end, index = off+4, off+n-1, -1
	}
	return path
}

// joinKey appends a document's key to a path: a.b, or a["b c"] when the key
// would be misread. Long keys, which only a map has, are cut.
func joinKey(path, key string) string {
	if len(key) > 64 {
		cut := 64
		for cut > 0 && !utf8.RuneStart(key[cut]) {
			cut--
		}
		key = key[:cut] + "…"
	}
	if !plainKey(key) {
		return path + "[" + strconv.Quote(key) + "]"
	}
	if path == "" {
		return key
	}
	return path + "." + key
}

// maxPath is how long a path may be before its middle is cut out. What a person
// looks for stands at both ends; a value that contains itself has the same 200
// times.
const maxPath = 300

func cutPath(path string) string {
	if len(path) <= maxPath {
		return path
	}
	head, tail := maxPath*2/3, len(path)-maxPath/4
	for head > 0 && !utf8.RuneStart(path[head]) {
		head--
	}
	for tail < len(path) && !utf8.RuneStart(path[tail]) {
		tail++
	}
	return path[:head] + "…" + path[tail:]
}

func plainKey(key string) bool {
	for _, r := range key {
		if r == utf8.RuneError || !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("_-$", r) {
			return false
		}
	}
	return key != ""
}

// typeName names a BSON type the way error messages do.
func typeName(t bson.Type) string {
	switch t {
	case bson.TypeDouble:
		return "double"
	case bson.TypeString:
		return "string"
	case bson.TypeEmbeddedDocument:
		return "document"
	case bson.TypeArray:
		return "array"
	case bson.TypeBinary:
		return "binary"
	case bson.TypeUndefined:
		return "undefined"
	case bson.TypeObjectID:
		return "objectId"
	case bson.TypeBoolean:
		return "bool"
	case bson.TypeDateTime:
		return "date"
	case bson.TypeNull:
		return "null"
	case bson.TypeRegex:
		return "regex"
	case bson.TypeDBPointer:
		return "dbPointer"
	case bson.TypeJavaScript:
		return "javascript"
	case bson.TypeSymbol:
		return "symbol"
	case bson.TypeCodeWithScope:
		return "javascriptWithScope"
	case bson.TypeInt32:
		return "int32"
	case bson.TypeTimestamp:
		return "timestamp"
	case bson.TypeInt64:
		return "int64"
	case bson.TypeDecimal128:
		return "decimal128"
	case bson.TypeMinKey:
		return "minKey"
	case bson.TypeMaxKey:
		return "maxKey"
	default:
		return "unknown type 0x" + strconv.FormatUint(uint64(t), 16)
	}
}
