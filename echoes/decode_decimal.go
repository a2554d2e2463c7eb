package echoes

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/bits"
	"strconv"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// decimal is a Decimal128 taken apart: (hi*2^64 + lo) * 10^exp with a sign, or
// one of the special values.
type decimal struct {
	high, low uint64 // as stored

	negative bool
	special  float64 // infinity or NaN, else 0
	hi, lo   uint64
	exp      int
}

// decimalAt reads the 16 bytes of a Decimal128.
func decimalAt(b []byte) decimal {
	return splitDecimal(binary.LittleEndian.Uint64(b[8:]), binary.LittleEndian.Uint64(b))
}

func splitDecimal(high, low uint64) decimal {
	d := decimal{high: high, low: low, negative: high>>63 == 1}
	const bias = 6176
	switch {
	case high>>58&31 == 31:
		d.special = math.NaN()
	case high>>58&31 == 30:
		d.special = math.Inf(1)
	case high>>61&3 == 3:
		// The wide form starts at a coefficient above 34 digits, which the
		// format defines as zero.
		d.exp = int(high>>47&0x3fff) - bias
	default:
		d.exp = int(high>>49&0x3fff) - bias
		d.hi, d.lo = high&(1<<49-1), low
		if !d.canonical() {
			d.hi, d.lo = 0, 0
		}
	}
	return d
}

// canonical reports whether the coefficient has at most 34 digits. One with
// more counts as zero.
func (d decimal) canonical() bool {
	const hi, lo = 0x1ed09bead87c0, 0x378d8e63ffffffff // 10^34-1
	return d.hi < hi || d.hi == hi && d.lo <= lo
}

func (d decimal) value() bson.Decimal128 { return bson.NewDecimal128(d.high, d.low) }

// integer returns the magnitude as a whole number. whole is false when there is
// a fraction or no number at all, fits when it exceeds 64 bits.
func (d decimal) integer() (n uint64, whole, fits bool) {
	if d.special != 0 {
		return 0, false, false
	}
	if d.hi == 0 && d.lo == 0 {
		return 0, true, true
	}
	hi, lo := d.hi, d.lo
	for exp := d.exp; exp < 0; exp++ {
		var rest uint64
		if hi, lo, rest = div10(hi, lo); rest != 0 {
			return 0, false, false
		}
	}
	for exp := d.exp; exp > 0 && hi == 0; exp-- {
		hi, lo = bits.Mul64(lo, 10)
	}
	return lo, true, hi == 0
}

// float returns the float64, or the float32 when width is 32, that stands for
// d. ok is false when it would lose something: d must be the shortest decimal
// of the float or the same integer.
func (d decimal) float(width int) (f float64, ok bool) {
	sign := 1.0
	if d.negative {
		sign = -1
	}
	if d.special != 0 {
		return math.Copysign(d.special, sign), true
	}
	if d.hi == 0 && d.lo == 0 {
		return math.Copysign(0, sign), true
	}
	if n, whole, fits := d.integer(); whole && fits {
		f = float64(n)
		if width == 32 {
			f = float64(float32(n))
		}
		if f < 1<<64 && uint64(f) == n {
			return f * sign, true
		}
	}
	var digits, shortest [64]byte
	text := d.appendDigits(digits[:0])
	f, err := strconv.ParseFloat(string(text)+"e"+strconv.Itoa(d.exp), width)
	if err != nil || f == 0 {
		return 0, false
	}
	// d.ddde±x against ddd e±y: the same digits without trailing zeros mean the
	// same number, since both stand for the same float.
	mantissa, _, _ := bytes.Cut(strconv.AppendFloat(shortest[:0], f, 'e', -1, width), []byte("e"))
	mantissa = bytes.Replace(mantissa, []byte("."), nil, 1)
	if !bytes.Equal(bytes.TrimRight(mantissa, "0"), bytes.TrimRight(text, "0")) {
		return 0, false
	}
	return f * sign, true
}

// appendDigits appends the coefficient's digits, none for zero.
func (d decimal) appendDigits(b []byte) []byte {
	var buf [40]byte
	i := len(buf)
	for hi, lo := d.hi, d.lo; hi != 0 || lo != 0; {
		var digit uint64
		hi, lo, digit = div10(hi, lo)
		i--
		buf[i] = '0' + byte(digit)
	}
	return append(b, buf[i:]...)
}

func div10(hi, lo uint64) (qhi, qlo, rest uint64) {
	qhi, rest = hi/10, hi%10
	qlo, rest = bits.Div64(rest, lo, 10)
	return qhi, qlo, rest
}

// Decimal128 reads a Decimal128, an integer, or a double, which becomes its
// shortest decimal.
func (d *Decoder) Decimal128(p *bson.Decimal128) {
	if d.err != nil {
		return
	}
	switch d.typ {
	case bson.TypeDecimal128:
		*p = decimalAt(d.buf[d.off:d.end]).value()
	case bson.TypeInt32, bson.TypeInt64, bson.TypeDouble:
		dec, err := bson.ParseDecimal128(d.numberText())
		if err != nil {
			d.failf("want decimal128, got ", typeName(d.typ), " ", d.numberText(), ", which it cannot hold without loss")
			return
		}
		*p = dec
	case bson.TypeNull, bson.TypeUndefined:
		*p = bson.Decimal128{}
	default:
		d.failWant("decimal128")
	}
}
