package wire

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// MaxText bounds the text that Decode takes, in bytes.
const MaxText = 16 << 20

// ErrNoParams says that the text is an object without params.
var ErrNoParams = errors.New("the value has no params: want {\"params\": ...}")

// SyntaxError says where a text is not what this package reads.
type SyntaxError struct {
	// Offset counts bytes from 0.
	Offset int
	Text   string
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("at byte %d: %s", e.Offset, e.Text)
}

// Decode finds the params in the text of an event. An undefined is null in
// arrays and absent in documents; params that are undefined are null.
func Decode(text []byte) (bson.RawValue, error) {
	if len(text) > MaxText {
		return bson.RawValue{}, fmt.Errorf("the value has %d bytes, more than %d", len(text), MaxText)
	}
	p := parser{text: text}
	p.out = make([]byte, 0, 2*len(text)+16)
	p.space()
	if !p.at('{') {
		return bson.RawValue{}, p.fail("want {\"params\": ...}")
	}
	t, err := p.object()
	if err != nil {
		return bson.RawValue{}, err
	}
	p.space()
	if p.pos < len(text) {
		return bson.RawValue{}, p.fail("something follows the value")
	}
	if t != bson.TypeEmbeddedDocument {
		return bson.RawValue{}, ErrNoParams
	}
	elements, err := bson.Raw(p.out).Elements()
	if err != nil {
		return bson.RawValue{}, err
	}
	for i := len(elements) - 1; i >= 0; i-- { // the last one counts, as in JavaScript
		if elements[i].Key() == "params" {
			return elements[i].Value(), nil
		}
	}
	return bson.RawValue{}, ErrNoParams
}

type parser struct {
	builder
	text  []byte
	pos   int
	depth int
	holes int
}

func (p *parser) fail(format string, args ...any) error {
	return &SyntaxError{Offset: p.pos, Text: fmt.Sprintf(format, args...)}
}

func (p *parser) space() {
	for p.pos < len(p.text) {
		switch p.text[p.pos] {
		case ' ', '\t', '\n', '\r':
			p.pos++
		default:
			return
		}
	}
}

func (p *parser) at(c byte) bool { return p.pos < len(p.text) && p.text[p.pos] == c }

// take skips space and then c, which has to be there.
func (p *parser) take(c byte) error {
	p.space()
	if !p.at(c) {
		return p.fail("want %q", c)
	}
	p.pos++
	return nil
}

// word skips a word of JavaScript if it stands here as a whole.
func (p *parser) word(w string) bool {
	if !bytes.HasPrefix(p.text[p.pos:], []byte(w)) {
		return false
	}
	if end := p.pos + len(w); end < len(p.text) && isWord(p.text[end]) && isWord(w[len(w)-1]) {
		return false
	}
	p.pos += len(w)
	return true
}

func isWord(c byte) bool {
	return c == '_' || c == '$' || c >= 0x80 || c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z'
}

func (p *parser) enter() error {
	if p.depth++; p.depth > maxDepth {
		return p.fail("%v", errTooDeep)
	}
	return nil
}

// value writes the value that stands here and returns its type, TypeUndefined
// with nothing written for undefined.
func (p *parser) value() (bson.Type, error) {
	p.space()
	if p.pos == len(p.text) {
		return 0, p.fail("the value ends early")
	}
	switch c := p.text[p.pos]; {
	case c == '{':
		return p.object()
	case c == '[':
		return p.array()
	case c == '"':
		s, err := p.quoted()
		if err != nil {
			return 0, err
		}
		p.string(s)
		return bson.TypeString, nil
	case c == '-' || c >= '0' && c <= '9':
		return p.numeral()
	}
	return p.named()
}

// named writes what begins with a word: the literals and the constructors that
// serialize-javascript uses.
func (p *parser) named() (bson.Type, error) {
	switch {
	case p.word("null"):
		return bson.TypeNull, nil
	case p.word("undefined"):
		return bson.TypeUndefined, nil
	case p.word("true"):
		p.out = append(p.out, 1)
		return bson.TypeBoolean, nil
	case p.word("false"):
		p.out = append(p.out, 0)
		return bson.TypeBoolean, nil
	case p.word("NaN"):
		return p.special("NaN")
	case p.word("Infinity"):
		return p.special("Infinity")
	case p.word("BigInt"):
		return p.call(p.bigIntText)
	case p.word("Array.prototype.slice.call"):
		return p.call(p.sparse)
	case p.word("new"):
		p.space()
		switch {
		case p.word("Date"):
			return p.call(p.date)
		case p.word("Map"):
			return p.call(p.mapEntries)
		case p.word("Set"):
			return p.call(p.list)
		case p.word("URL"):
			return p.call(p.url)
		}
		return 0, p.fail("want Date, Map, Set or URL after new; other objects are no data")
	}
	return 0, p.fail("this is not data")
}

func (p *parser) special(text string) (bson.Type, error) {
	f, err := strconv.ParseFloat(text, 64)
	p.double(f)
	return bson.TypeDouble, err
}

// call reads the one argument of a call with read.
func (p *parser) call(read func() (bson.Type, error)) (bson.Type, error) {
	if err := p.take('('); err != nil {
		return 0, err
	}
	p.space()
	t, err := read()
	if err != nil {
		return 0, err
	}
	return t, p.take(')')
}

// object writes a document, or the special value that Node writes as one.
func (p *parser) object() (bson.Type, error) {
	start := p.begin()
	err := p.members(func(key []byte) error {
		at, err := p.key(key)
		if err != nil {
			return err
		}
		t, err := p.value()
		switch {
		case err != nil:
			return err
		case t != bson.TypeUndefined:
			p.setType(at, t)
		case p.depth == 1: // params themselves
			p.setType(at, bson.TypeNull)
		default:
			p.drop(at)
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	p.end(start)
	return p.specialise(start), nil
}

func (p *parser) key(key []byte) (at int, err error) {
	if bytes.IndexByte(key, 0) >= 0 {
		return 0, p.fail("a key contains the character U+0000, which BSON does not allow")
	}
	return p.field(string(key))
}

// members reads {"key": ..., ...} and calls each where the value of a key
// stands.
func (p *parser) members(each func(key []byte) error) error {
	if err := p.enter(); err != nil {
		return err
	}
	if err := p.take('{'); err != nil {
		return err
	}
	p.space()
	for first := true; !p.at('}'); first = false {
		if !first {
			if err := p.take(','); err != nil {
				return err
			}
			p.space()
		}
		key, err := p.quoted()
		if err != nil {
			return err
		}
		if err := p.take(':'); err != nil {
			return err
		}
		if err := each(key); err != nil {
			return err
		}
		p.space()
	}
	p.pos++
	p.depth--
	return nil
}

// elements reads [..., ...] and calls each where an element stands.
func (p *parser) elements(each func(i int) error) error {
	if err := p.enter(); err != nil {
		return err
	}
	if err := p.take('['); err != nil {
		return err
	}
	p.space()
	for i := 0; !p.at(']'); i++ {
		if i > 0 {
			if err := p.take(','); err != nil {
				return err
			}
		}
		if err := each(i); err != nil {
			return err
		}
		p.space()
	}
	p.pos++
	p.depth--
	return nil
}

func (p *parser) array() (bson.Type, error) {
	start := p.begin()
	if err := p.elements(p.element); err != nil {
		return 0, err
	}
	p.end(start)
	return bson.TypeArray, nil
}

// element writes the element that stands here as number i, undefined as null.
func (p *parser) element(i int) error {
	at, err := p.item(i)
	if err != nil {
		return err
	}
	t, err := p.value()
	if t == bson.TypeUndefined {
		t = bson.TypeNull
	}
	p.setType(at, t)
	return err
}
