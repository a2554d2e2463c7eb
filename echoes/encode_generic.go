package echoes

import (
	"strconv"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// EncodeSlice writes an array, each element with elem; nil is null.
func EncodeSlice[E any](e *Encoder, p *[]E, elem func(*Encoder, *E)) {
	if *p == nil {
		e.null()
		return
	}
	EncodeArray(e, *p, elem)
}

// EncodeArray writes an array of all of src. It serves Go arrays:
// echoes.EncodeArray(e, p.Axes[:], elem).
func EncodeArray[E any](e *Encoder, src []E, elem func(*Encoder, *E)) {
	start := e.begin(bson.TypeArray)
	for i := range src {
		if e.err != nil {
			break
		}
		e.index(i)
		elem(e, &src[i])
	}
	e.End(start)
}

// index is Key for an element of an array.
func (e *Encoder) index(i int) {
	e.at = len(e.buf)
	e.buf = append(e.buf, 0)
	e.buf = strconv.AppendInt(e.buf, int64(i), 10)
	e.buf = append(e.buf, 0)
}

// EncodePtr writes what *p points to with elem; nil is null.
func EncodePtr[P any](e *Encoder, p **P, elem func(*Encoder, *P)) {
	switch {
	case *p == nil:
		e.null()
	case e.err == nil: // else a value that contains itself would have no end
		elem(e, *p)
	}
}

// EncodePointer turns the encoder of a P into that of a *P, for parameters,
// elements and map values that are pointers.
func EncodePointer[P any](elem func(*Encoder, *P)) func(*Encoder, **P) {
	return func(e *Encoder, p **P) { EncodePtr(e, p, elem) }
}

// M writes a document in the order of the keys; nil is null.
func (e *Encoder) M(p *bson.M) {
	m := map[string]any(*p)
	EncodeMap(e, &m, (*Encoder).Any)
}

// D writes a document; nil is null.
func (e *Encoder) D(p *bson.D) {
	if *p == nil {
		e.null()
		return
	}
	start := e.Begin()
	for i := range *p {
		if e.err != nil {
			break
		}
		e.key((*p)[i].Key)
		e.Any(&(*p)[i].Value)
	}
	e.End(start)
}

// Any writes any value; nil is null. What the decoder's Any makes, the kinds of
// Go and maps and slices of any are written here; other types are left to the
// driver, which uses reflection.
func (e *Encoder) Any(p *any) {
	switch v := (*p).(type) {
	case nil:
		e.null()
	case string:
		e.String(&v)
	case bool:
		e.Bool(&v)
	case int:
		e.Int(&v)
	case int32:
		e.Int32(&v)
	case int64:
		e.Int64(&v)
	case float64:
		e.Float64(&v)
	case time.Time:
		e.Time(&v)
	case bson.DateTime:
		e.DateTime(&v)
	case bson.ObjectID:
		e.ObjectID(&v)
	case bson.Decimal128:
		e.Decimal128(&v)
	case []byte:
		e.Bytes(&v)
	case bson.D:
		e.D(&v)
	case bson.M:
		e.M(&v)
	case map[string]any:
		EncodeMap(e, &v, (*Encoder).Any)
	case bson.A:
		s := []any(v)
		EncodeSlice(e, &s, (*Encoder).Any)
	case []any:
		EncodeSlice(e, &v, (*Encoder).Any)
	case bson.Binary:
		EncodeNative(e, &v)
	case bson.Timestamp:
		EncodeNative(e, &v)
	case bson.Raw:
		e.Raw(&v)
	case bson.RawValue:
		e.RawValue(&v)
	case map[string]string:
		EncodeMap(e, &v, (*Encoder).String)
	case []string:
		EncodeSlice(e, &v, (*Encoder).String)
	default:
		e.dynamic(v)
	}
}
