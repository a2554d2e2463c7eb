package jsonbson

import (
	"errors"
	"strconv"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
)

var errNumber = errors.New("the number cannot be stored without loss: at most 34 digits, and exponents from -6176 to 6111")

// number returns the int32, int64, double or Decimal128 that is exactly the number of the text, which is
// valid in JSON.
func number(text string) (any, error) {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil && text != "-0" {
		if small := int32(n); int64(small) == n {
			return small, nil
		}
		return n, nil
	}
	want := decimalOf(text)
	// A double has no decimal digits, but each has a shortest decimal number that stands for it: what
	// programs print. If that is the number of the text, nothing is lost. Integers that are too large for
	// an int64 are not tried: whether they become doubles should not depend on their last digits.
	if strings.ContainsAny(text, ".eE") || text == "-0" {
		f, err := strconv.ParseFloat(text, 64)
		if err == nil && decimalOf(strconv.FormatFloat(f, 'e', -1, 64)) == want {
			return f, nil
		}
	}
	if len(want.digits) > 34 {
		return nil, errNumber
	}
	if len(text) > 100 {
		text = want.String() // without its zeros, which may be a million
	}
	if d, err := bson.ParseDecimal128(text); err == nil && decimalOf(d.String()) == want {
		return d, nil
	}
	return nil, errNumber
}

// decimal is a number written in one way only: digits has no zeros at either end, and none at all for zero,
// and the point stands before its first digit, moved by exp. It compares numbers without computing them:
// 1e999999999 needs no memory.
type decimal struct {
	negative bool
	digits   string
	exp      int
}

// decimalOf reads a number as JSON, strconv and Decimal128 write it. An exponent that is too large for an
// int64 is cut off; nothing can store such a number.
func decimalOf(text string) decimal {
	var d decimal
	text, d.negative = strings.CutPrefix(text, "-")
	mantissa := text
	if i := strings.IndexAny(text, "eE"); i >= 0 {
		mantissa = text[:i]
		exp, _ := strconv.ParseInt(text[i+1:], 10, 64)
		d.exp = int(max(min(exp, 1<<40), -1<<40))
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	d.exp += len(whole)
	all := whole + fraction
	d.digits = strings.TrimLeft(all, "0")
	d.exp -= len(all) - len(d.digits)
	d.digits = strings.TrimRight(d.digits, "0")
	if d.digits == "" {
		d.exp = 0
	}
	return d
}

// String writes the number in a few bytes, however many zeros its text had.
func (d decimal) String() string {
	sign := ""
	if d.negative {
		sign = "-"
	}
	return sign + d.digits + "E" + strconv.Itoa(d.exp-len(d.digits))
}
