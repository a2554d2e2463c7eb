package emit

import (
	"go/types"
	"strings"

	"github.com/dave/jennifer/jen"

	"github.com/orionjs/orion-go/generator/internal/resolve"
)

// enc calls a method of the encoder.
func (e *emitter) enc(method string, args ...jen.Code) *jen.Statement {
	return jen.Id(e.local.enc).Dot(method).Call(args...)
}

// encoder is the parameter every encode function takes first.
func (e *emitter) encoder() *jen.Statement {
	return jen.Id(e.local.enc).Op("*").Add(e.echoes("Encoder"))
}

// from writes the statement that encodes the value at a place.
func (e *emitter) from(t *resolve.Type, p place) *jen.Statement {
	if t.Func != nil {
		return jen.Id(t.Func.Encode).Call(jen.Id(e.local.enc), p.addr())
	}
	call := func(name string, args ...jen.Code) *jen.Statement {
		return e.echoes(name).Call(append([]jen.Code{jen.Id(e.local.enc)}, args...)...)
	}
	switch t.Form {
	case resolve.Method:
		return e.enc(t.Name, p.addr())
	case resolve.Convert:
		return e.enc(t.Name, e.converted(t.Go.Underlying(), p))
	case resolve.Helper:
		switch t.Name {
		case "Text", "Native":
			return call("Encode"+t.Name, p.addr())
		default:
			// A kind: what the driver writes depends on its size.
			return e.enc(kindMethod(t.Go), e.converted(t.Go.Underlying(), p))
		}
	case resolve.ByteArray:
		return e.enc("ByteArray", p.expr().Index(jen.Op(":")))
	case resolve.Array:
		return call("EncodeArray", p.expr().Index(jen.Op(":")), e.encodeValue(t.Elem))
	case resolve.Slice:
		return call("EncodeSlice", e.plain(t, p), e.encodeValue(t.Elem))
	case resolve.Map:
		if name := t.KeyWriter(); name != "" {
			key := e.echoes(name).Types(e.typ(t.Go.Underlying().(*types.Map).Key()))
			return call("EncodeMapOf", e.plain(t, p), key, e.encodeValue(t.Elem))
		}
		return call("EncodeMap", e.plain(t, p), e.encodeValue(t.Elem))
	default:
		return call("EncodePtr", e.plain(t, p), e.encodeValue(t.Elem))
	}
}

// kindMethod is the encoder's method for a type's kind.
func kindMethod(t types.Type) string {
	name := types.Typ[t.Underlying().(*types.Basic).Kind()].Name()
	return strings.ToUpper(name[:1]) + name[1:]
}

// encodeValue is the encoder of a type as a function value.
func (e *emitter) encodeValue(t *resolve.Type) jen.Code {
	if t.Func != nil {
		return jen.Id(t.Func.Encode)
	}
	switch {
	case t.Form == resolve.Method:
		return jen.Parens(jen.Op("*").Add(e.echoes("Encoder"))).Dot(t.Name)
	case t.Form == resolve.Helper && (t.Name == "Text" || t.Name == "Native"):
		return e.echoes("Encode" + t.Name).Types(e.typ(t.Go))
	case t.Form == resolve.Pointer:
		if _, named := types.Unalias(t.Go).(*types.Named); !named {
			return e.echoes("EncodePointer").Call(e.encodeValue(t.Elem))
		}
	}
	return jen.Func().Params(e.encoder(), jen.Id(e.local.ptr).Op("*").Add(e.typ(t.Go))).Block(
		e.from(t, at(e.local.ptr)),
	)
}

// encodeFunction writes an encode function.
func (e *emitter) encodeFunction(f *resolve.Func) jen.Code {
	var body []jen.Code
	if f.Known != nil {
		body = append(body, e.known(f.Known, e.enc))
	}
	switch c := f.Content; c.Form {
	case resolve.Struct:
		body = append(body, e.encodeFields(c)...)
	case resolve.BSONValue:
		body = append(body, e.enc("Value", jen.Id(e.local.ptr).Dot("MarshalBSONValue").Call()))
	case resolve.BSONDocument:
		body = append(body, e.enc("Document", jen.Id(e.local.ptr).Dot("MarshalBSON").Call()))
	default:
		body = append(body, e.from(c, at(e.local.ptr)))
	}
	if f.Validate {
		body = append(body, e.enc("Validate", jen.Id(e.local.ptr)))
	}
	return jen.Func().Id(f.Encode).Params(e.encoder(), jen.Id(e.local.ptr).Op("*").Add(e.typ(f.Go))).Block(body...)
}

// encodeFields writes the fields of a struct as a document.
func (e *emitter) encodeFields(t *resolve.Type) []jen.Code {
	out := []jen.Code{jen.Id(e.local.start).Op(":=").Add(e.enc("Begin"))}
	for _, f := range t.Fields {
		body := e.encodeField(f)
		if cond := e.there(f); cond != nil {
			out = append(out, jen.If(cond).Block(body...))
		} else {
			out = append(out, body...)
		}
	}
	if t.Rest != nil {
		p := field(e.local.ptr, t.Rest.Path)
		args := []jen.Code{jen.Id(e.local.enc), e.plain(t.Rest.Type, p), e.encodeValue(t.Rest.Type.Elem)}
		for _, f := range t.Fields {
			args = append(args, jen.Lit(f.Key))
			for _, also := range f.Also {
				args = append(args, jen.Lit(also)) // would be decoded into the field
			}
		}
		out = append(out, e.echoes("EncodeInline").Call(args...))
	}
	out = append(out, e.enc("End", jen.Id(e.local.start)))
	for _, path := range t.Validate {
		out = append(out, e.validatePart(path, e.enc))
	}
	return out
}

func (e *emitter) encodeField(f *resolve.Field) []jen.Code {
	p := field(e.local.ptr, f.Path)
	out := []jen.Code{e.enc("Key", jen.Lit(f.Key))}
	if f.Required {
		if cond := notNull(f.Type, p); cond != nil {
			out = append(out, e.enc("Required", cond))
		}
	}
	write := e.from(f.Type, p)
	if !f.MinSize {
		return append(out, write)
	}
	return append(out, e.enc("MinSize", jen.True()), write, e.enc("MinSize", jen.False()))
}

// there is the condition under which a field is written: the inlined structs on
// the way are there, and it is not empty where it may be left out. Nil is always.
func (e *emitter) there(f *resolve.Field) *jen.Statement {
	var conds []*jen.Statement
	for i, step := range f.Path {
		if step.New != nil {
			conds = append(conds, field(e.local.ptr, f.Path[:i+1]).expr().Op("!=").Nil())
		}
	}
	if f.OmitEmpty || optionalEnum(f) {
		conds = append(conds, notEmpty(f.Type.Go, field(e.local.ptr, f.Path))...)
	}
	if len(conds) == 0 {
		return nil
	}
	out := conds[0]
	for _, c := range conds[1:] {
		out = out.Op("&&").Add(c)
	}
	return out
}

// optionalEnum tells whether the field's zero value stands for "not given": it is none of the constants, and
// a decoder makes it of an absent field.
func optionalEnum(f *resolve.Field) bool {
	if f.Required || f.Type.Func == nil || f.Type.Func.Known == nil {
		return false
	}
	for _, c := range f.Type.Func.Known {
		if c.Literal == `""` || c.Literal == "0" {
			return false
		}
	}
	return true
}

// notEmpty is when the driver writes a field with omitempty.
func notEmpty(t types.Type, p place) []*jen.Statement {
	isZero := resolve.IsZeroer(t)
	switch u := t.Underlying().(type) {
	case *types.Pointer:
		conds := []*jen.Statement{p.expr().Op("!=").Nil()}
		if isZero {
			conds = append(conds, jen.Op("!").Add(p.expr()).Dot("IsZero").Call())
		}
		return conds
	case *types.Interface:
		return []*jen.Statement{p.expr().Op("!=").Nil()}
	case *types.Slice, *types.Map, *types.Array:
		if !isZero {
			return []*jen.Statement{jen.Len(p.expr()).Op(">").Lit(0)}
		}
	case *types.Basic:
		switch {
		case isZero:
		case u.Info()&types.IsBoolean != 0:
			return []*jen.Statement{p.expr()}
		case u.Info()&types.IsString != 0:
			return []*jen.Statement{p.expr().Op("!=").Lit("")}
		default:
			return []*jen.Statement{p.expr().Op("!=").Lit(0)}
		}
	}
	if isZero {
		return []*jen.Statement{jen.Op("!").Add(p.expr()).Dot("IsZero").Call()}
	}
	return nil // a struct is never empty
}

// notNull is when a value is not encoded as null; nil when it never is.
func notNull(t *resolve.Type, p place) *jen.Statement {
	switch t.Go.Underlying().(type) {
	case *types.Pointer, *types.Slice, *types.Map, *types.Interface:
		return p.expr().Op("!=").Nil()
	}
	if t.Form == resolve.Method && t.Name == "JSONNumber" {
		return p.expr().Op("!=").Lit("")
	}
	return nil
}
