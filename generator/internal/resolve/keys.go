package resolve

import (
	"fmt"
	"go/types"
)

// The functions of echoes that read the keys of maps.
const (
	parsedKey = "ParsedKey"
	textKey   = "TextKey"
	intKey    = "IntKey"
	uintKey   = "UintKey"
)

func (r *resolver) mapType(t types.Type, m *types.Map, field *types.Var) *Type {
	key, ok := r.key(t, m, field)
	if !ok {
		return nil
	}
	out := r.composite(t, Map, "[]", m.Elem(), field)
	if out != nil {
		out.Key = key
	}
	return out
}

// key returns the function that reads a map's keys, "" for strings as they are.
// The order of the choices is the driver's.
func (r *resolver) key(t types.Type, m *types.Map, field *types.Var) (reader string, ok bool) {
	key := m.Key()
	b, isBasic := key.Underlying().(*types.Basic)
	if hasInvalid(key) || isBasic && b.Kind() == types.Invalid {
		r.invalidField(field)
		return "", false
	}
	if named, isNamed := types.Unalias(key).(*types.Named); isNamed {
		if !r.nameable(named, field) {
			return "", false
		}
		_, isInterface := named.Underlying().(*types.Interface)
		switch {
		case isInterface:
		case methodMatches(named, "UnmarshalKey", types.Typ[types.String]):
			return parsedKey, true
		case methodMatches(named, "UnmarshalText", byteSlice):
			return textKey, true
		}
	}
	switch {
	case isBasic && b.Info()&types.IsString != 0:
		return "", true
	case isBasic && b.Info()&types.IsUnsigned != 0 && b.Kind() != types.Uintptr:
		return uintKey, true
	case isBasic && b.Info()&types.IsInteger != 0 && b.Kind() != types.Uintptr:
		return intKey, true
	}
	r.unsupported(field, fmt.Sprintf("the keys of %s are no strings and not read from one", r.short(t)), "use map[string]"+r.short(m.Elem())+", or give the key's type an UnmarshalText method")
	return "", false
}
