package resolve

import (
	"cmp"
	"fmt"
	"go/types"
	"slices"
	"strings"
	"unicode"

	"github.com/orionjs/orion-go/generator/internal/directive"
)

// spellings returns other ways in which publishers write the key of a field
// without a tag. The driver finds a field by any capitals: a service written in
// JavaScript publishes customerId for CustomerID, and one that goes through JSON
// the field's name as it is.
func spellings(field, key string) []string {
	var out []string
	for _, s := range []string{directive.DefaultTopic(field), camel(field), field} {
		if s != key && !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

// addSpellings drops the spellings that are the key of another field.
func addSpellings(fields []*Field) {
	taken := make(map[string]bool)
	for _, f := range fields {
		taken[f.Key] = true
	}
	for _, f := range fields {
		var also []string
		for _, s := range f.Also {
			if !taken[s] {
				taken[s] = true
				also = append(also, s)
			}
		}
		f.Also = also
	}
}

// camel writes a Go name the way JavaScript does: CustomerID as customerId.
func camel(name string) string {
	in := []rune(name)
	out := slices.Clone(in)
	for i, r := range in {
		within := i > 0 && unicode.IsUpper(in[i-1])
		lastOfRun := i+1 < len(in) && unicode.IsLower(in[i+1])
		if unicode.IsUpper(r) && (i == 0 || within && !lastOfRun) {
			out[i] = unicode.ToLower(r)
		}
	}
	return string(out)
}

// nameFuncs names the functions: decodeOrder and encodeOrder for Order. A type of another
// package gets its package's name in front, and any type a number behind, when
// the short name is taken by another type or by the package itself. Types of the
// package come first, so that theirs are the short names.
func (r *resolver) nameFuncs() {
	r.name("decode", r.out.Funcs, func(f *Func, name string) { f.Name = name })
	r.name("encode", r.out.Encoders, func(f *Func, name string) { f.Encode = name })
}

func (r *resolver) name(verb string, funcs []*Func, set func(*Func, string)) {
	slices.SortFunc(funcs, func(a, b *Func) int { return cmp.Compare(a.order, b.order) })
	imported := r.pkg.Imported()
	free := func(name string) bool { return !r.out.Declared[name] && !imported[name] }
	for _, local := range []bool{true, false} {
		for _, f := range funcs {
			named, _ := types.Unalias(f.Go).(*types.Named)
			if foreign := named != nil && named.Obj().Pkg() != r.pkg.Types; foreign == local {
				continue
			}
			name := r.funcName(verb, f, named, free)
			set(f, name)
			r.out.Declared[name] = true
		}
	}
}

// funcName is the first name for a function of f that begins with verb and is
// free.
func (r *resolver) funcName(verb string, f *Func, named *types.Named, free func(string) bool) string {
	base, pkg := "", ""
	if named != nil {
		base = typeWords(named)
		if p := named.Obj().Pkg(); p != nil && p != r.pkg.Types {
			pkg = exported(p.Name())
		}
	} else {
		// A type without a name is called after the field, in the type around it.
		for _, h := range f.hint {
			base += exported(h)
		}
	}
	if f.Known != nil {
		base += "Enum"
	}
	for _, name := range []string{verb + base, verb + pkg + base} {
		if free(name) {
			return name
		}
	}
	for i := 2; ; i++ {
		if name := fmt.Sprintf("%s%s%s%d", verb, pkg, base, i); free(name) {
			return name
		}
	}
}

// typeWords is the name of a type followed by those of its type arguments.
func typeWords(t types.Type) string {
	switch t := t.(type) {
	case *types.Alias:
		return exported(t.Obj().Name())
	case *types.Named:
		out := exported(t.Obj().Name())
		for arg := range t.TypeArgs().Types() {
			out += typeWords(arg)
		}
		return out
	case *types.Basic:
		return exported(t.Name())
	case *types.Pointer:
		return typeWords(t.Elem())
	case *types.Slice:
		return typeWords(t.Elem()) + "s"
	case *types.Array:
		return typeWords(t.Elem()) + "s"
	case *types.Map:
		return typeWords(t.Key()) + typeWords(t.Elem()) + "Map"
	}
	return "Value"
}

func exported(name string) string {
	name = strings.TrimLeft(name, "_")
	if name == "" {
		return ""
	}
	r := []rune(name)
	r[0] = unicode.ToUpper(r[0])
	return string(r)
}
