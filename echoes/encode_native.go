package echoes

import (
	"encoding/json"
	"math/big"
	"net/url"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// BigInt writes a whole number of any size as its decimal text.
func (e *Encoder) BigInt(p *big.Int) { EncodeText(e, p) }

// JSONNumber writes an int64 where the number is one, else a double, or a
// Decimal128 where a double would change the number. Text that is no number is a
// problem; no text is null.
func (e *Encoder) JSONNumber(p *json.Number) {
	if *p == "" {
		e.null()
		return
	}
	if n, err := p.Int64(); err == nil {
		e.integer(n, e.minSize > 0)
		return
	}
	dec, err := bson.ParseDecimal128(p.String())
	if err != nil || dec.IsInf() != 0 || dec.IsNaN() {
		e.failf("the json.Number ", quoteShort([]byte(*p)), " is not a number that BSON holds")
		return
	}
	if f, err := p.Float64(); err == nil && isShortest(dec, f) {
		e.double(f)
		return
	}
	e.Decimal128(&dec)
}

// isShortest reports whether a decimal is the shortest one that stands for f.
func isShortest(dec bson.Decimal128, f float64) bool {
	_, b, err := bson.MarshalValue(dec)
	if err != nil {
		return false
	}
	got, ok := decimalAt(b).float(64)
	return ok && got == f
}

// JSON writes JSON text as binary data, the driver's form of a json.RawMessage.
// Text that is not JSON is a problem; nil is null.
func (e *Encoder) JSON(p *json.RawMessage) {
	if *p != nil && !json.Valid(*p) {
		e.failf("the json.RawMessage is not JSON")
		return
	}
	e.Bytes((*[]byte)(p))
}

// URL writes a URL as its text.
func (e *Encoder) URL(p *url.URL) {
	s := p.String()
	e.String(&s)
}

// DateTime is Time for the driver's type.
func (e *Encoder) DateTime(p *bson.DateTime) {
	t := p.Time()
	e.Time(&t)
}

// EncodeNative writes one of the driver's types that stand for exactly one type
// of BSON. It leaves that to the driver.
func EncodeNative[T native](e *Encoder, p *T) {
	t, b, err := bson.MarshalValue(*p)
	e.Value(byte(t), b, err)
}

// NotOneOf makes the value that is about to be written a problem: it is none of
// the values that its type knows. known lists them, as an error shows them.
func (e *Encoder) NotOneOf(known string) {
	e.failf("want one of " + known)
}
