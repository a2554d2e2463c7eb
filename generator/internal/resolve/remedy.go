package resolve

import (
	"fmt"
	"go/types"
	"regexp"
	"slices"
	"strings"

	"github.com/orionjs/orion-go/internal/spelling"
)

// remedies are what to do about complaints of the type checker that have to do
// with listeners. The others speak for themselves.
var remedies = []struct{ part, fix string }{
	{"cannot define new methods on non-local type", "a service is a type of its own package: declare it there, under a name that no dot import has"},
	{"invalid receiver type", "a service is a type of its own package, or a pointer to one, and no interface"},
	{"already declared through dot-import", "give one of them another name, or import echoes without the dot"},
	{"already declared at", "rename one of them"},
	{"not exported by package", "use an exported type, or an exported alias of it"},
	{"cannot use generic type", "write the type arguments, as in echoes.Item[Order]"},
	{"method must have no type parameters", "write a method for each payload type"},
}

// remedy is the way out of what the type checker says.
func (r *resolver) remedy(message string) string {
	for _, known := range remedies {
		if strings.Contains(message, known.part) {
			return known.fix
		}
	}
	if m := undefined.FindStringSubmatch(message); m != nil {
		if near, ok := r.near(m[1], m[2]); ok {
			return fmt.Sprintf("did you mean %s?", near)
		}
	}
	return mustCompile
}

// undefined matches what the type checker says of a name that is not there.
var undefined = regexp.MustCompile(`^undefined: (?:(\w+)\.)?(\w+)$`)

// near returns the type or the import that a name is a slip of.
func (r *resolver) near(pkg, name string) (string, bool) {
	scope, prefix := r.pkg.Types.Scope(), ""
	var candidates []string
	if pkg != "" {
		scope, prefix = nil, pkg+"."
		for _, imported := range r.pkg.Types.Imports() {
			if imported.Name() == pkg {
				scope = imported.Scope()
			}
		}
	} else {
		for imported := range r.pkg.Imported() {
			candidates = append(candidates, imported)
		}
	}
	if scope == nil {
		return "", false
	}
	for _, other := range scope.Names() {
		if t, ok := scope.Lookup(other).(*types.TypeName); ok && (pkg == "" || t.Exported()) {
			candidates = append(candidates, other)
		}
	}
	slices.Sort(candidates)
	near, ok := spelling.Nearest(name, candidates)
	return prefix + near, ok
}

// dotImport reports names of the package that a dot import brings too, if there
// are any: every method of such a type is then one of the other package's type,
// and what the type checker says about the methods leads nowhere.
func (r *resolver) dotImport() bool {
	found := false
	for _, e := range r.pkg.TypeErrors {
		if strings.Contains(e.Msg, "already declared through dot-import") {
			r.problems.Add(e.Fset.Position(e.Pos), e.Msg, r.remedy(e.Msg))
			found = true
		}
	}
	return found
}
