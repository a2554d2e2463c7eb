package resolve

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"path/filepath"
	"strings"

	"github.com/orionjs/orion-go/generator/internal/load"
)

const mustCompile = "what a listener takes has to compile before anything is generated"

// invalid reports why a part of an annotated method has no type: what the type
// checker says there, or else the imports that cannot be resolved.
func (r *resolver) invalid(node ast.Node, what string) {
	if errs := r.set.TypeErrorsIn(node.Pos(), node.End()); len(errs) > 0 {
		for _, e := range errs {
			r.problems.Add(e.Pos, e.Message, r.remedy(e.Message))
		}
		return
	}
	if !r.imports() {
		r.report(node.Pos(), what+" cannot be resolved", mustCompile)
	}
}

// invalidField is invalid for a type that a parameter leads to, through a field
// or the other declarations.
func (r *resolver) invalidField(field *types.Var, declared ...token.Pos) {
	if field != nil {
		declared = append(declared, field.Pos())
	}
	r.misses++
	found := false
	for _, pos := range declared {
		for _, e := range r.set.TypeErrorsOnLine(r.at(pos)) {
			r.problems.Add(e.Pos, e.Message, r.remedy(e.Message))
			found = true
		}
	}
	// A syntax error there has been told.
	if !found && !r.problems.OnLine(r.where(field)) && !r.imports() {
		r.problems.Add(r.where(field), fmt.Sprintf("the type of %s cannot be resolved", r.pathString()), mustCompile)
	}
}

// imports reports the imports that cannot be resolved, if any.
func (r *resolver) imports() bool {
	problems := r.pkg.ImportProblems()
	for _, p := range problems {
		message, fix := importProblem(p)
		if p.Pos.Filename != "" && !filepath.IsAbs(p.Pos.Filename) {
			p.Pos.Filename = filepath.Join(r.pkg.Dir, filepath.Base(p.Pos.Filename))
		}
		if p.Pos.Filename == "" {
			p.Pos = r.param
		}
		r.problems.Add(p.Pos, message, fix)
	}
	return len(problems) > 0
}

// importProblem takes the remedy out of what the go command says.
func importProblem(p load.TypeError) (message, fix string) {
	message, remedy, ok := strings.Cut(p.Message, "; to add it:")
	if ok {
		fix = "run " + strings.TrimSpace(remedy)
	}
	return strings.TrimSpace(message), fix
}

// hasInvalid reports whether a type as it is written in a signature could not
// be resolved.
func hasInvalid(t types.Type) bool {
	switch t := types.Unalias(t).(type) {
	case *types.Basic:
		return t.Kind() == types.Invalid
	case *types.Pointer:
		return hasInvalid(t.Elem())
	case *types.Slice:
		return hasInvalid(t.Elem())
	case *types.Array:
		return hasInvalid(t.Elem())
	case *types.Map:
		return hasInvalid(t.Key()) || hasInvalid(t.Elem())
	case *types.Named:
		for arg := range t.TypeArgs().Types() {
			if hasInvalid(arg) {
				return true
			}
		}
	}
	return false
}
