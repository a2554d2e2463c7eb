package resolve

import (
	"cmp"
	"fmt"
	"go/constant"
	"go/types"
	"slices"
)

// enum resolves the type of a field whose values must be constants of their
// type: the type itself, or what pointers, lists and maps lead to.
func (r *resolver) enum(t types.Type, field *types.Var) *Type {
	if r.depth++; r.depth > maxDepth {
		r.depth--
		return r.unsupported(field, fmt.Sprintf("enum finds no value in %s", r.short(t)), removeEnum)
	}
	defer func() { r.depth-- }()
	named, isNamed := types.Unalias(t).(*types.Named)
	basic, isBasic := t.Underlying().(*types.Basic)
	if isNamed && isBasic {
		return r.constantsOf(t, named, basic, field)
	}
	if isNamed {
		if !r.nameable(named, field) {
			return nil
		}
		if named.NumMethods() > 0 {
			return r.unsupported(field, fmt.Sprintf("enum does not look into %s, which has methods of its own", r.short(t)), "check the values in its Validate method, and remove enum from the tag")
		}
	}
	elem := func(form Form, step string, of types.Type) *Type {
		var e *Type
		r.within(step, func() { e = r.enum(of, field) })
		if e == nil {
			return nil
		}
		return &Type{Go: t, Form: form, Elem: e}
	}
	switch u := t.Underlying().(type) {
	case *types.Pointer:
		return elem(Pointer, "", u.Elem())
	case *types.Slice:
		return elem(Slice, "[]", u.Elem())
	case *types.Array:
		return elem(Array, "[]", u.Elem())
	case *types.Map:
		key, ok := r.key(t, u, field)
		if !ok {
			return nil
		}
		out := elem(Map, "[]", u.Elem())
		if out != nil {
			out.Key = key
		}
		return out
	}
	if hasInvalid(t) {
		r.invalidField(field)
		return nil
	}
	return r.unsupported(field, fmt.Sprintf("enum asks for constants, and %s has none", r.short(t)), removeEnum)
}

const removeEnum = "use a type with constants, or remove enum from the tag"

// constantsOf is a type that accepts its constants alone.
func (r *resolver) constantsOf(t types.Type, named *types.Named, basic *types.Basic, field *types.Var) *Type {
	content := r.resolveField(t, field)
	if content == nil {
		return nil
	}
	if basic.Info()&(types.IsString|types.IsInteger) == 0 {
		return r.unsupported(field, fmt.Sprintf("enum is for strings and integers, and %s is neither", r.short(t)), removeEnum)
	}
	if fn, ok := r.enums.At(named).(*Func); ok {
		return &Type{Go: t, Func: fn}
	}
	known := r.constants(named)
	if len(known) == 0 {
		return r.unsupported(field, fmt.Sprintf("the package of %s declares no constant of that type, as enum asks for", r.short(t)), removeEnum)
	}
	r.seen++
	fn := &Func{Go: t, Content: content, Known: known, order: r.seen}
	r.enums.Set(named, fn)
	r.out.Funcs = append(r.out.Funcs, fn)
	return &Type{Go: t, Func: fn}
}

// constants returns the constants that the package of a type declares for it, in
// the order of the source and the first of each value.
func (r *resolver) constants(named *types.Named) []Constant {
	pkg := named.Obj().Pkg()
	var found []*types.Const
	for _, name := range pkg.Scope().Names() {
		if c, ok := pkg.Scope().Lookup(name).(*types.Const); ok && types.Identical(c.Type(), named) && c.Val().Kind() != constant.Unknown {
			found = append(found, c)
		}
	}
	slices.SortFunc(found, func(a, b *types.Const) int {
		p, q := r.at(a.Pos()), r.at(b.Pos())
		return cmp.Or(cmp.Compare(p.Filename, q.Filename), cmp.Compare(p.Offset, q.Offset), cmp.Compare(p.Line, q.Line))
	})
	var out []Constant
	seen := make(map[string]bool)
	for _, c := range found {
		literal := c.Val().ExactString()
		if seen[literal] {
			continue
		}
		seen[literal] = true
		known := Constant{Literal: literal}
		if r.unreachable(c) == "" && r.constraint(c) == "" {
			known.Object = c
		}
		out = append(out, known)
	}
	return out
}
