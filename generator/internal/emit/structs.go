package emit

import (
	"go/types"

	"github.com/dave/jennifer/jen"

	"github.com/orionjs/orion-go/generator/internal/resolve"
)

// perWord is how many required fields one word of bits covers.
const perWord = 64

// structBody writes the walk over the fields of a document.
func (e *emitter) structBody(t *resolve.Type) []jen.Code {
	required := newRequired(t.Fields, e)
	var out []jen.Code
	if required.any() {
		out = append(out, required.declare())
	}
	loop := jen.For(
		jen.Id(e.local.end).Op(":=").Add(e.echoes("Begin")).Call(jen.Id(e.local.dec), jen.Id(e.local.ptr)),
		e.d("Next", jen.Id(e.local.end)),
		jen.Empty(),
	)
	switch {
	case len(t.Fields) > 0:
		out = append(out, loop.Block(
			jen.Switch(jen.String().Call(e.d("Key"))).BlockFunc(func(g *jen.Group) {
				for _, f := range t.Fields {
					g.CaseFunc(func(g *jen.Group) {
						g.Lit(f.Key)
						for _, also := range f.Also {
							g.Lit(also)
						}
					}).Block(e.fieldBody(f, required)...)
				}
				if t.Rest != nil {
					g.Default().Block(e.restBody(t.Rest)...)
				}
			}),
		))
	case t.Rest != nil:
		out = append(out, loop.Block(e.restBody(t.Rest)...))
	default:
		out = append(out, loop.Block())
	}
	out = append(out, required.check()...)
	for _, path := range t.Validate {
		out = append(out, e.validatePart(path, e.d))
	}
	return out
}

func (e *emitter) fieldBody(f *resolve.Field, r *required) []jen.Code {
	var out []jen.Code
	if f.Required {
		out = append(out, jen.If(e.d("Present")).Block(r.mark(f)))
	}
	for i, step := range f.Path[:len(f.Path)-1] {
		if step.New != nil {
			through := field(e.local.ptr, f.Path[:i+1])
			out = append(out, jen.If(through.expr().Op("==").Nil()).Block(
				through.expr().Op("=").New(e.typ(step.New)),
			))
		}
	}
	return append(out, e.into(f.Type, field(e.local.ptr, f.Path)))
}

// restBody puts a field that has no place of its own into the inline map. The
// key is copied first, since the cursor moves on while the value is decoded.
func (e *emitter) restBody(rest *resolve.Field) []jen.Code {
	m := field(e.local.ptr, rest.Path)
	elemType := rest.Type.Go.Underlying().(*types.Map).Elem()
	return []jen.Code{
		jen.Id(e.local.key).Op(":=").Add(e.d("MapKey")),
		jen.Var().Id(e.local.val).Add(e.typ(elemType)),
		e.into(rest.Type.Elem, place{
			expr: func() *jen.Statement { return jen.Id(e.local.val) },
			addr: func() *jen.Statement { return jen.Op("&").Id(e.local.val) },
		}),
		jen.If(m.expr().Op("==").Nil()).Block(
			m.expr().Op("=").Make(e.typ(rest.Type.Go)),
		),
		m.expr().Index(jen.Id(e.local.key)).Op("=").Id(e.local.val),
	}
}

// validatePart checks a part of a struct that is inlined.
func (e *emitter) validatePart(path []resolve.Step, method caller) jen.Code {
	part := field(e.local.ptr, path)
	call := method("Validate", part.addr())
	if path[len(path)-1].New != nil {
		call = method("Validate", part.expr())
	}
	var guards []*jen.Statement
	for i, step := range path {
		if step.New != nil {
			guards = append(guards, field(e.local.ptr, path[:i+1]).expr().Op("!=").Nil())
		}
	}
	if len(guards) == 0 {
		return call
	}
	cond := guards[0]
	for _, g := range guards[1:] {
		cond = cond.Op("&&").Add(g)
	}
	return jen.If(cond).Block(call)
}

// required keeps track of the fields that a document must have: one bit each.
type required struct {
	e     *emitter
	keys  []string
	index map[*resolve.Field]int
}

func newRequired(fields []*resolve.Field, e *emitter) *required {
	r := &required{e: e, index: make(map[*resolve.Field]int)}
	for _, f := range fields {
		if f.Required {
			r.index[f] = len(r.keys)
			r.keys = append(r.keys, f.Key)
		}
	}
	return r
}

func (r *required) any() bool { return len(r.keys) > 0 }

func (r *required) words() int { return (len(r.keys) + perWord - 1) / perWord }

func (r *required) declare() jen.Code {
	if r.words() > 1 {
		return jen.Var().Id(r.e.local.seen).Index(jen.Lit(r.words())).Uint64()
	}
	return jen.Var().Id(r.e.local.seen).Uint64()
}

func (r *required) word(i int) *jen.Statement {
	if r.words() > 1 {
		return jen.Id(r.e.local.seen).Index(jen.Lit(i))
	}
	return jen.Id(r.e.local.seen)
}

func (r *required) mark(f *resolve.Field) jen.Code {
	i := r.index[f]
	return r.word(i / perWord).Op("|=").Lit(1).Op("<<").Lit(i % perWord)
}

func (r *required) check() []jen.Code {
	var out []jen.Code
	for w := range r.words() {
		args := []jen.Code{r.word(w)}
		for _, key := range r.keys[w*perWord : min(len(r.keys), (w+1)*perWord)] {
			args = append(args, jen.Lit(key))
		}
		out = append(out, r.e.d("Require", args...))
	}
	return out
}

// guard converts a pointer to a struct into one to the fields as they were
// generated. It runs nothing. Pointers are converted, since a struct may hold
// what must not be copied. The compiler's error for a struct that has changed
// names the type that is converted to, so that name says what to do.
func (e *emitter) guard(named *types.Named) jen.Code {
	s := named.Underlying().(*types.Struct)
	return jen.Func().Id("_").Params(jen.Id(e.local.ptr).Op("*").Add(e.typ(named))).Block(
		jen.Type().Id(e.local.changed).Add(e.structType(s, false)),
		jen.Id("_").Op("=").Parens(jen.Op("*").Id(e.local.changed)).Parens(jen.Id(e.local.ptr)),
	)
}
