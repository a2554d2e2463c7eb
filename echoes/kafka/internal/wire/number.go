package wire

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// number writes a JSON number as the type that loses nothing.
func (b *builder) number(text string, whole bool) (bson.Type, error) {
	if whole {
		n, err := strconv.ParseInt(text, 10, 64)
		switch {
		case err != nil: // beyond int64
		case n == 0 && text[0] == '-':
			b.double(math.Copysign(0, -1))
			return bson.TypeDouble, nil
		case n == int64(int32(n)):
			b.int32(int32(n))
			return bson.TypeInt32, nil
		case exact(n) || !shortest(text, float64(n)):
			b.int64(n)
			return bson.TypeInt64, nil
		default:
			return b.large(text)
		}
	}
	f, err := strconv.ParseFloat(text, 64)
	if err == nil && shortest(text, f) {
		b.double(f)
		return bson.TypeDouble, nil
	}
	return b.large(text)
}

// bigInt writes an integer of any size.
func (b *builder) bigInt(text string) (bson.Type, error) {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		b.int64(n)
		return bson.TypeInt64, nil
	}
	return b.large(text)
}

// large writes a number that neither int64 nor double hold.
func (b *builder) large(text string) (bson.Type, error) {
	digits, exp := normal(text)
	if len(digits) > 34 {
		return 0, fmt.Errorf("the number %s has more than 34 digits", short(text))
	}
	d, err := bson.ParseDecimal128(text)
	if err != nil { // not without the zeros around the digits
		sign := strings.TrimRight(text[:1], "0123456789")
		d, err = bson.ParseDecimal128(sign + digits + "E" + strconv.Itoa(exp))
	}
	if err != nil {
		return 0, fmt.Errorf("the number %s is out of range", short(text))
	}
	b.decimal(d)
	return bson.TypeDecimal128, nil
}

// exact reports whether a float64 holds n.
func exact(n int64) bool {
	f := float64(n)
	return f < 1<<63 && int64(f) == n
}

// shortest reports whether f stands for the decimal that text gives: f's
// shortest decimal is the same number.
func shortest(text string, f float64) bool {
	digits, exp := normal(text)
	if digits == "" {
		return f == 0
	}
	var buf [32]byte
	fDigits, fExp := normal(string(strconv.AppendFloat(buf[:0], f, 'e', -1, 64)))
	return digits == fDigits && exp == fExp
}

// normal takes the magnitude of a number apart into its significant digits,
// none for zero, and the power of ten they are to be multiplied by.
func normal(text string) (digits string, exp int) {
	text = strings.TrimPrefix(text, "-")
	mantissa := text
	if i := strings.IndexAny(text, "eE"); i >= 0 {
		mantissa = text[:i]
		// Out of range is beyond Decimal128 as well as beyond int.
		n, err := strconv.Atoi(text[i+1:])
		if err != nil || n > 1e6 || n < -1e6 {
			n = int(math.Copysign(1e6, float64(n)))
		}
		exp = n
	}
	b := []byte(mantissa)
	if i := bytes.IndexByte(b, '.'); i >= 0 {
		exp -= len(b) - i - 1
		b = append(b[:i], b[i+1:]...)
	}
	b = bytes.TrimLeft(b, "0")
	trimmed := bytes.TrimRight(b, "0")
	if len(trimmed) == 0 {
		return "", 0
	}
	return string(trimmed), exp + len(b) - len(trimmed)
}

// short cuts text of the payload to a length that suits an error.
func short(text string) string {
	if len(text) > 40 {
		return text[:40] + "…"
	}
	return text
}
