package resolve

import "strings"

// remedies are what to do about complaints of the type checker that have to do
// with listeners. The others speak for themselves.
var remedies = []struct{ part, fix string }{
	{"cannot define new methods on non-local type", "a service is a type of its own package: declare it there, under a name that no dot import has"},
	{"invalid receiver type", "a service is a type of its own package, or a pointer to one, and no interface"},
	{"already declared through dot-import", "give one of them another name, or import echoes without the dot"},
	{"cannot use generic type", "write the type arguments, as in echoes.Item[Order]"},
	{"method must have no type parameters", "write a method for each payload type"},
	{"missing function body", "give the method a body"},
}

// remedy is the way out of what the type checker says.
func remedy(message string) string {
	for _, r := range remedies {
		if strings.Contains(message, r.part) {
			return r.fix
		}
	}
	return mustCompile
}

// dotImport reports names of the package that a dot import brings too, if there
// are any: every method of such a type is then one of the other package's type,
// and what the type checker says about the methods leads nowhere.
func (r *resolver) dotImport() bool {
	found := false
	for _, e := range r.pkg.TypeErrors {
		if strings.Contains(e.Msg, "already declared through dot-import") {
			r.problems.Add(e.Fset.Position(e.Pos), e.Msg, remedy(e.Msg))
			found = true
		}
	}
	return found
}
