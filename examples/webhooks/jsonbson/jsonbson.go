// Package jsonbson turns JSON into BSON without loss.
//
// The driver's bson.UnmarshalExtJSON is not for JSON that strangers send: it gives keys like "$oid" and
// "$date" a meaning, so that a payload changes its types or is refused, and it rounds numbers that do not
// fit into a double or an int64. Here a key is a key, and a number is stored exactly or not at all.
package jsonbson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// MaxDepth is how deep objects and arrays may nest. MongoDB stores at most 180 levels, and an event adds a
// few around the payload.
const MaxDepth = 100

// Document converts a JSON object.
//
//   - Keys keep their order and their spelling. One that occurs twice in an object is refused, since
//     readers disagree on which of the two counts.
//   - A number becomes an int32 or int64 if it is a whole one that fits, a double if the double stands for
//     the same decimal number, else a Decimal128, which has 34 digits. One that fits none is refused.
//   - Strings stay strings, also those that look like dates. Invalid UTF-8 is refused. Half of a surrogate
//     pair ("\ud800"), which is no character, becomes U+FFFD, as in every JSON parser of Go.
//
// An error says where in the document the problem is, as in "commits[2].id: ...".
func Document(data []byte) (bson.D, error) {
	if !utf8.Valid(data) {
		return nil, fmt.Errorf("the text is not valid UTF-8 (at byte %d)", validLen(data))
	}
	// A check of the whole text first: the tokens below need no thought about syntax, or about what
	// follows the object.
	var object map[string]json.RawMessage
	if err := json.Unmarshal(data, &object); err != nil {
		return nil, readable(err)
	}
	if object == nil {
		return nil, errors.New("want a JSON object, got null")
	}
	tokens := json.NewDecoder(bytes.NewReader(data))
	tokens.UseNumber()
	value, err := next(tokens, 0)
	if err != nil {
		return nil, err
	}
	return value.(bson.D), nil
}

// next converts the value that begins with the next token.
func next(tokens *json.Decoder, depth int) (any, error) {
	token, err := tokens.Token()
	if err != nil {
		return nil, err
	}
	switch token := token.(type) {
	case json.Delim:
		if depth == MaxDepth {
			return nil, &pathError{err: fmt.Errorf("nested deeper than %d levels", MaxDepth)}
		}
		if token == '{' {
			return object(tokens, depth+1)
		}
		return array(tokens, depth+1)
	case json.Number:
		return number(token.String())
	default: // string, bool, nil
		return token, nil
	}
}

func object(tokens *json.Decoder, depth int) (bson.D, error) {
	d := bson.D{}
	seen := map[string]bool{}
	for tokens.More() {
		token, err := tokens.Token()
		if err != nil {
			return nil, err
		}
		key := token.(string)
		switch {
		case seen[key]:
			return nil, at("."+key, errors.New("the key occurs twice in its object"))
		case strings.ContainsRune(key, 0):
			return nil, at("."+fmt.Sprintf("%q", key), errors.New("a key with a NUL character cannot be stored"))
		}
		seen[key] = true
		value, err := next(tokens, depth)
		if err != nil {
			return nil, at("."+key, err)
		}
		d = append(d, bson.E{Key: key, Value: value})
	}
	_, err := tokens.Token() // the closing brace
	return d, err
}

func array(tokens *json.Decoder, depth int) (bson.A, error) {
	a := bson.A{}
	for tokens.More() {
		value, err := next(tokens, depth)
		if err != nil {
			return nil, at(fmt.Sprintf("[%d]", len(a)), err)
		}
		a = append(a, value)
	}
	_, err := tokens.Token() // the closing bracket
	return a, err
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

// readable says where a syntax error is, and hides the Go type from other ones.
func readable(err error) error {
	var syntax *json.SyntaxError
	var wrong *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		return fmt.Errorf("no valid JSON: %w (at byte %d)", err, syntax.Offset)
	case errors.As(err, &wrong):
		return fmt.Errorf("want a JSON object, got %s", wrong.Value)
	default:
		return fmt.Errorf("no valid JSON: %w", err)
	}
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
