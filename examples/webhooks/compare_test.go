package main

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/orionjs/orion-go/examples/webhooks/github"
)

// comparison walks a decoded payload and the JSON that it came from side by side. It goes by the types, so
// that no field is forgotten: one whose type it does not know is a difference.
type comparison struct {
	differences []string
	fields      int             // compared
	seen        map[string]bool // "Type.Field" of fields that had a value that is not zero
}

func (c *comparison) differ(path, format string, args ...any) {
	c.differences = append(c.differences, path+": "+fmt.Sprintf(format, args...))
}

var (
	timeType   = reflect.TypeFor[time.Time]()
	momentType = reflect.TypeFor[github.Moment]()
)

// value compares one value. want is what encoding/json makes of the input with UseNumber; nil stands for
// null and for nothing.
func (c *comparison) value(path string, got reflect.Value, want any) {
	switch {
	case got.Kind() == reflect.Pointer:
		switch {
		case want == nil && !got.IsNil():
			c.differ(path, "want nil, got %v", got.Elem())
		case want != nil && got.IsNil():
			c.differ(path, "want %v, got nil", want)
		case want != nil:
			c.value(path, got.Elem(), want)
		}
	case got.Kind() == reflect.Interface:
		if !same(got.Interface(), want) {
			c.differ(path, "want %v, got %v", want, got)
		}
	case want == nil:
		if !got.IsZero() {
			c.differ(path, "want the zero value, got %v", got)
		}
	case got.Type() == timeType:
		c.instant(path, got.Interface().(time.Time), want)
	case got.Type() == momentType:
		c.instant(path, got.Interface().(github.Moment).Time, want)
	default:
		c.kind(path, got, want)
	}
}

func (c *comparison) kind(path string, got reflect.Value, want any) {
	wrongType := func() { c.differ(path, "want %v (%T), got %v", want, want, got) }
	scalar := func(text string) {
		if n, ok := want.(json.Number); !ok || n.String() != text {
			wrongType()
		}
	}
	switch got.Kind() {
	case reflect.Struct:
		if m, ok := want.(map[string]any); ok {
			c.structure(path, got, m)
		} else {
			wrongType()
		}
	case reflect.Slice:
		list, ok := want.([]any)
		if !ok || got.IsNil() || got.Len() != len(list) {
			wrongType()
			return
		}
		for i := range list {
			c.value(fmt.Sprintf("%s[%d]", path, i), got.Index(i), list[i])
		}
	case reflect.Map:
		m, ok := want.(map[string]any)
		if !ok || got.IsNil() || got.Len() != len(m) {
			wrongType()
			return
		}
		for key, value := range m {
			if elem := got.MapIndex(reflect.ValueOf(key)); elem.IsValid() {
				c.value(path+"["+key+"]", elem, value)
			} else {
				c.differ(path, "the key %q is missing", key)
			}
		}
	case reflect.String:
		if s, ok := want.(string); !ok || s != got.String() {
			wrongType()
		}
	case reflect.Bool:
		if b, ok := want.(bool); !ok || b != got.Bool() {
			wrongType()
		}
	case reflect.Int, reflect.Int64:
		scalar(strconv.FormatInt(got.Int(), 10))
	default:
		c.differ(path, "the comparison does not know %s", got.Type())
	}
}

// structure compares all fields of a struct.
func (c *comparison) structure(path string, got reflect.Value, want map[string]any) {
	for field, value := range got.Fields() {
		name, option, _ := strings.Cut(field.Tag.Get("bson"), ",")
		if option == "inline" {
			c.structure(path, value, want)
			continue
		}
		c.fields++
		if !value.IsZero() {
			c.seen[got.Type().Name()+"."+field.Name] = true
		}
		c.value(path+"."+field.Name, value, want[name])
	}
}

// instant compares times: what was sent with an offset is the same instant in UTC.
func (c *comparison) instant(path string, got time.Time, want any) {
	var instant time.Time
	var err error
	switch want := want.(type) {
	case string:
		instant, err = time.Parse(time.RFC3339Nano, want)
	case json.Number:
		var seconds int64
		seconds, err = want.Int64()
		instant = time.Unix(seconds, 0)
	default:
		err = fmt.Errorf("%v is no time", want)
	}
	if err != nil || !instant.Equal(got) || got.Location() != time.UTC {
		c.differ(path, "want %v, got %v (%v)", want, got, err)
	}
}

// same compares a value of free form, as the decoder and as encoding/json make them.
func same(got, want any) bool {
	switch want := want.(type) {
	case json.Number:
		switch got := got.(type) {
		case int32, int64, bson.Decimal128:
			return fmt.Sprint(got) == want.String()
		case float64:
			f, err := want.Float64()
			return err == nil && f == got && strings.ContainsAny(want.String(), ".eE")
		}
		return false
	case []any:
		list, ok := got.(bson.A)
		if !ok || len(list) != len(want) {
			return false
		}
		for i := range list {
			if !same(list[i], want[i]) {
				return false
			}
		}
		return true
	case map[string]any:
		d, ok := got.(bson.D)
		if !ok || len(d) != len(want) {
			return false
		}
		for _, e := range d {
			value, ok := want[e.Key]
			if !ok || !same(e.Value, value) {
				return false
			}
		}
		return true
	default:
		return got == want
	}
}

// fieldsOf lists "Type.Field" of all fields that can be reached from a type.
func fieldsOf(t reflect.Type, into map[string]bool) {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		fieldsOf(t.Elem(), into)
	case reflect.Struct:
		if t == timeType || t == momentType {
			return
		}
		for field := range t.Fields() {
			if strings.HasSuffix(field.Tag.Get("bson"), ",inline") {
				fieldsOf(field.Type, into)
				continue
			}
			name := t.Name() + "." + field.Name
			if !into[name] {
				into[name] = true
				fieldsOf(field.Type, into)
			}
		}
	}
}

// alterations changes every leaf of a value, one after the other, calls try after each change and undoes it.
func alterations(path string, v reflect.Value, try func(path string)) {
	change := func(to reflect.Value) {
		old := reflect.New(v.Type()).Elem()
		old.Set(v)
		v.Set(to)
		try(path)
		v.Set(old)
	}
	switch {
	case v.Type() == timeType:
		change(reflect.ValueOf(v.Interface().(time.Time).Add(time.Millisecond)))
	case v.Type() == momentType:
		change(reflect.ValueOf(github.Moment{Time: v.Interface().(github.Moment).Add(time.Millisecond)}))
	case v.Kind() == reflect.Pointer && v.IsNil():
		change(reflect.New(v.Type().Elem()))
	case v.Kind() == reflect.Pointer:
		change(reflect.Zero(v.Type()))
		alterations(path, v.Elem(), try)
	case v.Kind() == reflect.Struct:
		for field, value := range v.Fields() {
			alterations(path+"."+field.Name, value, try)
		}
	case v.Kind() == reflect.Slice:
		change(reflect.Append(v, reflect.Zero(v.Type().Elem())))
		for i := range v.Len() {
			alterations(fmt.Sprintf("%s[%d]", path, i), v.Index(i), try)
		}
	case v.Kind() == reflect.Map && v.IsNil():
		change(reflect.MakeMap(v.Type()))
	case v.Kind() == reflect.Map:
		change(reflect.Zero(v.Type()))
	case v.Kind() == reflect.String:
		change(reflect.ValueOf(v.String() + " ").Convert(v.Type()))
	case v.Kind() == reflect.Bool:
		change(reflect.ValueOf(!v.Bool()).Convert(v.Type()))
	default:
		change(reflect.ValueOf(v.Int() + 1).Convert(v.Type()))
	}
}
