package echoes

import (
	"strconv"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// native are the driver's types that stand for exactly one type of BSON.
type native interface {
	bson.Binary | bson.Symbol | bson.JavaScript | bson.Timestamp | bson.Regex | bson.DBPointer | bson.CodeWithScope | bson.MinKey | bson.MaxKey
}

// Native reads a value of the one BSON type that T stands for. null gives the
// zero value.
func Native[T native](d *Decoder, p *T) {
	if d.err != nil {
		return
	}
	if d.null() {
		*p = *new(T)
		return
	}
	want := nativeType(p)
	if d.typ != want {
		d.failWant(typeName(want))
		return
	}
	if v, ok := take(d, (*Decoder).Any).(T); ok {
		*p = v
	}
}

func nativeType(p any) bson.Type {
	switch p.(type) {
	case *bson.Binary:
		return bson.TypeBinary
	case *bson.Symbol:
		return bson.TypeSymbol
	case *bson.JavaScript:
		return bson.TypeJavaScript
	case *bson.Timestamp:
		return bson.TypeTimestamp
	case *bson.Regex:
		return bson.TypeRegex
	case *bson.DBPointer:
		return bson.TypeDBPointer
	case *bson.CodeWithScope:
		return bson.TypeCodeWithScope
	case *bson.MinKey:
		return bson.TypeMinKey
	default:
		return bson.TypeMaxKey
	}
}

// DateTime reads a date, or text in RFC 3339 that is not finer than
// milliseconds.
func (d *Decoder) DateTime(p *bson.DateTime) {
	var t time.Time
	if d.Time(&t); d.err != nil {
		return
	}
	switch {
	case d.null():
		*p = 0
	case t.Nanosecond()%int(time.Millisecond) != 0:
		d.failf("a date has milliseconds, got ", strconv.Quote(t.Format(time.RFC3339Nano)))
	default:
		*p = bson.DateTime(t.UnixMilli())
	}
}

// NotOneOf makes the value just read a problem, unless it was null or there is a
// problem already: it is none of the values that its type knows. known lists
// them, as an error shows them.
func (d *Decoder) NotOneOf(known string) {
	if d.err != nil || d.null() {
		return
	}
	got := typeName(d.typ)
	switch d.typ {
	case bson.TypeString:
		b, _ := d.text()
		got += " " + quoteShort(b)
	case bson.TypeInt32, bson.TypeInt64, bson.TypeDouble, bson.TypeDecimal128:
		got += " " + d.numberText()
	}
	d.failf("want one of ", known, ", got ", got)
}
