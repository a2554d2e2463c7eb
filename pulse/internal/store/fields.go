package store

import (
	"math"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// fields reads a document leniently: absent, null and wrong types all read as absent (spec 6.3).
type fields map[string]bson.RawValue

// parse copies the document, so that what is read outlives a cursor's buffer.
func parse(raw bson.Raw) fields {
	elements, err := append(bson.Raw(nil), raw...).Elements()
	if err != nil {
		return fields{}
	}
	f := make(fields, len(elements))
	for _, e := range elements {
		if v := e.Value(); v.Type != bson.TypeNull && v.Type != bson.TypeUndefined {
			f[e.Key()] = v
		}
	}
	return f
}

func (f fields) has(key string) bool {
	_, ok := f[key]
	return ok
}

// any returns the value, of whatever type, or nil.
func (f fields) any(key string) any {
	if v, ok := f[key]; ok {
		return v
	}
	return nil
}

// fence is the condition that finds the document as it was read: that value, or none. It is explicit about
// equality, since the value may be a document that reads as an operator.
func (f fields) fence(key string) bson.E {
	return bson.E{Key: key, Value: bson.D{{Key: "$eq", Value: f.any(key)}}}
}

func (f fields) str(key string) string {
	s, _ := f[key].StringValueOK()
	return s
}

func (f fields) bool(key string) (value, ok bool) { return f[key].BooleanOK() }

func (f fields) date(key string) (time.Time, bool) {
	ms, ok := f[key].DateTimeOK()
	if !ok {
		return time.Time{}, false
	}
	return time.UnixMilli(ms).UTC(), true
}

func (f fields) time(key string) time.Time {
	t, _ := f.date(key)
	return t
}

func (f fields) timestamp(key string) (bson.Timestamp, bool) {
	t, i, ok := f[key].TimestampOK()
	return bson.Timestamp{T: t, I: i}, ok
}

// number reads int32, int64 and double alike; NaN reads as absent.
func (f fields) number(key string) (float64, bool) {
	v := f[key]
	switch v.Type {
	case bson.TypeInt32:
		return float64(v.Int32()), true
	case bson.TypeInt64:
		return float64(v.Int64()), true
	case bson.TypeDouble:
		d := v.Double()
		return d, !math.IsNaN(d)
	default:
		return 0, false
	}
}

// MaxNumber is the largest whole number that every client of a group reads exactly: Node's are doubles.
const MaxNumber = 1<<53 - 1

// int reads a number, without its fraction and cut to the range that is exact.
func (f fields) int(key string) (int, bool) {
	n, ok := f.number(key)
	return int(max(-MaxNumber, min(n, MaxNumber))), ok
}

// strs reads an array of strings; elements of other types are left out.
func (f fields) strs(key string) []string {
	arr, ok := f[key].ArrayOK()
	if !ok {
		return nil
	}
	values, err := arr.Values()
	if err != nil {
		return nil
	}
	out := make([]string, 0, len(values))
	for _, v := range values {
		if s, ok := v.StringValueOK(); ok {
			out = append(out, s)
		}
	}
	return out
}

// strMap reads a document of strings; values of other types are left out.
func (f fields) strMap(key string) map[string]string {
	doc, ok := f[key].DocumentOK()
	if !ok {
		return nil
	}
	elements, err := doc.Elements()
	if err != nil {
		return nil
	}
	out := make(map[string]string, len(elements))
	for _, e := range elements {
		if s, ok := e.Value().StringValueOK(); ok {
			out[e.Key()] = s
		}
	}
	return out
}

// number writes a whole number as int32 where it fits, as Node's driver does, else as double or int64.
func number(n float64) any {
	switch {
	case n == math.Trunc(n) && math.Abs(n) <= math.MaxInt32:
		return int32(n)
	case n == math.Trunc(n) && math.Abs(n) <= MaxNumber:
		return int64(n)
	default:
		return n
	}
}
