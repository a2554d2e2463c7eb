// Package jsonbson turns JSON into BSON without loss.
//
// The driver's bson.UnmarshalExtJSON is not for JSON that strangers send: it gives keys like "$oid" and
// "$date" a meaning, so that a payload changes its types or is refused, and it rounds numbers that do not
// fit into a double or an int64. Here a key is a key, and a number is stored exactly or not at all.
package jsonbson

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// MaxDepth is how deep objects and arrays may nest. MongoDB stores at most 180 levels, and an event adds a
// few around the payload.
const MaxDepth = 100

// Document converts a JSON object to a document of at most maxBytes. Text that would become larger is
// refused without being converted to its end: an array of zeros takes six times its size.
//
//   - Keys keep their order and their spelling. One that occurs twice in an object is refused, since
//     readers disagree on which of the two counts.
//   - A number becomes an int32 or int64 if it is a whole one that fits, a double if the double stands for
//     the same decimal number, else a Decimal128, which has 34 digits. One that fits none is refused.
//   - Strings stay strings, also those that look like dates. Invalid UTF-8 is refused. Half of a surrogate
//     pair ("\ud800"), which is no character, becomes U+FFFD, as in every JSON parser of Go.
//
// An error says where in the document the problem is, as in "commits[2].id: ...".
func Document(data []byte, maxBytes int) (bson.Raw, error) {
	if !utf8.Valid(data) {
		return nil, fmt.Errorf("the text is not valid UTF-8 (at byte %d)", validLen(data))
	}
	// A check of the whole text first: the tokens below need no thought about syntax, or about what
	// follows the object.
	var all json.RawMessage
	if err := json.Unmarshal(data, &all); err != nil {
		return nil, readable(err)
	}
	tokens := json.NewDecoder(bytes.NewReader(data))
	tokens.UseNumber()
	if first, err := tokens.Token(); err != nil || first != json.Delim('{') {
		return nil, errors.New("want a JSON object")
	}
	c := converter{tokens: tokens, maxBytes: maxBytes}
	if err := c.object(1); err != nil {
		return nil, err
	}
	return c.out, nil
}

// converter appends to a document while it reads tokens.
type converter struct {
	tokens   *json.Decoder
	out      []byte
	maxBytes int
}

// object converts what follows an opening brace.
func (c *converter) object(depth int) error {
	seen := map[string]bool{}
	return c.document(func() error {
		token, err := c.tokens.Token()
		if err != nil {
			return err
		}
		key := token.(string)
		switch {
		case seen[key]:
			return at("."+key, errors.New("the key occurs twice in its object"))
		case strings.ContainsRune(key, 0):
			return at(fmt.Sprintf(".%q", key), errors.New("a key with a NUL character cannot be stored"))
		}
		seen[key] = true
		if err := c.element(key, depth); err != nil {
			return at("."+key, err)
		}
		return nil
	})
}

// array converts what follows an opening bracket. BSON has the indexes as keys.
func (c *converter) array(depth int) error {
	i := -1
	return c.document(func() error {
		i++
		if err := c.element(strconv.Itoa(i), depth); err != nil {
			return at(fmt.Sprintf("[%d]", i), err)
		}
		return nil
	})
}

// document frames elements, of an object or an array, up to the closing token: their length before them and
// a zero byte behind.
func (c *converter) document(element func() error) error {
	start := len(c.out)
	c.out = append(c.out, 0, 0, 0, 0)
	for c.tokens.More() {
		if err := element(); err != nil {
			return err
		}
	}
	c.out = append(c.out, 0)
	if len(c.out) > c.maxBytes {
		return c.tooLarge()
	}
	binary.LittleEndian.PutUint32(c.out[start:], uint32(len(c.out)-start))
	_, err := c.tokens.Token()
	return err
}

// element converts the next value: a byte for its type, the key, the value.
func (c *converter) element(key string, depth int) error {
	if len(c.out) > c.maxBytes {
		return c.tooLarge()
	}
	token, err := c.tokens.Token()
	if err != nil {
		return err
	}
	kind := len(c.out)
	c.out = append(c.out, 0)
	c.out = append(c.out, key...)
	c.out = append(c.out, 0)
	var value any = token
	switch token := token.(type) {
	case json.Delim:
		if depth == MaxDepth {
			return fmt.Errorf("nested deeper than %d levels", MaxDepth)
		}
		if token == '{' {
			c.out[kind] = byte(bson.TypeEmbeddedDocument)
			return c.object(depth + 1)
		}
		c.out[kind] = byte(bson.TypeArray)
		return c.array(depth + 1)
	case json.Number:
		if value, err = number(token.String()); err != nil {
			return err
		}
	}
	c.scalar(kind, value)
	return nil
}

// scalar appends a value, and its type at the index kind.
func (c *converter) scalar(kind int, value any) {
	little := binary.LittleEndian
	switch v := value.(type) {
	case nil:
		c.out[kind] = byte(bson.TypeNull)
	case bool:
		c.out[kind] = byte(bson.TypeBoolean)
		if v {
			c.out = append(c.out, 1)
		} else {
			c.out = append(c.out, 0)
		}
	case string:
		c.out[kind] = byte(bson.TypeString)
		c.out = little.AppendUint32(c.out, uint32(len(v)+1))
		c.out = append(c.out, v...)
		c.out = append(c.out, 0)
	case int32:
		c.out[kind] = byte(bson.TypeInt32)
		c.out = little.AppendUint32(c.out, uint32(v))
	case int64:
		c.out[kind] = byte(bson.TypeInt64)
		c.out = little.AppendUint64(c.out, uint64(v))
	case float64:
		c.out[kind] = byte(bson.TypeDouble)
		c.out = little.AppendUint64(c.out, math.Float64bits(v))
	case bson.Decimal128:
		c.out[kind] = byte(bson.TypeDecimal128)
		high, low := v.GetBytes()
		c.out = little.AppendUint64(little.AppendUint64(c.out, low), high)
	}
}

func (c *converter) tooLarge() error {
	return fmt.Errorf("the document takes more than %d bytes when stored", c.maxBytes)
}

// pathError is a problem at a place in the document; the path grows while the error travels outwards.
type pathError struct {
	path []string // innermost step first
	err  error
}

func at(step string, err error) error {
	var p *pathError
	if !errors.As(err, &p) {
		p = &pathError{err: err}
	}
	p.path = append(p.path, step)
	return p
}

func (p *pathError) Error() string {
	var b strings.Builder
	for i := len(p.path) - 1; i >= 0; i-- {
		b.WriteString(p.path[i])
	}
	path := strings.TrimPrefix(b.String(), ".")
	const enough = 200 // for a log line, whatever the sender came up with
	if len(path) > enough {
		path = strings.ToValidUTF8(path[:enough], "") + "..."
	}
	if path == "" {
		return p.err.Error()
	}
	return path + ": " + p.err.Error()
}

func (p *pathError) Unwrap() error { return p.err }

// readable says where a syntax error is.
func readable(err error) error {
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		return fmt.Errorf("no valid JSON: %w (at byte %d)", err, syntax.Offset)
	}
	return fmt.Errorf("no valid JSON: %w", err)
}

// validLen returns how many bytes at the start of data are valid UTF-8.
func validLen(data []byte) int {
	n := 0
	for n < len(data) {
		r, size := utf8.DecodeRune(data[n:])
		if r == utf8.RuneError && size == 1 {
			break
		}
		n += size
	}
	return n
}
