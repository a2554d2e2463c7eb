package resolve

import (
	"go/types"
	"strings"
)

// guard notes a struct type whose fields generated code can write out.
func (r *resolver) guard(named *types.Named) {
	if r.guarded.At(named) != nil {
		return
	}
	r.guarded.Set(named, true)
	pkg := named.Obj().Pkg()
	if pkg == nil || !r.ours(pkg) || !r.writable(named) {
		return
	}
	s, ok := named.Underlying().(*types.Struct)
	if !ok {
		return
	}
	for v := range s.Fields() {
		if !v.Exported() && v.Pkg() != r.pkg.Types || !r.writable(v.Type()) {
			return
		}
	}
	r.out.Guards = append(r.out.Guards, named)
}

// ours reports whether a package belongs to the module being generated for.
func (r *resolver) ours(pkg *types.Package) bool {
	return pkg == r.pkg.Types || r.pkg.Module != nil && strings.HasPrefix(pkg.Path()+"/", r.pkg.Module.Path+"/")
}

// writable reports whether generated code can write a type.
func (r *resolver) writable(t types.Type) bool {
	switch t := t.(type) {
	case *types.Basic:
		return t.Kind() != types.Invalid && t.Kind() != types.UnsafePointer
	case *types.Alias:
		if r.unreachable(t.Obj()) != "" {
			return r.writable(types.Unalias(t))
		}
		for arg := range t.TypeArgs().Types() {
			if !r.writable(arg) {
				return false
			}
		}
		return true
	case *types.Named:
		for arg := range t.TypeArgs().Types() {
			if !r.writable(arg) {
				return false
			}
		}
		// A type of C has a name that only cgo understands.
		return r.unreachable(t.Obj()) == "" && !strings.HasPrefix(t.Obj().Name(), "_C") && (t.Obj().Pkg() == nil || t.Obj().Parent() == t.Obj().Pkg().Scope())
	case *types.Pointer:
		return r.writable(t.Elem())
	case *types.Slice:
		return r.writable(t.Elem())
	case *types.Array:
		return r.writable(t.Elem())
	case *types.Map:
		return r.writable(t.Key()) && r.writable(t.Elem())
	case *types.Chan:
		return r.writable(t.Elem())
	case *types.Struct:
		for v := range t.Fields() {
			if !v.Exported() && v.Pkg() != r.pkg.Types || !r.writable(v.Type()) {
				return false
			}
		}
		return true
	case *types.Interface:
		for e := range t.EmbeddedTypes() {
			if _, ok := types.Unalias(e).(*types.Named); !ok || !r.writable(e) {
				return false
			}
		}
		for m := range t.ExplicitMethods() {
			if !m.Exported() && m.Pkg() != r.pkg.Types || !r.writable(m.Signature()) {
				return false
			}
		}
		return true
	case *types.Signature:
		for _, tuple := range []*types.Tuple{t.Params(), t.Results()} {
			for v := range tuple.Variables() {
				if !r.writable(v.Type()) {
					return false
				}
			}
		}
		return true
	}
	return false
}
