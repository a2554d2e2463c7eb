package resolve

import (
	"fmt"
	"go/token"
	"go/types"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/tools/go/types/typeutil"

	"github.com/orionjs/orion-go/generator/internal/diag"
	"github.com/orionjs/orion-go/generator/internal/directive"
	"github.com/orionjs/orion-go/generator/internal/load"
)

// Resolve builds the model of a package from its listeners and the types with a
// topic, both in the order of the source. Problems are reported; the model is of no use then.
func Resolve(set *load.Set, pkg *load.Package, listeners []directive.Listener, topics []directive.TypeTopic, problems *diag.List) *Package {
	r := &resolver{
		set: set, pkg: pkg, problems: problems,
		out:      &Package{Types: pkg.Types, Declared: pkg.Declared()},
		services: make(map[*types.Named]*Service),
		topics:   make(map[*types.Named]map[string]token.Pos),
		stored:   new(typeutil.Map), constraints: make(map[string]string),
	}
	r.out.position = r.at
	r.checkPredeclared()
	for _, l := range listeners {
		r.add(l)
	}
	for _, t := range topics {
		r.addTopic(t)
	}
	for _, s := range r.out.Services {
		r.checkService(s)
		r.embedded(s)
	}
	r.out.split()
	r.nameFuncs()
	return r.out
}

type resolver struct {
	set      *load.Set
	pkg      *load.Package
	problems *diag.List
	out      *Package

	services map[*types.Named]*Service
	topics   map[*types.Named]map[string]token.Pos

	// types has a *Type for every type that was looked at, nil in it for those
	// that cannot be decoded.
	types typeutil.Map
	// failed are structs that cannot be decoded because of their fields: those are
	// reported once, while other types are reported wherever they are used.
	failed typeutil.Map
	// enums has the *Func of every type that was looked at for its constants.
	enums typeutil.Map
	// stored has the answers of storable.
	stored *typeutil.Map
	// constraints are those of the files that types are declared in.
	constraints map[string]string
	// depth is how deep the type being resolved is nested.
	depth int
	// misses counts what could not be decoded, reported or not.
	misses  int
	guarded typeutil.Map
	// path leads from the parameter type to what is looked at, and param is where
	// the parameter stands in the source.
	path  []string
	param token.Position
	// hint are the names of the enclosing types and fields, for functions of types
	// that have no name, and seen counts the types, for the order of functions.
	hint []string
	seen int
}

func (r *resolver) at(pos token.Pos) token.Position { return r.set.Fset.Position(pos) }

func (r *resolver) report(pos token.Pos, message, fix string) {
	r.problems.Add(r.at(pos), message, fix)
}

// add resolves one listener and puts it into its service.
func (r *resolver) add(l directive.Listener) {
	m := r.method(l)
	if m == nil {
		return
	}
	first := r.topics[m.recv]
	if first == nil {
		first = make(map[string]token.Pos)
		r.topics[m.recv] = first
	}
	if pos, twice := first[l.Topic]; twice {
		at := r.at(pos)
		r.report(l.TopicPos, fmt.Sprintf("%s handles topic %s twice, first at %s:%d", m.recv.Obj().Name(), l.Topic, filepath.Base(at.Filename), at.Line),
			"one topic has one listener: give this one another topic=, or merge the methods")
	} else if l.Topic != "" {
		first[l.Topic] = l.TopicPos
	}

	shape, param, ok := r.signature(l, m.sig)
	if !ok {
		return
	}
	r.param = r.at(l.Decl.Type.Params.List[len(l.Decl.Type.Params.List)-1].Type.Pos())
	r.path = []string{r.short(core(param))}
	r.hint = []string{l.Decl.Name.Name + "Params"}
	t := r.resolve(param)
	if t == nil {
		return
	}
	s := r.services[m.recv]
	if s == nil {
		s = &Service{Named: m.recv}
		r.services[m.recv] = s
		r.out.Services = append(r.out.Services, s)
	}
	s.Pointer = s.Pointer || m.pointer
	s.Listeners = append(s.Listeners, &Listener{
		Listener: l, Method: l.Decl.Name.Name, FullName: m.fullName(l.Decl.Name.Name), Shape: shape, Params: t,
		NoResult: m.sig.Results().Len() == 0,
		Position: r.sourcePosition(l.Pos),
	})
}

// sourcePosition is where a directive stands, for the errors of the runtime: the
// path begins at the module's root, wherever the generator runs.
func (r *resolver) sourcePosition(pos token.Pos) string {
	at := r.at(pos)
	path := filepath.Base(at.Filename)
	if r.pkg.Module != nil {
		if rel, err := filepath.Rel(r.pkg.Module.Dir, at.Filename); err == nil && filepath.IsLocal(rel) {
			path = filepath.ToSlash(rel)
		}
	}
	return fmt.Sprintf("%s:%d", path, at.Line)
}

// generatedMethod is the method that is generated for a service.
const generatedMethod = "EchoesListeners"

// checkService reports what stands in the way of the method that is generated
// for a service.
func (r *resolver) checkService(s *Service) {
	obj, index, _ := types.LookupFieldOrMethod(s.Named, true, r.pkg.Types, generatedMethod)
	if obj == nil || len(index) > 1 {
		return // promoted from an embedded type: the generated one calls it
	}
	r.report(obj.Pos(), fmt.Sprintf("%s has its own %s, which is the name of the generated method", s.Named.Obj().Name(), generatedMethod),
		"rename it, or remove it if it was copied from generated code")
}

// predeclared are the names of the language that generated code uses.
var predeclared = []string{"any", "bool", "byte", "error", "new", "make", "nil", "append", "string", "true", "false", "uint64"}

// checkPredeclared refuses a package that gives one of the language's names
// another meaning, instead of writing code that means something else.
func (r *resolver) checkPredeclared() {
	for _, name := range predeclared {
		if obj := r.pkg.Types.Scope().Lookup(name); obj != nil {
			r.report(obj.Pos(), fmt.Sprintf("the package declares %s, which generated code needs with its usual meaning", name), "rename it")
		}
	}
}

// short is the name of a type as messages have it: without the package when it
// is the one being generated.
func (r *resolver) short(t types.Type) string {
	return types.TypeString(t, func(p *types.Package) string {
		if p == r.pkg.Types {
			return ""
		}
		return p.Name()
	})
}

// core is what a type is made of: the elements of the elements, behind pointers.
func core(t types.Type) types.Type {
	switch u := types.Unalias(t).(type) {
	case *types.Pointer:
		return core(u.Elem())
	case *types.Slice:
		return core(u.Elem())
	case *types.Array:
		return core(u.Elem())
	case *types.Map:
		return core(u.Elem())
	}
	return t
}

// where is the place to report a problem with a field: the field itself when
// its file belongs to this module, else the parameter that leads there.
func (r *resolver) where(field *types.Var) token.Position {
	if field == nil {
		return r.param
	}
	at := r.at(field.Pos())
	if r.pkg.Module != nil && at.IsValid() && strings.HasPrefix(at.Filename, r.pkg.Module.Dir+string(filepath.Separator)) {
		if at.Column == 1 {
			at.Column = 0 // no field stands there: the compiled form of a package has lines alone
		}
		return at
	}
	return r.param
}

// maxSteps is how much of a path is shown.
const maxSteps = 20

func (r *resolver) pathString() string {
	if len(r.path) > maxSteps {
		return strings.Join(r.path[:maxSteps], "") + "..."
	}
	return strings.Join(r.path, "")
}

// within runs f with steps added to the path.
func (r *resolver) within(step string, f func()) {
	n := len(r.path)
	r.path = append(slices.Clip(r.path), step)
	f()
	r.path = r.path[:n]
}
