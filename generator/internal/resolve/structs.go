package resolve

import (
	"fmt"
	"go/types"
	"strings"
)

// candidate is a field that claims a key.
type candidate struct {
	field *Field
	from  *types.Var
	depth int
}

// structType resolves the fields of a struct by the driver's rules: the key is
// the tag's name or the field's name in lower case, unexported fields take no
// part, an embedded struct is a field like any other unless its tag says
// inline, and of two fields with one key the outer one wins.
func (r *resolver) structType(t types.Type, s *types.Struct, named *types.Named, field *types.Var) *Type {
	out := &Type{Go: t, Form: Struct}
	if named != nil {
		r.guard(named)
	} else if v := r.foreignUnexported(s); v != nil {
		return r.unsupported(field, fmt.Sprintf("the struct without a name has a field %s that is not exported by %s, so its type cannot be written elsewhere", v.Name(), v.Pkg().Name()), "give the struct a name")
	}
	before := r.misses
	found := r.fields(out, s, nil, []types.Type{t})
	if len(found) == 0 && out.Rest == nil && s.NumFields() > 0 && allUnexported(s) {
		return r.unsupported(field, fmt.Sprintf("%s has no exported field, so nothing can be decoded into it", r.short(t)), leaveOut)
	}
	out.Fields = r.dominant(found)
	if r.misses > before {
		r.failed.Set(t, true)
		return nil
	}
	addSpellings(out.Fields)
	return out
}

// fields collects the fields of a struct and of the structs inlined in it.
func (r *resolver) fields(out *Type, s *types.Struct, prefix []Step, inlining []types.Type) []candidate {
	var found []candidate
	for i := range s.NumFields() {
		v := s.Field(i)
		tag := r.tag(v, s.Tag(i))
		if tag.skip {
			continue
		}
		if !v.Exported() {
			r.unexported(v, tag)
			continue
		}
		step := Step{Name: v.Name()}
		if tag.inline {
			found = append(found, r.inline(out, v, prefix, inlining)...)
			continue
		}
		var t *Type
		r.hint = append(r.hint, v.Name())
		resolve := r.resolveField
		if tag.enum {
			resolve = r.enum
		}
		r.within("."+v.Name(), func() { t = resolve(v.Type(), v) })
		r.hint = r.hint[:len(r.hint)-1]
		if t == nil {
			r.misses++
			continue
		}
		f := &Field{Key: tag.key, Type: t, Required: tag.required, OmitEmpty: tag.omitEmpty, MinSize: tag.minSize, Path: appendStep(prefix, step)}
		if !tag.named {
			f.Also = spellings(v.Name(), tag.key)
		}
		found = append(found, candidate{f, v, len(prefix)})
	}
	return found
}

// foreignUnexported returns a field that keeps the type of a struct without a
// name from being written in this package.
func (r *resolver) foreignUnexported(s *types.Struct) *types.Var {
	for v := range s.Fields() {
		if !v.Exported() && v.Pkg() != r.pkg.Types {
			return v
		}
	}
	return nil
}

// inline resolves a field whose content belongs to the document around it.
func (r *resolver) inline(out *Type, v *types.Var, prefix []Step, inlining []types.Type) []candidate {
	step := Step{Name: v.Name()}
	t := v.Type()
	if m, ok := t.Underlying().(*types.Map); ok {
		r.inlineMap(out, v, m, prefix)
		return nil
	}
	if ptr, ok := t.Underlying().(*types.Pointer); ok {
		t = ptr.Elem()
		step.New = t
	}
	s, ok := t.Underlying().(*types.Struct)
	if !ok {
		if hasInvalid(t) {
			r.invalidField(v)
			return nil
		}
		r.within("."+v.Name(), func() {
			r.unsupported(v, fmt.Sprintf("%s cannot be inlined", r.short(v.Type())), "inline a struct, a pointer to one or a map[string], or remove inline from the tag")
		})
		return nil
	}
	for _, outer := range inlining {
		if types.Identical(outer, t) {
			r.within("."+v.Name(), func() {
				r.unsupported(v, fmt.Sprintf("%s is inlined into itself", r.short(t)), "remove inline from the tag")
			})
			return nil
		}
	}
	path := appendStep(prefix, step)
	named, isNamed := types.Unalias(t).(*types.Named)
	if isNamed {
		if step.New != nil && !r.nameable(named, v) {
			return nil
		}
		r.guard(named)
		if ownMethod(named, "Validate", isValidate) {
			out.Validate = append(out.Validate, path)
		}
	}
	var found []candidate
	r.within("."+v.Name(), func() {
		found = r.fields(out, s, path, append(inlining, t))
	})
	return found
}

// inlineMap makes a map the place for keys that no field has.
func (r *resolver) inlineMap(out *Type, v *types.Var, m *types.Map, prefix []Step) {
	r.within("."+v.Name(), func() {
		switch {
		case len(prefix) > 0:
			// The driver looks for the map in the outer struct only, and would
			// write into another field.
			r.unsupported(v, "an inline map inside an inlined struct is not filled by the driver", "move the map to the outer struct")
		case out.Rest != nil:
			r.unsupported(v, "the struct has two inline maps", "remove inline from one of the tags")
		case !types.Identical(m.Key(), types.Typ[types.String]):
			r.unsupported(v, "the keys of an inline map must be string", "use map[string]"+r.short(m.Elem()))
		default:
			// The driver fills it key by key: what the map's type has for decoding
			// itself is not called.
			named, isNamed := types.Unalias(v.Type()).(*types.Named)
			if isNamed && !r.nameable(named, v) {
				return
			}
			elem := r.resolveField(m.Elem(), v)
			if elem == nil {
				return
			}
			path := appendStep(prefix, Step{Name: v.Name()})
			out.Rest = &Field{Path: path, Type: &Type{Go: v.Type(), Form: Map, Elem: elem}}
			if isNamed && ownMethod(named, "Validate", isValidate) {
				out.Validate = append(out.Validate, path)
			}
		}
	})
}

// unexported reports fields that a tag or an embedded struct makes look like
// part of the document, while nothing can be decoded into them.
func (r *resolver) unexported(v *types.Var, tag tag) {
	switch {
	case tag.given:
		r.within("."+v.Name(), func() {
			r.unsupported(v, "the field has a tag and is not exported, so nothing is decoded into it", "export it, or remove the tag")
		})
	case v.Embedded() && hasExportedField(v.Type()):
		r.within("."+v.Name(), func() {
			r.unsupported(v, "the embedded struct is not exported, so nothing is decoded into its fields", "export it and add `bson:\",inline\"`, or leave it out with `bson:\"-\"`")
		})
	}
}

// dominant drops the fields that an outer field with the same key hides, and
// reports two of the same depth. The order of the source is kept.
func (r *resolver) dominant(found []candidate) []*Field {
	best := make(map[string]candidate)
	for _, c := range found {
		if first, ok := best[c.field.Key]; !ok || c.depth < first.depth {
			best[c.field.Key] = c
		}
	}
	var out []*Field
	for _, c := range found {
		first := best[c.field.Key]
		switch {
		case first.field == c.field:
			out = append(out, c.field)
		case first.depth == c.depth:
			r.within(fieldPath(c.field), func() {
				r.unsupported(c.from, fmt.Sprintf("the key %q belongs to the field %s already", c.field.Key, strings.TrimPrefix(fieldPath(first.field), ".")), "give one of them another name with a bson tag")
			})
		}
	}
	return out
}

func fieldPath(f *Field) string {
	var b strings.Builder
	for _, s := range f.Path {
		b.WriteString("." + s.Name)
	}
	return b.String()
}

func appendStep(prefix []Step, step Step) []Step {
	return append(prefix[:len(prefix):len(prefix)], step)
}

func allUnexported(s *types.Struct) bool {
	for v := range s.Fields() {
		if v.Exported() {
			return false
		}
	}
	return true
}

func hasExportedField(t types.Type) bool {
	if ptr, ok := t.Underlying().(*types.Pointer); ok {
		t = ptr.Elem()
	}
	s, ok := t.Underlying().(*types.Struct)
	return ok && s.NumFields() > 0 && !allUnexported(s)
}
