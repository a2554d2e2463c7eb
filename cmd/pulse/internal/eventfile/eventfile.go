// Package eventfile reads payloads of events from JSON text, one value or many.
package eventfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// Payload is one value of the text.
type Payload struct {
	// Number counts the values from 1, Line is where the value begins.
	Number, Line int
	// End is how many bytes of the text have been used with it.
	End int64
	// Data is the value as BSON, by the rules of relaxed Extended JSON.
	Data bson.RawValue
}

// Reader reads values one after the other. They may be on lines of their own (NDJSON), or spread over lines.
type Reader struct {
	in    *lineCounter
	json  *json.Decoder
	count int
}

// NewReader returns a Reader of the text.
func NewReader(in io.Reader) *Reader {
	r := &Reader{in: &lineCounter{in: &unmarked{in: in}}}
	r.json = json.NewDecoder(r.in)
	return r
}

// Next returns the next value, io.EOF after the last one. An error names the line; nothing can be read after it.
func (r *Reader) Next() (Payload, error) {
	var raw json.RawMessage
	err := r.json.Decode(&raw)
	if errors.Is(err, io.EOF) {
		return Payload{}, io.EOF
	}
	var syntax *json.SyntaxError
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return Payload{}, fmt.Errorf("line %d: the text ends within a JSON value", r.in.last())
	case errors.As(err, &syntax):
		return Payload{}, fmt.Errorf("line %d: this is not JSON: %w", r.in.lineAt(syntax.Offset-1), err)
	case err != nil:
		return Payload{}, err
	}
	line := r.in.lineAt(r.json.InputOffset() - int64(len(raw)))
	r.in.forget(r.json.InputOffset())
	data, err := Parse(raw)
	if err != nil {
		return Payload{}, fmt.Errorf("line %d: %w", line, err)
	}
	r.count++
	return Payload{Number: r.count, Line: line, End: r.json.InputOffset(), Data: data}, nil
}

// Parse reads one value of relaxed Extended JSON: JSON in which {"$date": ...}, {"$oid": ...} and their like stand for
// the types of BSON that JSON lacks. A whole number becomes an int32 or int64, another one a double.
func Parse(text []byte) (bson.RawValue, error) {
	// The driver reads documents only.
	const key = "value"
	document := append(append([]byte(`{"`+key+`":`), text...), '}')
	var raw bson.Raw
	if err := bson.UnmarshalExtJSON(document, false, &raw); err != nil {
		return bson.RawValue{}, fmt.Errorf("this is not Extended JSON: %w", err)
	}
	return raw.LookupErr(key)
}

// Format is the reverse of Parse.
func Format(value bson.RawValue) (json.RawMessage, error) {
	const key = "v"
	text, err := bson.MarshalExtJSON(bson.D{{Key: key, Value: value}}, false, false)
	if err != nil {
		return nil, err
	}
	text = bytes.TrimSuffix(bytes.TrimPrefix(text, []byte(`{"`+key+`":`)), []byte("}"))
	return text, nil
}

// mark is what some editors write at the beginning of UTF-8 text.
var mark = []byte("\xef\xbb\xbf")

// unmarked leaves the mark out. It reads nothing before it is read, for a read may have to wait.
type unmarked struct {
	in    io.Reader
	begun bool
	head  []byte
	err   error
}

func (u *unmarked) Read(p []byte) (int, error) {
	if !u.begun {
		u.begun, u.head = true, make([]byte, len(mark))
		n, err := io.ReadFull(u.in, u.head)
		if u.head = u.head[:n]; bytes.Equal(u.head, mark) {
			u.head = nil
		}
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			u.err = err
		}
	}
	switch {
	case len(u.head) > 0:
		n := copy(p, u.head)
		u.head = u.head[n:]
		return n, nil
	case u.err != nil:
		return 0, u.err
	}
	return u.in.Read(p)
}

// lineCounter knows on which line a byte is, of those that it has not been told to forget.
type lineCounter struct {
	in     io.Reader
	offset int64
	passed int     // lines that were forgotten
	ends   []int64 // offsets of the line ends after those
}

func (c *lineCounter) Read(p []byte) (int, error) {
	n, err := c.in.Read(p)
	for i, b := range p[:n] {
		if b == '\n' {
			c.ends = append(c.ends, c.offset+int64(i))
		}
	}
	c.offset += int64(n)
	return n, err
}

func (c *lineCounter) lineAt(offset int64) int {
	line := c.passed + 1
	for _, end := range c.ends {
		if end >= offset {
			break
		}
		line++
	}
	return line
}

func (c *lineCounter) last() int { return c.lineAt(c.offset) }

func (c *lineCounter) forget(offset int64) {
	n := 0
	for n < len(c.ends) && c.ends[n] < offset {
		n++
	}
	c.passed, c.ends = c.passed+n, c.ends[n:]
}
