package resolve

import (
	"go/ast"
	"go/parser"
	"go/types"
	"slices"

	"github.com/orionjs/orion-go/generator/internal/diag"
	"github.com/orionjs/orion-go/generator/internal/directive"
	"github.com/orionjs/orion-go/generator/internal/load"
)

// embedded finds the services embedded in a service. Its generated
// EchoesListeners hides theirs, so it has to call them, or their listeners would
// silently be lost.
func (r *resolver) embedded(s *Service) {
	r.embeddedIn(s, []*types.Named{s.Named}, nil, false)
}

// embeddedIn looks into the last of the types on the way.
func (r *resolver) embeddedIn(s *Service, way []*types.Named, path []string, behindPointer bool) {
	fields, ok := way[len(way)-1].Underlying().(*types.Struct)
	if !ok {
		return
	}
	for v := range fields.Fields() {
		if !v.Embedded() || !v.Exported() && v.Pkg() != r.pkg.Types {
			continue
		}
		t := types.Unalias(v.Type())
		ptr, isPointer := t.(*types.Pointer)
		if isPointer {
			t = types.Unalias(ptr.Elem())
		}
		named, ok := t.(*types.Named)
		if !ok || slices.Contains(way, named) {
			continue
		}
		step := append(path[:len(path):len(path)], v.Name())
		reached := behindPointer || isPointer
		if provides, pointer := r.service(named); provides {
			s.Embedded = append(s.Embedded, step)
			// Else the listeners would work on a copy of what is embedded.
			s.Pointer = s.Pointer || pointer && !reached
			continue
		}
		r.embeddedIn(s, append(slices.Clip(way), named), step, reached)
	}
}

// service reports whether a type has listeners of its own, and whether they are
// registered on its pointer. The generated file of another package may not be
// there yet, or may have been left out of this load: then directives count.
func (r *resolver) service(named *types.Named) (provides, pointer bool) {
	if s := r.services[named]; s != nil {
		return true, s.Pointer
	}
	if i, ok := named.Underlying().(*types.Interface); ok {
		obj, _, _ := types.LookupFieldOrMethod(i, false, nil, generatedMethod)
		return obj != nil, false
	}
	files := make(map[string]bool)
	for m := range named.Methods() {
		if m.Name() == generatedMethod {
			_, pointer := types.Unalias(m.Signature().Recv().Type()).(*types.Pointer)
			return true, pointer
		}
		files[r.at(m.Pos()).Filename] = true
	}
	if pkg := named.Obj().Pkg(); pkg == nil || pkg == r.pkg.Types || !r.ours(pkg) {
		return false, false
	}
	for path := range files {
		syntax, err := parser.ParseFile(r.set.Fset, path, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil || load.Constraint(path, syntax) != "" {
			continue
		}
		for _, l := range directive.Scan(directive.File{Fset: r.set.Fset, Syntax: syntax}, &diag.List{}) {
			if directive.Receiver(l.Decl) == named.Obj().Name() {
				provides = true
				_, star := l.Decl.Recv.List[0].Type.(*ast.StarExpr)
				pointer = pointer || star
			}
		}
	}
	return provides, pointer
}
