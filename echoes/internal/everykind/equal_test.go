package everykind

import (
	"fmt"
	"math/big"
	"reflect"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// difference describes where two values of one type differ, "" if nowhere. NaN
// equals NaN, the registry that the driver leaves in a raw value does not count,
// and big numbers compare by value, and
// undefined is nil.
func difference(a, b any) string { return differ(reflect.ValueOf(a), reflect.ValueOf(b)) }

// differ makes the path on the way back, since hardly any two values differ.
func differ(a, b reflect.Value) string {
	if a.IsValid() != b.IsValid() || a.IsValid() && a.Type() != b.Type() {
		return fmt.Sprintf(": %v and %v", a, b)
	}
	if !a.IsValid() {
		return ""
	}
	equal := true
	switch a.Kind() {
	case reflect.Float32, reflect.Float64:
		equal = a.Float() == b.Float() || a.Float() != a.Float() && b.Float() != b.Float()
	case reflect.Pointer, reflect.Interface:
		if a.Kind() == reflect.Interface && absent(a) && absent(b) {
			return ""
		}
		if a.IsNil() || b.IsNil() {
			equal = a.IsNil() == b.IsNil()
			break
		}
		return differ(a.Elem(), b.Elem())
	case reflect.Slice, reflect.Array:
		if a.Len() != b.Len() || a.Kind() == reflect.Slice && a.IsNil() != b.IsNil() {
			equal = false
			break
		}
		for i := range a.Len() {
			if d := differ(a.Index(i), b.Index(i)); d != "" {
				return fmt.Sprintf("[%d]%s", i, d)
			}
		}
	case reflect.Map:
		if a.Len() != b.Len() || a.IsNil() != b.IsNil() {
			equal = false
			break
		}
		for _, key := range a.MapKeys() {
			if d := differ(a.MapIndex(key), b.MapIndex(key)); d != "" {
				return fmt.Sprintf("[%v]%s", key, d)
			}
		}
	case reflect.Struct:
		return differInStruct(a, b)
	default:
		equal = a.Equal(b)
	}
	if equal {
		return ""
	}
	return fmt.Sprintf(": %#v and %#v", a, b)
}

func differInStruct(a, b reflect.Value) string {
	if a.IsZero() && b.IsZero() {
		return ""
	}
	equal := true
	switch v := a.Interface().(type) {
	case bson.RawValue:
		equal = v.Equal(b.Interface().(bson.RawValue))
	case big.Int:
		w := b.Interface().(big.Int)
		equal = v.Cmp(&w) == 0
	default:
		for i := range a.NumField() {
			f := a.Type().Field(i)
			if !f.IsExported() {
				equal = reflect.DeepEqual(a.Interface(), b.Interface())
				break
			}
			if x, y := a.Field(i), b.Field(i); x.IsZero() && y.IsZero() {
				continue
			} else if d := differ(x, y); d != "" {
				return "." + f.Name + d
			}
		}
	}
	if equal {
		return ""
	}
	return fmt.Sprintf(": %v and %v", a, b)
}

// absent reports whether a free value is nil, which undefined is here.
func absent(v reflect.Value) bool {
	return v.IsNil() || v.Elem().Type() == reflect.TypeFor[bson.Undefined]()
}

func marshal(t testing.TB, v any) []byte {
	t.Helper()
	b, err := bson.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func document(b []byte) bson.RawValue {
	return bson.RawValue{Type: bson.TypeEmbeddedDocument, Value: b}
}
