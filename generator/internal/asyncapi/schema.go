package asyncapi

import (
	"encoding/json"
	"go/types"
	"math"
	"strconv"
	"strings"

	"github.com/orionjs/orion-go/generator/internal/resolve"
)

// schema describes a type where it is used: a component by a reference.
func (s *schemas) schema(t *resolve.Type) object {
	if isComponent(t) {
		if c := s.component(t); c != nil {
			return reference("components", "schemas", c.name)
		}
	}
	return s.definition(t)
}

// definition describes what a type consists of.
func (s *schemas) definition(t *resolve.Type) object {
	if t.Func != nil && t.Func.Known != nil {
		return enumeration(t.Func.Known)
	}
	out := s.form(content(t))
	if t.Func != nil && t.Func.Text {
		return orText(out, t.Go)
	}
	return out
}

// form describes a way of decoding.
func (s *schemas) form(t *resolve.Type) object {
	switch t.Form {
	case resolve.Method, resolve.Convert:
		return method(t)
	case resolve.Helper:
		return helper(t)
	case resolve.ByteArray:
		return bytesSchema()
	case resolve.Array:
		out := object{{"type", "array"}, {"items", s.element(t.Elem)}}
		if a, ok := t.Go.Underlying().(*types.Array); ok {
			out.set("maxItems", a.Len())
		}
		return out
	case resolve.Slice:
		return object{{"type", "array"}, {"items", s.element(t.Elem)}}
	case resolve.Map:
		return object{{"type", "object"}, {"additionalProperties", s.element(t.Elem)}}
	case resolve.Pointer:
		return s.schema(t.Elem)
	case resolve.Struct:
		return s.structure(t)
	case resolve.BSONDocument:
		return object{{"type", "object"}, {"description", "read by " + types.TypeString(t.Go, (*types.Package).Name) + " itself"}}
	case resolve.BSONValue:
		return object{{"description", "read by " + types.TypeString(t.Go, (*types.Package).Name) + " itself"}}
	}
	return object{}
}

// element describes what a list, a map or a field holds: nil values are null.
func (s *schemas) element(t *resolve.Type) object {
	out := s.schema(t)
	if !hasNil(t) {
		return out
	}
	return orNull(out)
}

// hasNil reports whether null gives nil, and nil is published as null.
func hasNil(t *resolve.Type) bool {
	switch in := content(t); in.Form {
	case resolve.Pointer, resolve.Slice, resolve.Map:
		return true
	case resolve.Method, resolve.Convert:
		return in.Name == "Bytes" || in.Name == "Raw" || in.Name == "M" || in.Name == "D"
	}
	return false
}

// structure describes the keys of a document. Others may be there: they are
// skipped.
func (s *schemas) structure(t *resolve.Type) object {
	out := object{{"type", "object"}}
	properties := object{}
	var required []string
	var oneOfThese []object
	for _, f := range t.Fields {
		if f.Required {
			properties.set(f.Key, s.schema(f.Type))
			if len(f.Also) == 0 {
				required = append(required, f.Key)
			} else {
				oneOfThese = append(oneOfThese, spelled(f))
			}
			continue
		}
		properties.set(f.Key, s.element(f.Type))
	}
	if len(required) > 0 {
		out.set("required", required)
	}
	if len(properties) > 0 {
		out.set("properties", properties)
	}
	if len(oneOfThese) > 0 {
		out.set("allOf", oneOfThese)
	}
	if t.Rest != nil {
		out.set("additionalProperties", s.element(t.Rest.Type.Elem))
	}
	return out
}

// spelled demands a key in one of the spellings that are read.
func spelled(f *resolve.Field) object {
	var any []object
	for _, key := range append([]string{f.Key}, f.Also...) {
		any = append(any, object{{"required", []string{key}}})
	}
	return object{{"anyOf", any}}
}

// orNull also allows null.
func orNull(schema object) object {
	for i, m := range schema {
		if name, ok := m.value.(string); ok && m.name == "type" {
			out := append(object{}, schema...)
			out[i].value = []string{name, "null"}
			return out
		}
	}
	if !schema.has("$ref") && !schema.has("anyOf") {
		return schema // anything goes, null too
	}
	return object{{"anyOf", []object{schema, {{"type", "null"}}}}}
}

// orText also allows the text that a type parses.
func orText(schema object, t types.Type) object {
	text := textOf(t)
	if len(schema) == 0 || schema[0].value == "string" {
		return text
	}
	return object{{"anyOf", []object{text, schema}}}
}

// formats are those of types that parse text.
var formats = map[string]string{
	"github.com/google/uuid.UUID":           "uuid",
	"github.com/google/uuid.NullUUID":       "uuid",
	"github.com/gofrs/uuid.UUID":            "uuid",
	"github.com/gofrs/uuid/v5.UUID":         "uuid",
	"net/url.URL":                           "uri",
	"net/mail.Address":                      "email",
	"github.com/shopspring/decimal.Decimal": "decimal",
}

// textOf describes a type that parses text.
func textOf(t types.Type) object {
	out := object{{"type", "string"}}
	named, ok := types.Unalias(t).(*types.Named)
	if !ok || named.Obj().Pkg() == nil {
		return out
	}
	if format := formats[named.Obj().Pkg().Path()+"."+named.Obj().Name()]; format != "" {
		out.set("format", format)
		return out
	}
	out.set("description", "as "+types.TypeString(t, (*types.Package).Name)+" parses it")
	return out
}

// method describes what a method of the decoder reads.
func method(t *resolve.Type) object {
	switch t.Name {
	case "String":
		return object{{"type", "string"}}
	case "Bool":
		return object{{"type", "boolean"}}
	case "Time", "DateTime":
		return object{{"type", "string"}, {"format", "date-time"}}
	case "Duration":
		return object{{"type", []string{"integer", "string"}}, {"description", "nanoseconds, or text like 1m30s"}}
	case "ObjectID":
		return object{{"type", "string"}, {"format", "objectid"}, {"pattern", "^[0-9a-fA-F]{24}$"}}
	case "Decimal128":
		exact := object{
			{"type", "object"},
			{"required", []string{"$numberDecimal"}},
			{"properties", object{{"$numberDecimal", object{{"type", "string"}}}}},
		}
		return object{{"anyOf", []object{{{"type", "number"}}, exact}}}
	case "JSONNumber":
		return object{{"type", "number"}}
	case "BigInt":
		return object{{"type", []string{"integer", "string"}}, {"description", "a whole number of any size"}}
	case "URL":
		return object{{"type", "string"}, {"format", "uri"}}
	case "Bytes":
		return bytesSchema()
	case "Raw", "M":
		return object{{"type", "object"}}
	case "D":
		return object{{"type", "object"}, {"description", "the order of keys counts"}}
	}
	if b, ok := t.Go.Underlying().(*types.Basic); ok {
		return basic(b)
	}
	return object{} // any, bson.RawValue, json.RawMessage
}

// helper describes what a generic function of the runtime reads.
func helper(t *resolve.Type) object {
	if t.Name == "Text" {
		return textOf(t.Go)
	}
	if b, ok := t.Go.Underlying().(*types.Basic); ok && strings.HasSuffix(t.Name, "Of") {
		return basic(b)
	}
	return object{{"description", types.TypeString(t.Go, (*types.Package).Name)}}
}

// bytesSchema describes binary data, as Node writes it to JSON.
func bytesSchema() object {
	octet := object{{"type", "integer"}, {"minimum", 0}, {"maximum", math.MaxUint8}}
	return object{
		{"type", "object"},
		{"required", []string{"type", "data"}},
		{"properties", object{
			{"type", object{{"const", "Buffer"}}},
			{"data", object{{"type", "array"}, {"items", octet}}},
		}},
	}
}

// ranges are those of the small integers. Numbers of 64 bits are told by their
// format: as numbers of JSON, their limits are not exact.
var ranges = map[types.BasicKind][2]int64{
	types.Int8: {math.MinInt8, math.MaxInt8}, types.Int16: {math.MinInt16, math.MaxInt16},
	types.Uint8: {0, math.MaxUint8}, types.Uint16: {0, math.MaxUint16}, types.Uint32: {0, math.MaxUint32},
}

func basic(b *types.Basic) object {
	switch info := b.Info(); {
	case info&types.IsString != 0:
		return object{{"type", "string"}}
	case info&types.IsBoolean != 0:
		return object{{"type", "boolean"}}
	case info&types.IsFloat != 0:
		if b.Kind() == types.Float32 {
			return object{{"type", "number"}, {"format", "float"}}
		}
		return object{{"type", "number"}, {"format", "double"}}
	case info&types.IsInteger != 0:
		out := object{{"type", "integer"}}
		switch limits, small := ranges[b.Kind()]; {
		case small:
			out.set("minimum", limits[0])
			out.set("maximum", limits[1])
		case b.Kind() == types.Int32:
			out.set("format", "int32")
		default:
			out.set("format", "int64")
			if info&types.IsUnsigned != 0 {
				out.set("minimum", 0)
			}
		}
		return out
	}
	return object{}
}

// enumeration describes a type that accepts its constants alone.
func enumeration(known []resolve.Constant) object {
	kind, values := "integer", make([]any, 0, len(known))
	for _, c := range known {
		if text, err := strconv.Unquote(c.Literal); err == nil {
			kind = "string"
			values = append(values, text)
			continue
		}
		values = append(values, json.Number(c.Literal))
	}
	return object{{"type", kind}, {"enum", values}}
}
