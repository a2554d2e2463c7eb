package emit

import (
	"fmt"
	"go/token"
	"go/types"
	"maps"
	"slices"
	"strings"

	"github.com/dave/jennifer/jen"

	"github.com/orionjs/orion-go/generator/internal/resolve"
)

// names hands out names that mean the same everywhere in the generated file.
type names struct {
	taken map[string]bool
	// meant are the names that generated functions refer to, and their variables
	// therefore must not hide: types, constants of enums, and what Go predeclares.
	meant  map[string]bool
	locals map[string]string
	// byPath has the name of every import, and declared the one that the package
	// gives itself.
	byPath   map[string]string
	declared map[string]string
}

func newNames(p *resolve.Package) *names {
	n := &names{
		taken: make(map[string]bool), meant: make(map[string]bool), locals: make(map[string]string),
		byPath: make(map[string]string), declared: make(map[string]string),
	}
	for name := range p.Declared {
		n.taken[name] = true
	}
	for _, name := range p.Types.Scope().Names() {
		if _, ok := p.Types.Scope().Lookup(name).(*types.TypeName); ok {
			n.meant[name] = true
		}
	}
	for _, f := range p.Funcs {
		for _, c := range f.Known {
			if c.Object != nil && c.Object.Pkg() == p.Types {
				n.meant[c.Object.Name()] = true
			}
		}
	}
	for _, name := range types.Universe.Names() {
		n.taken[name], n.meant[name] = true, true
	}
	return n
}

// local returns a name for a variable. Two variables of different functions may
// share it. It hides what the package declares under that name, which is of no
// consequence for a function or a variable: a test's helper must not change the
// generated file.
func (n *names) local(name string) string {
	if have, ok := n.locals[name]; ok {
		return have
	}
	out := free(name, n.meant)
	n.locals[name] = out
	n.taken[out], n.meant[out] = true, true
	return out
}

// pkg returns the name under which a package is imported.
func (n *names) pkg(path, name string) string {
	if have, ok := n.byPath[path]; ok {
		return have
	}
	out := n.unique(name)
	n.byPath[path], n.declared[path] = out, name
	return out
}

func (n *names) unique(name string) string {
	out := free(name, n.taken)
	n.taken[out] = true
	return out
}

// free returns the name, or the name with the first number that makes it free.
func free(name string, taken map[string]bool) string {
	out := name
	for i := 2; taken[out] || token.IsKeyword(out); i++ {
		out = fmt.Sprintf("%s%d", name, i)
	}
	return out
}

// imports returns the import declaration: the standard library, a blank line and
// the rest.
func (n *names) imports() jen.Code {
	var std, other []jen.Code
	for _, path := range slices.Sorted(maps.Keys(n.declared)) {
		spec := jen.Lit(path)
		if n.byPath[path] != n.declared[path] || lastElement(path) != n.declared[path] {
			spec = jen.Id(n.byPath[path]).Lit(path)
		}
		if first, _, _ := strings.Cut(path, "/"); strings.Contains(first, ".") {
			other = append(other, spec)
		} else {
			std = append(std, spec)
		}
	}
	if len(std)+len(other) == 1 {
		return jen.Id("import").Add(append(std, other...)...).Line()
	}
	if len(std) > 0 && len(other) > 0 {
		std = append(std, jen.Line())
	}
	return jen.Id("import").Defs(append(std, other...)...).Line()
}

// lastElement is what a reader takes for the name of a package.
func lastElement(path string) string {
	elements := strings.Split(path, "/")
	last := elements[len(elements)-1]
	if len(elements) > 1 && len(last) > 1 && last[0] == 'v' && strings.Trim(last[1:], "0123456789") == "" {
		last = elements[len(elements)-2]
	}
	return last
}
