// Package apisurface lists what a package exports, one line for each name, so that a change of the API is a change of
// a file under api/ that reviewers see.
package apisurface

import (
	"fmt"
	"go/types"
	"slices"
	"strings"
)

// Of returns the lines for a package, sorted: functions, constants with their values, variables, types, and of types the
// exported fields and methods. A type that is another name for one of an internal package has the members of that.
func Of(pkg *types.Package) string {
	s := surface{pkg: pkg}
	for _, name := range pkg.Scope().Names() {
		if object := pkg.Scope().Lookup(name); object.Exported() {
			s.object(object)
		}
	}
	slices.Sort(s.lines)
	return strings.Join(s.lines, "\n") + "\n"
}

type surface struct {
	pkg   *types.Package
	lines []string
}

func (s *surface) add(format string, args ...any) {
	s.lines = append(s.lines, fmt.Sprintf(format, args...))
}

// text names types of the package itself without it, others with their package's name.
func (s *surface) text(t types.Type) string {
	return types.TypeString(t, func(other *types.Package) string {
		if other == s.pkg {
			return ""
		}
		return other.Name()
	})
}

// signature is a function's type without the word func.
func (s *surface) signature(t types.Type) string { return strings.TrimPrefix(s.text(t), "func") }

func (s *surface) object(object types.Object) {
	name := object.Name()
	switch object := object.(type) {
	case *types.Func:
		s.add("func %s%s", name, s.signature(object.Type()))
	case *types.Const:
		s.add("const %s %s = %s", name, s.text(object.Type()), object.Val().ExactString())
	case *types.Var:
		s.add("var %s %s", name, s.text(object.Type()))
	case *types.TypeName:
		s.typeName(object)
	}
}

func (s *surface) typeName(object *types.TypeName) {
	name := object.Name()
	named, ok := types.Unalias(object.Type()).(*types.Named)
	switch {
	case object.IsAlias() && ok && !strings.Contains(named.Obj().Pkg().Path(), "/internal/"), !ok:
		s.add("type %s = %s", name, s.text(types.Unalias(object.Type())))
		return
	case named.TypeParams().Len() > 0:
		var params []string
		for p := range named.TypeParams().TypeParams() {
			params = append(params, p.Obj().Name()+" "+s.text(p.Constraint()))
		}
		name += "[" + strings.Join(params, ", ") + "]"
	}
	switch under := named.Underlying().(type) {
	case *types.Struct:
		s.add("type %s struct", name)
		for field := range under.Fields() {
			switch {
			case field.Embedded() && field.Exported():
				s.add("type %s struct, embeds %s", name, s.text(field.Type()))
			case field.Exported():
				s.add("type %s struct, field %s %s", name, field.Name(), s.text(field.Type()))
			}
		}
	case *types.Interface:
		s.add("type %s interface", name)
		for method := range under.Methods() {
			s.add("type %s interface, method %s%s", name, method.Name(), s.signature(method.Type()))
		}
	default:
		s.add("type %s %s", name, s.text(under))
	}
	for method := range named.Methods() {
		if method.Exported() {
			receiver := ""
			if _, pointer := method.Signature().Recv().Type().(*types.Pointer); pointer {
				receiver = "*"
			}
			s.add("method (%s%s) %s%s", receiver, object.Name(), method.Name(), s.signature(method.Type()))
		}
	}
}
