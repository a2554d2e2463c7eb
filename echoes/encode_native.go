package echoes

import (
	"encoding/binary"
	"encoding/json"
	"math/big"
	"net/url"
	"strconv"

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
	f, ferr := p.Float64()
	if ferr == nil && strconv.FormatFloat(f, 'f', -1, 64) == p.String() && f-f == 0 {
		e.double(f)
		return
	}
	dec, err := bson.ParseDecimal128(p.String())
	if err != nil || dec.IsInf() != 0 || dec.IsNaN() {
		e.failf("the json.Number ", quoteShort([]byte(*p)), " is not a number that BSON holds")
		return
	}
	if ferr == nil && isShortest(dec, f) {
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
	e.text(bson.TypeString, p.String())
}

// DateTime is Time for the driver's type.
func (e *Encoder) DateTime(p *bson.DateTime) {
	t := p.Time()
	e.Time(&t)
}

// EncodeNative writes one of the driver's types that stand for exactly one type
// of BSON. Code without a scope, which the driver refuses, has an empty one.
func EncodeNative[T native](e *Encoder, p *T) {
	switch v := any(p).(type) {
	case *bson.Binary:
		e.binary(v.Subtype, v.Data)
	case *bson.Symbol:
		e.text(bson.TypeSymbol, string(*v))
	case *bson.JavaScript:
		e.text(bson.TypeJavaScript, string(*v))
	case *bson.Timestamp:
		e.put(bson.TypeTimestamp)
		e.buf = binary.LittleEndian.AppendUint32(e.buf, v.I)
		e.buf = binary.LittleEndian.AppendUint32(e.buf, v.T)
	case *bson.MinKey:
		e.put(bson.TypeMinKey)
	case *bson.MaxKey:
		e.put(bson.TypeMaxKey)
	case *bson.CodeWithScope:
		code := *v
		if code.Scope == nil {
			code.Scope = bson.D{}
		}
		e.dynamic(code)
	default: // rare
		e.dynamic(*p)
	}
}

// dynamic leaves a value to the driver, which uses reflection.
func (e *Encoder) dynamic(v any) {
	t, b, err := bson.MarshalValue(v)
	e.Value(byte(t), b, err)
}

// binary writes binary data of any subtype. Subtype 2 repeats the length inside.
func (e *Encoder) binary(subtype byte, data []byte) {
	e.put(bson.TypeBinary)
	n := uint32(len(data))
	if subtype == bson.TypeBinaryBinaryOld {
		n += 4
	}
	e.buf = binary.LittleEndian.AppendUint32(e.buf, n)
	e.buf = append(e.buf, subtype)
	if subtype == bson.TypeBinaryBinaryOld {
		e.buf = binary.LittleEndian.AppendUint32(e.buf, n-4)
	}
	e.buf = append(e.buf, data...)
}

// NotOneOf makes the value that is about to be written a problem: it is none of
// the values that its type knows. known lists them, as an error shows them.
func (e *Encoder) NotOneOf(known string) {
	e.failf("want one of " + known)
}
