package echoes

import (
	"reflect"
	"slices"
)

var serviceType = reflect.TypeFor[Service]()

func isNil(s Service) bool {
	return s == nil || nilValue(reflect.ValueOf(s))
}

func nilValue(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface, reflect.Map, reflect.Slice, reflect.Func:
		return v.IsNil()
	default:
		return false
	}
}

// nilInside names a service embedded in s, at any depth, that is nil, as in
// "Base.*shop.Orders"; it is empty when all are there. Go promotes the methods of
// a nil pointer like any others, EchoesListeners too: such a service would start,
// and each event find a handler without its fields.
func nilInside(s Service) string {
	if isNil(s) {
		return ""
	}
	return nilEmbedded(reflect.ValueOf(s), nil)
}

// nilEmbedded is nilInside for a value, inside those of the types around it: a
// type that is among them can embed no service that they have not.
func nilEmbedded(v reflect.Value, around []reflect.Type) string {
	for v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface {
		if v.IsNil() {
			return ""
		}
		v = v.Elem()
	}
	if v.Kind() != reflect.Struct || slices.Contains(around, v.Type()) {
		return ""
	}
	around = append(around, v.Type())
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if !f.Anonymous {
			continue
		}
		if f.Type.Implements(serviceType) && nilValue(v.Field(i)) {
			return f.Type.String()
		}
		if inside := nilEmbedded(v.Field(i), around); inside != "" {
			return f.Name + "." + inside
		}
	}
	return ""
}
