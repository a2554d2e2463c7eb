package emit

import (
	"go/types"
	"strconv"

	"github.com/dave/jennifer/jen"
)

// typ writes the name of a type.
func (e *emitter) typ(t types.Type) *jen.Statement {
	switch t := t.(type) {
	case *types.Alias:
		if pkg := t.Obj().Pkg(); pkg != nil && pkg != e.pkg && !t.Obj().Exported() {
			return e.typ(types.Unalias(t))
		}
		return e.named(t.Obj(), t.TypeArgs())
	case *types.Named:
		return e.named(t.Obj(), t.TypeArgs())
	case *types.Pointer:
		return jen.Op("*").Add(e.typ(t.Elem()))
	case *types.Slice:
		return jen.Index().Add(e.typ(t.Elem()))
	case *types.Array:
		return jen.Index(jen.Lit(int(t.Len()))).Add(e.typ(t.Elem()))
	case *types.Map:
		return jen.Map(e.typ(t.Key())).Add(e.typ(t.Elem()))
	case *types.Struct:
		return e.structType(t, true)
	}
	// What is left holds no alias of another package that could not be written.
	return jen.Id(types.TypeString(t, func(p *types.Package) string {
		if p == e.pkg {
			return ""
		}
		return e.names.pkg(p.Path(), p.Name())
	}))
}

// named writes the name of a type or a constant.
func (e *emitter) named(obj types.Object, args *types.TypeList) *jen.Statement {
	out := jen.Id(obj.Name())
	if pkg := obj.Pkg(); pkg != nil && pkg != e.pkg {
		out = jen.Id(e.names.pkg(pkg.Path(), pkg.Name())).Dot(obj.Name())
	}
	if args.Len() == 0 {
		return out
	}
	var list []jen.Code
	for arg := range args.Types() {
		list = append(list, e.typ(arg))
	}
	return out.Types(list...)
}

// structType writes out a struct, with its tags where they are part of the
// type's identity.
func (e *emitter) structType(s *types.Struct, tags bool) *jen.Statement {
	return jen.StructFunc(func(g *jen.Group) {
		for i := range s.NumFields() {
			v := s.Field(i)
			field := g.Null()
			if !v.Embedded() {
				field.Id(v.Name())
			}
			field.Add(e.typ(v.Type()))
			if tag := s.Tag(i); tags && tag != "" {
				if strconv.CanBackquote(tag) {
					field.Op("`" + tag + "`")
				} else {
					field.Lit(tag)
				}
			}
		}
	})
}
