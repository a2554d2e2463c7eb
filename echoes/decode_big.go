package echoes

import (
	"encoding/json"
	"math/big"
	"strconv"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// BigInt reads any number without a fraction, and text as big.Int parses it,
// which is how whole numbers beyond 64 bits are usually sent. The driver stores a
// big.Int as an empty document, without its value, and that is a problem here.
func (d *Decoder) BigInt(p *big.Int) {
	if d.err != nil {
		return
	}
	switch d.typ {
	case bson.TypeDouble, bson.TypeDecimal128:
		n, ok := d.wholeNumber()
		if !ok {
			d.failInteger("a whole number")
			return
		}
		p.Set(n)
	case bson.TypeInt32, bson.TypeInt64:
		var n int64
		IntOf(d, &n)
		p.SetInt64(n)
	case bson.TypeNull, bson.TypeUndefined:
		p.SetInt64(0)
	case bson.TypeString, bson.TypeEmbeddedDocument:
		Text(d, p)
	default:
		d.failWant("a whole number or its text")
	}
}

// wholeNumber is the double or Decimal128 under the cursor as an integer of any
// size.
func (d *Decoder) wholeNumber() (*big.Int, bool) {
	b := d.buf[d.off:d.end]
	if d.typ == bson.TypeDouble {
		f := doubleAt(b)
		if f != f || f-f != 0 {
			return nil, false
		}
		n, accuracy := big.NewFloat(f).Int(nil)
		return n, accuracy == big.Exact
	}
	dec := decimalAt(b)
	if dec.special != 0 {
		return nil, false
	}
	n := new(big.Int).SetUint64(dec.hi)
	n.Lsh(n, 64).Or(n, new(big.Int).SetUint64(dec.lo))
	power := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(max(dec.exp, -dec.exp))), nil)
	if dec.exp >= 0 {
		n.Mul(n, power)
	} else {
		var rest big.Int
		if n.QuoRem(n, power, &rest); rest.Sign() != 0 {
			return nil, false
		}
	}
	if dec.negative {
		n.Neg(n)
	}
	return n, true
}

// JSONNumber reads any number as its decimal text, which for a double is the
// shortest that stands for it. NaN and infinities have no form in JSON.
func (d *Decoder) JSONNumber(p *json.Number) {
	if d.err != nil {
		return
	}
	switch d.typ {
	case bson.TypeNull, bson.TypeUndefined:
		*p = ""
	case bson.TypeInt32, bson.TypeInt64, bson.TypeDouble, bson.TypeDecimal128:
		if b, ok := d.appendNumber(nil); ok {
			*p = json.Number(b)
		}
	default:
		d.failWant("a number")
	}
}

// appendNumber appends the number under the cursor as JSON has it.
func (d *Decoder) appendNumber(b []byte) ([]byte, bool) {
	v := d.buf[d.off:d.end]
	switch d.typ {
	case bson.TypeDouble:
		if f := doubleAt(v); f-f == 0 {
			return strconv.AppendFloat(b, f, 'f', -1, 64), true
		}
	case bson.TypeDecimal128:
		if dec := decimalAt(v); dec.special == 0 {
			return append(b, dec.value().String()...), true
		}
	default:
		return append(b, d.numberText()...), true
	}
	d.failf("want a number, got ", typeName(d.typ), " ", d.numberText(), ", which JSON does not have")
	return nil, false
}
