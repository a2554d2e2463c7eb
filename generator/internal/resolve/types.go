package resolve

import (
	"fmt"
	"go/parser"
	"go/token"
	"go/types"
	"slices"
	"strings"

	"github.com/orionjs/orion-go/generator/internal/load"
)

// resolve returns how a type is decoded, or nil after it reported why it cannot
// be. field is the struct field whose type it is, nil for the parameter itself.
func (r *resolver) resolve(t types.Type) *Type { return r.resolveField(t, nil) }

func (r *resolver) resolveField(t types.Type, field *types.Var) *Type {
	if found, ok := r.types.At(t).(*Type); ok {
		if found != nil && found.Form == pending && found.Func == nil {
			found.Func = &Func{Go: t} // a type that contains itself has to be called
		}
		return found
	}
	if r.depth++; r.depth > maxDepth {
		r.depth--
		return r.unsupported(field, fmt.Sprintf("%s nests without an end", r.path[0]), "use a type whose instances do not grow")
	}
	defer func() { r.depth-- }()
	named, isNamed := types.Unalias(t).(*types.Named)
	if isNamed {
		if !r.namedByAlias(t, named) && !r.nameable(named, field) {
			return nil
		}
		r.noteUncalled(named)
		r.hint = append(r.hint, named.Obj().Name())
		defer func() { r.hint = r.hint[:len(r.hint)-1] }()
	}
	r.seen++
	order := r.seen
	out := &Type{Go: t, Form: pending}
	if isNamed {
		r.types.Set(t, out) // every type that contains itself does so through a name
	}

	text := isNamed && parsesText(named)
	content := r.content(t, named, field)
	if content == nil {
		r.types.Delete(t)
		if r.failed.At(t) != nil {
			r.types.Set(t, (*Type)(nil))
		}
		return nil
	}
	fn := out.Func
	// The types of BSON itself have a Validate of another meaning.
	validate := isNamed && content.Form != Method && content.Name != nativeHelper && ownMethod(named, "Validate", isValidate)
	text = text && content.Form != BSONValue && content.Form != BSONDocument && content.Name != textHelper
	if fn == nil && (validate || text || needsFunc(content.Form)) {
		fn = &Func{Go: t}
	}
	if fn != nil {
		fn.Content, fn.Validate, fn.Text, fn.order = content, validate, text, order
		fn.hint = slices.Clone(r.hint[max(0, len(r.hint)-2):])
		r.out.Funcs = append(r.out.Funcs, fn)
	}
	*out = *content
	out.Func = fn
	r.types.Set(t, out)
	return out
}

// maxDepth bounds how types may nest: an instance of a generic type can contain
// a larger instance of the same type, and so on.
const maxDepth = 100

// pending marks a type that is being resolved.
const pending Form = -1

func needsFunc(f Form) bool { return f == Struct || f == BSONValue || f == BSONDocument }

// content says how a type is decoded without a function of its own.
func (r *resolver) content(t types.Type, named *types.Named, field *types.Var) *Type {
	if named != nil {
		name := qualified(named)
		if method, ok := exact[name]; ok {
			return &Type{Go: t, Form: Method, Name: method}
		}
		if isItem(named) {
			return r.unsupported(field, fmt.Sprintf("%s is what a listener takes, and never part of the payload", r.short(t)), "use the payload's own type")
		}
		if native[name] {
			return &Type{Go: t, Form: Helper, Name: nativeHelper}
		}
		if fix, ok := refused[name]; ok {
			return r.unsupported(field, fmt.Sprintf("%s cannot be decoded", r.short(t)), fix)
		}
		if out, ok := r.selfDecoding(t, named, field); ok {
			return out
		}
		if parsesText(named) && !r.storable(t, named) {
			return &Type{Go: t, Form: Helper, Name: textHelper}
		}
	}
	switch u := t.Underlying().(type) {
	case *types.Basic:
		return r.basic(t, u, named != nil, field)
	case *types.Struct:
		return r.structType(t, u, named, field)
	case *types.Pointer:
		if endless(u) {
			return r.unsupported(field, fmt.Sprintf("%s is a pointer to itself, in which nothing is ever stored", r.short(t)), "use a pointer to a value")
		}
		return r.composite(t, Pointer, "", u.Elem(), field)
	case *types.Slice:
		if types.Identical(u, types.NewSlice(types.Typ[types.Byte])) {
			return methodOf(t, "Bytes", u)
		}
		return r.composite(t, Slice, "[]", u.Elem(), field)
	case *types.Array:
		if types.Identical(u.Elem(), types.Typ[types.Byte]) {
			return &Type{Go: t, Form: ByteArray}
		}
		return r.composite(t, Array, "[]", u.Elem(), field)
	case *types.Map:
		return r.mapType(t, u, field)
	case *types.Interface:
		if u.Empty() {
			return methodOf(t, "Any", u)
		}
		return r.unsupported(field, fmt.Sprintf("the interface %s cannot be decoded: BSON does not say which type implements it", r.short(t)), "use a concrete type, any or bson.RawValue")
	}
	return r.unsupported(field, fmt.Sprintf("%s has no form in BSON", r.short(t)), leaveOut)
}

// endless reports whether a pointer leads to pointers alone.
func endless(ptr *types.Pointer) bool {
	for range maxDepth {
		next, ok := ptr.Elem().Underlying().(*types.Pointer)
		if !ok {
			return false
		}
		ptr = next
	}
	return true
}

// methodOf is a method of the decoder for the type u, converting a type that
// only has u underneath.
func methodOf(t types.Type, name string, u types.Type) *Type {
	if types.Identical(types.Unalias(t), u) {
		return &Type{Go: t, Form: Method, Name: name}
	}
	return &Type{Go: t, Form: Convert, Name: name}
}

func (r *resolver) basic(t types.Type, b *types.Basic, named bool, field *types.Var) *Type {
	var helper string
	switch info := b.Info(); {
	case b.Kind() == types.Invalid:
		r.invalidField(field)
		return nil
	case b.Kind() == types.Uintptr || b.Kind() == types.UnsafePointer || info&types.IsComplex != 0:
		return r.unsupported(field, fmt.Sprintf("%s has no form in BSON", r.short(t)), leaveOut)
	case info&types.IsString != 0:
		helper = "StringOf"
	case info&types.IsBoolean != 0:
		helper = "BoolOf"
	case info&types.IsUnsigned != 0:
		helper = "UintOf"
	case info&types.IsInteger != 0:
		helper = "IntOf"
	default:
		helper = "FloatOf"
	}
	if named {
		return &Type{Go: t, Form: Helper, Name: helper}
	}
	name := types.Typ[b.Kind()].Name() // byte and rune by the names of what they are
	return &Type{Go: t, Form: Method, Name: strings.ToUpper(name[:1]) + name[1:]}
}

// composite is a type of elements.
func (r *resolver) composite(t types.Type, form Form, step string, elem types.Type, field *types.Var) *Type {
	var e *Type
	if field == nil {
		step = "" // the path begins with the type that the parameter is made of
	}
	r.within(step, func() { e = r.resolveField(elem, field) })
	if e == nil {
		return nil
	}
	return &Type{Go: t, Form: form, Elem: e}
}

// unsupported reports a type that cannot be decoded, with the way to it.
func (r *resolver) unsupported(field *types.Var, message, fix string) *Type {
	if strings.Join(r.path[1:], "") != "" {
		message = r.pathString() + ": " + message
	}
	if field == nil && fix == leaveOut {
		fix = "use another type"
	}
	r.misses++
	r.problems.Add(r.where(field), message, fix)
	return nil
}

// nameable reports whether generated code can write the name of a type, and
// complains if not.
func (r *resolver) nameable(named *types.Named, field *types.Var) bool {
	obj := named.Obj()
	if b, ok := named.Underlying().(*types.Basic); ok && b.Kind() == types.Invalid {
		r.invalidField(field, obj.Pos())
		return false
	}
	for arg := range named.TypeArgs().Types() {
		if hasInvalid(arg) {
			r.invalidField(field)
			return false
		}
		if n, ok := types.Unalias(arg).(*types.Named); ok && !r.nameable(n, field) {
			return false
		}
	}
	switch why := r.unreachable(obj); {
	case strings.HasPrefix(obj.Name(), "_Ctype_"):
		r.unsupported(field, fmt.Sprintf("C.%s is a type of C, whose name generated code cannot use", strings.TrimPrefix(obj.Name(), "_Ctype_")), "use a type of Go")
		return false
	case r.constraint(obj) != "":
		r.unsupported(field, fmt.Sprintf("%s is not part of every build, and generated code is: %s", r.short(named), r.constraint(obj)), "declare it in a file without build constraints")
		return false
	case why != "":
		r.unsupported(field, fmt.Sprintf("%s %s", r.short(named), why), leaveOut)
		return false
	case obj.Parent() != nil && obj.Pkg() != nil && obj.Parent() != obj.Pkg().Scope():
		r.unsupported(field, fmt.Sprintf("%s is declared in a function", r.short(named)), "declare it at package level")
		return false
	}
	return true
}

// namedByAlias reports whether a type that cannot be named itself is written by
// an alias that can.
func (r *resolver) namedByAlias(t types.Type, named *types.Named) bool {
	alias, ok := t.(*types.Alias)
	return ok && r.unreachable(named.Obj()) != "" && r.unreachable(alias.Obj()) == "" && r.writable(alias)
}

// unreachable says why another package cannot use an object, "" if it can.
func (r *resolver) unreachable(obj types.Object) string {
	pkg := obj.Pkg()
	if pkg == nil || pkg == r.pkg.Types || pkg.Path() == r.pkg.PkgPath {
		return ""
	}
	if !obj.Exported() {
		return "is not exported by its package"
	}
	if !importable(pkg.Path(), r.pkg.PkgPath) {
		return fmt.Sprintf("is in the internal package %s, which %s cannot import", pkg.Path(), r.pkg.PkgPath)
	}
	return ""
}

// constraint says what limits the file of a declaration in this module to certain
// builds, "" if nothing does.
func (r *resolver) constraint(obj types.Object) string {
	path := r.at(obj.Pos()).Filename
	if obj.Pkg() == nil || !r.ours(obj.Pkg()) || !strings.HasSuffix(path, ".go") {
		return ""
	}
	why, ok := r.constraints[path]
	if !ok {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments|parser.PackageClauseOnly)
		if err == nil {
			why = load.Constraint(path, file)
		}
		r.constraints[path] = why
	}
	return why
}

// importable applies the rule for internal packages.
func importable(path, from string) bool {
	i := strings.LastIndex("/"+path+"/", "/internal/")
	if i < 0 {
		return true
	}
	if i == 0 {
		return false // the standard library's own
	}
	parent := path[:i-1]
	return from == parent || strings.HasPrefix(from, parent+"/")
}

func qualified(n *types.Named) string {
	if n.Obj().Pkg() == nil {
		return n.Obj().Name()
	}
	return n.Obj().Pkg().Path() + "." + n.Obj().Name()
}
