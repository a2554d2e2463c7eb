package resolve

import (
	"fmt"
	"go/types"

	"github.com/orionjs/orion-go/generator/internal/diag"
)

// selfDecoding is a type that decodes itself from BSON, as the driver calls it.
// Ok is false for any other, and the type nil after a problem.
func (r *resolver) selfDecoding(t types.Type, named *types.Named, field *types.Var) (out *Type, ok bool) {
	if _, isInterface := named.Underlying().(*types.Interface); isInterface {
		return nil, false
	}
	var method string
	switch {
	case methodMatches(named, "UnmarshalBSONValue", types.Typ[types.Byte], byteSlice):
		method, out = "UnmarshalBSONValue", &Type{Go: t, Form: BSONValue}
	case methodMatches(named, "UnmarshalBSON", byteSlice):
		method, out = "UnmarshalBSON", &Type{Go: t, Form: BSONDocument}
	default:
		return nil, false
	}
	if lender := nilLender(named, method); lender != nil {
		return r.unsupported(field, fmt.Sprintf("%s is decoded by the %s of %s, which is embedded as a pointer and nil then", r.short(t), method, r.short(lender)),
			fmt.Sprintf("embed %s itself, or declare %s on %s", r.short(lender), method, r.short(t))), true
	}
	return out, true
}

// nilLender returns the embedded type behind a pointer that lends a method, nil
// if it needs none to be set.
func nilLender(named *types.Named, method string) types.Type {
	_, index, _ := types.LookupFieldOrMethod(types.NewPointer(named), true, named.Obj().Pkg(), method)
	var t types.Type = named
	for _, i := range index[:len(index)-1] {
		s, ok := t.Underlying().(*types.Struct)
		if !ok {
			return nil
		}
		t = s.Field(i).Type()
		if ptr, ok := t.Underlying().(*types.Pointer); ok {
			return ptr.Elem()
		}
	}
	return nil
}

var byteSlice = types.NewSlice(types.Typ[types.Byte])

// textHelper is the function of echoes for types that are read from text alone.
const textHelper = "Text"

// parsesText reports whether a type is to be read from text. Methods that an
// embedded type lends do not count: the other fields would be lost.
func parsesText(named *types.Named) bool {
	if _, ok := exact[qualified(named)]; ok {
		return false
	}
	return ownMethod(named, "UnmarshalText", func(s *types.Signature) bool { return takes(s, byteSlice) })
}

// storable reports whether a type that parses text can be decoded by its
// structure too. The driver ignores MarshalText, so that is how it stores a
// number, bytes or a struct with exported fields. A string is text either way.
// The answer comes from a trial whose problems concern nobody.
func (r *resolver) storable(t types.Type, named *types.Named) bool {
	if b, ok := named.Underlying().(*types.Basic); ok && b.Info()&types.IsString != 0 {
		return false
	}
	if known, ok := r.stored.At(t).(bool); ok {
		return known
	}
	r.stored.Set(t, true) // while it is tried: a type may contain itself
	trial := &resolver{
		set: r.set, pkg: r.pkg, problems: &diag.List{}, out: &Package{Types: r.out.Types},
		stored: r.stored, constraints: r.constraints, param: r.param, path: r.path[:1], depth: r.depth,
	}
	ok := trial.content(t, named, nil) != nil && trial.problems.Len() == 0
	r.stored.Set(t, ok)
	return ok
}
