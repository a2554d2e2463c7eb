package emit

import (
	"go/types"
	"strings"

	"github.com/dave/jennifer/jen"

	"github.com/orionjs/orion-go/generator/internal/resolve"
)

// place is something that a value is decoded into.
type place struct {
	// expr is the value, and addr a pointer to it.
	expr, addr func() *jen.Statement
}

// at is the place that a pointer variable points to.
func at(pointer string) place {
	return place{
		expr: func() *jen.Statement { return jen.Id(pointer) },
		addr: func() *jen.Statement { return jen.Id(pointer) },
	}
}

// field is a field reached through a pointer variable.
func field(pointer string, path []resolve.Step) place {
	expr := func() *jen.Statement {
		s := jen.Id(pointer)
		for _, step := range path {
			s = s.Dot(step.Name)
		}
		return s
	}
	return place{expr: expr, addr: func() *jen.Statement { return jen.Op("&").Add(expr()) }}
}

// into writes the statement that decodes the value under the cursor.
func (e *emitter) into(t *resolve.Type, p place) *jen.Statement {
	if t.Func != nil {
		return jen.Id(t.Func.Name).Call(jen.Id(e.local.dec), p.addr())
	}
	switch t.Form {
	case resolve.Method:
		return e.d(t.Name, p.addr())
	case resolve.Convert:
		return e.d(t.Name, e.converted(t.Go.Underlying(), p))
	case resolve.Helper:
		return e.echoes(t.Name).Call(jen.Id(e.local.dec), p.addr())
	case resolve.ByteArray:
		return e.d("ByteArray", p.expr().Index(jen.Op(":")))
	case resolve.Array:
		return e.echoes("Array").Call(jen.Id(e.local.dec), p.expr().Index(jen.Op(":")), e.value(t.Elem))
	case resolve.Slice:
		return e.echoes("Slice").Call(jen.Id(e.local.dec), e.plain(t, p), e.value(t.Elem))
	case resolve.Map:
		if t.Key != "" {
			key := e.echoes(t.Key).Types(e.typ(t.Go.Underlying().(*types.Map).Key()))
			return e.echoes("MapOf").Call(jen.Id(e.local.dec), e.plain(t, p), key, e.value(t.Elem))
		}
		return e.echoes("Map").Call(jen.Id(e.local.dec), e.plain(t, p), e.value(t.Elem))
	default:
		return e.echoes("Ptr").Call(jen.Id(e.local.dec), e.plain(t, p), e.value(t.Elem))
	}
}

// plain is a pointer to a place whose type has no name of its own, which the
// generic functions need to infer the elements.
func (e *emitter) plain(t *resolve.Type, p place) *jen.Statement {
	if _, named := types.Unalias(t.Go).(*types.Named); named {
		return e.converted(t.Go.Underlying(), p)
	}
	return p.addr()
}

func (e *emitter) converted(to types.Type, p place) *jen.Statement {
	return jen.Parens(jen.Op("*").Add(e.typ(to))).Call(p.addr())
}

// value is the decoder of a type as a function value.
func (e *emitter) value(t *resolve.Type) jen.Code {
	if t.Func != nil {
		return jen.Id(t.Func.Name)
	}
	switch t.Form {
	case resolve.Method:
		return jen.Parens(jen.Op("*").Add(e.echoes("Decoder"))).Dot(t.Name)
	case resolve.Helper:
		return e.echoes(t.Name).Types(e.typ(t.Go))
	case resolve.Pointer:
		if _, named := types.Unalias(t.Go).(*types.Named); !named {
			return e.echoes("Pointer").Call(e.value(t.Elem))
		}
	}
	return jen.Func().Params(e.decoder(), jen.Id(e.local.ptr).Op("*").Add(e.typ(t.Go))).Block(
		e.into(t, at(e.local.ptr)),
	)
}

// function writes a decode function.
func (e *emitter) function(f *resolve.Func) jen.Code {
	var body []jen.Code
	switch c := f.Content; c.Form {
	case resolve.Struct:
		body = e.structBody(c)
	case resolve.BSONValue:
		body = e.selfDecoding(f.Go, jen.Id(e.local.ptr).Dot("UnmarshalBSONValue").Call(
			jen.Byte().Call(jen.Id(e.local.val).Dot("Type")), jen.Id(e.local.val).Dot("Value")))
	case resolve.BSONDocument:
		body = e.selfDecoding(f.Go, jen.Id(e.local.ptr).Dot("UnmarshalBSON").Call(
			jen.Id(e.local.val).Dot("Value")))
	default:
		body = []jen.Code{e.into(c, at(e.local.ptr))}
	}
	if f.Text {
		body = []jen.Code{jen.If(jen.Op("!").Add(e.echoes("TryText")).Call(jen.Id(e.local.dec), jen.Id(e.local.ptr))).Block(body...)}
	}
	if f.Known != nil {
		body = append(body, e.known(f.Known, e.d))
	}
	if f.Validate {
		body = append(body, e.d("Validate", jen.Id(e.local.ptr)))
	}
	return jen.Func().Id(f.Name).Params(e.decoder(), jen.Id(e.local.ptr).Op("*").Add(e.typ(f.Go))).Block(body...)
}

// selfDecoding hands a copy of the value's bytes to the type's own method.
func (e *emitter) selfDecoding(t types.Type, call *jen.Statement) []jen.Code {
	bson := e.names.pkg("go.mongodb.org/mongo-driver/v2/bson", "bson")
	return []jen.Code{
		jen.If(jen.Op("!").Add(e.d("Present"))).Block(
			jen.Op("*").Id(e.local.ptr).Op("=").Op("*").New(e.typ(t)),
			jen.Return(),
		),
		jen.Var().Id(e.local.val).Id(bson).Dot("RawValue"),
		e.d("RawValue", jen.Op("&").Id(e.local.val)),
		jen.If(e.d("Err").Op("==").Nil()).Block(e.d("Check", call)),
	}
}

// known refuses values that are no constants of the type.
func (e *emitter) known(constants []resolve.Constant, call caller) jen.Code {
	var cases []jen.Code
	var names []string
	for _, c := range constants {
		value := jen.Op(c.Literal)
		if c.Object != nil {
			value = e.named(c.Object, nil)
		}
		cases = append(cases, value)
		names = append(names, c.Literal)
	}
	return jen.Switch(jen.Op("*").Id(e.local.ptr)).Block(
		jen.Case(cases...),
		jen.Default().Block(call("NotOneOf", jen.Lit(strings.Join(names, ", ")))),
	)
}
