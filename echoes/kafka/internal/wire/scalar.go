package wire

import (
	"bytes"
	"math"
	"strconv"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// numeral writes the number that stands here.
func (p *parser) numeral() (bson.Type, error) {
	if bytes.HasPrefix(p.text[p.pos:], []byte("-Infinity")) {
		p.pos++
		p.word("Infinity")
		return p.special("-Infinity")
	}
	start := p.pos
	text, whole, err := p.digits()
	if err != nil {
		return 0, err
	}
	var t bson.Type
	if whole && p.word("n") {
		t, err = p.bigInt(string(text))
	} else {
		t, err = p.number(string(text), whole)
	}
	if err != nil {
		p.pos = start
		return 0, p.fail("%v", err)
	}
	return t, nil
}

// digits reads a JSON number. whole tells that it has neither a point nor an
// exponent.
func (p *parser) digits() (text []byte, whole bool, err error) {
	start := p.pos
	if p.at('-') {
		p.pos++
	}
	zero := p.at('0')
	if n := p.run(); n == 0 || zero && n > 1 {
		p.pos = start
		return nil, false, p.fail("this is not a number")
	}
	whole = true
	if p.at('.') {
		whole = false
		p.pos++
		if p.run() == 0 {
			return nil, false, p.fail("want a digit")
		}
	}
	if p.at('e') || p.at('E') {
		whole = false
		p.pos++
		if p.at('+') || p.at('-') {
			p.pos++
		}
		if p.run() == 0 {
			return nil, false, p.fail("want a digit")
		}
	}
	return p.text[start:p.pos], whole, nil
}

// run skips digits and returns how many there were.
func (p *parser) run() int {
	start := p.pos
	for p.pos < len(p.text) && p.text[p.pos] >= '0' && p.text[p.pos] <= '9' {
		p.pos++
	}
	return p.pos - start
}

// bigIntText is the argument of BigInt.
func (p *parser) bigIntText() (bson.Type, error) {
	start := p.pos
	text, err := p.quoted()
	if err != nil {
		return 0, err
	}
	inner := parser{text: text}
	digits, whole, err := inner.digits()
	if err != nil || !whole || len(digits) != len(text) {
		p.pos = start
		return 0, p.fail("BigInt takes a whole number")
	}
	t, err := p.bigInt(string(text))
	if err != nil {
		p.pos = start
		return 0, p.fail("%v", err)
	}
	return t, nil
}

// url is the argument of URL.
func (p *parser) url() (bson.Type, error) {
	s, err := p.quoted()
	if err != nil {
		return 0, err
	}
	p.string(s)
	return bson.TypeString, nil
}

// date is the argument of Date: what toISOString returns.
func (p *parser) date() (bson.Type, error) {
	start := p.pos
	s, err := p.quoted()
	if err != nil {
		return 0, err
	}
	ms, ok := isoDate(string(s))
	if !ok {
		p.pos = start
		return 0, p.fail("Date takes a text like 2026-08-04T12:00:00.000Z")
	}
	p.int64(ms)
	return bson.TypeDateTime, nil
}

// isoDate reads a date as JavaScript writes it, with a sign and six digits for
// years outside 0 to 9999.
func isoDate(s string) (ms int64, ok bool) {
	digits, sign := 4, 1
	if s != "" && (s[0] == '+' || s[0] == '-') {
		if digits = 6; s[0] == '-' {
			sign = -1
		}
		s = s[1:]
	}
	if n := len(s) - digits; n != len("-01-02T15:04:05Z") && n != len("-01-02T15:04:05.000Z") {
		return 0, false
	}
	year, err := strconv.ParseUint(s[:digits], 10, 32)
	if err != nil {
		return 0, false
	}
	// Every fourth century is like any other, so the rest is parsed in one that
	// the layout can hold.
	const cycle = 400
	y := sign * int(year)
	stand := y%cycle + 2*cycle
	t, err := time.Parse("2006-01-02T15:04:05Z", fourDigits(stand)+s[digits:])
	if err != nil || t.Nanosecond()%int(time.Millisecond) != 0 {
		return 0, false
	}
	const cycleDays = 146097
	ms = t.UnixMilli() + int64((y-stand)/cycle)*cycleDays*24*60*60*1000
	return ms, math.Abs(float64(ms)) <= lastDate
}

func fourDigits(n int) string {
	return strconv.Itoa(10000 + n)[1:]
}

// quoted reads a string. The result is a view of the text when nothing in it is
// escaped. Half of a surrogate pair becomes U+FFFD: it is no character, and
// Node's driver stores it like that too.
func (p *parser) quoted() ([]byte, error) {
	if !p.at('"') {
		return nil, p.fail("want a string in double quotes")
	}
	start := p.pos
	p.pos++
	var s []byte
	from := p.pos
	for {
		if p.pos == len(p.text) {
			p.pos = start
			return nil, p.fail("the string does not end")
		}
		switch c := p.text[p.pos]; {
		case c == '"':
			s = p.upTo(s, from)
			p.pos++
			if !utf8.Valid(s) {
				p.pos = start
				return nil, p.fail("%v", errUTF8)
			}
			return s, nil
		case c < ' ':
			return nil, p.fail("a string contains a control character")
		case c != '\\':
			p.pos++
		default:
			s = append(s, p.text[from:p.pos]...)
			r, err := p.escape()
			if err != nil {
				return nil, err
			}
			s = utf8.AppendRune(s, r)
			from = p.pos
		}
	}
}

func (p *parser) upTo(s []byte, from int) []byte {
	if s == nil {
		return p.text[from:p.pos:p.pos]
	}
	return append(s, p.text[from:p.pos]...)
}

// escape reads \ and what it escapes, both halves of a surrogate pair.
func (p *parser) escape() (rune, error) {
	r, err := p.escaped()
	if err != nil || !utf16.IsSurrogate(r) {
		return r, err
	}
	if bytes.HasPrefix(p.text[p.pos:], []byte(`\u`)) {
		second := p.pos
		low, err := p.escaped()
		if err != nil {
			return 0, err
		}
		if whole := utf16.DecodeRune(r, low); whole != utf8.RuneError {
			return whole, nil
		}
		p.pos = second // a character of its own
	}
	return utf8.RuneError, nil
}

func (p *parser) escaped() (rune, error) {
	if p.pos+1 == len(p.text) {
		return 0, p.fail("the string does not end")
	}
	p.pos += 2
	switch c := p.text[p.pos-1]; c {
	case '"', '\\', '/':
		return rune(c), nil
	case 'b':
		return '\b', nil
	case 'f':
		return '\f', nil
	case 'n':
		return '\n', nil
	case 'r':
		return '\r', nil
	case 't':
		return '\t', nil
	case 'u':
		if p.pos+4 <= len(p.text) {
			if n, err := strconv.ParseUint(string(p.text[p.pos:p.pos+4]), 16, 32); err == nil {
				p.pos += 4
				return rune(n), nil
			}
		}
	}
	p.pos -= 2
	return 0, p.fail("an escape that JSON does not have")
}
