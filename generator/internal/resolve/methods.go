package resolve

import (
	"fmt"
	"go/types"
	"strings"
)

// lookup returns a method of the pointer to a type, nil if there is none, and
// whether an embedded type lends it.
func lookup(named *types.Named, name string) (sig *types.Signature, promoted bool) {
	obj, index, _ := types.LookupFieldOrMethod(types.NewPointer(named), true, named.Obj().Pkg(), name)
	fn, ok := obj.(*types.Func)
	if !ok {
		return nil, false
	}
	return fn.Signature(), len(index) > 1
}

// ownMethod reports whether a type declares a method that fits.
func ownMethod(named *types.Named, name string, fits func(*types.Signature) bool) bool {
	if _, isInterface := named.Underlying().(*types.Interface); isInterface {
		return false
	}
	sig, promoted := lookup(named, name)
	return sig != nil && !promoted && fits(sig)
}

// methodMatches reports whether a type has a method with these parameters that
// returns an error, its own or one that an embedded type lends.
func methodMatches(named *types.Named, name string, params ...types.Type) bool {
	sig, _ := lookup(named, name)
	return sig != nil && takes(sig, params...)
}

// isValidate is the signature of Validate() error.
func isValidate(sig *types.Signature) bool { return takes(sig) }

// takes reports whether a function takes these parameters and returns an error.
func takes(sig *types.Signature, params ...types.Type) bool {
	if sig.Params().Len() != len(params) || sig.Results().Len() != 1 || sig.Variadic() {
		return false
	}
	for i, p := range params {
		if !types.Identical(sig.Params().At(i).Type(), p) {
			return false
		}
	}
	return types.Identical(sig.Results().At(0).Type(), types.Universe.Lookup("error").Type())
}

// noteUncalled notes methods of a type of this module that are nearly those that
// decoding calls. They may be meant for something else, so that is no problem.
func (r *resolver) noteUncalled(named *types.Named) {
	for m := range named.Methods() {
		sig := m.Signature()
		params, results := sig.Params(), sig.Results()
		var want string
		switch m.Name() {
		case "Validate":
			returnsBool := params.Len() == 0 && results.Len() == 1 && types.Identical(results.At(0).Type(), types.Typ[types.Bool])
			takesContext := params.Len() == 1 && isContext(params.At(0).Type()) && results.Len() == 1
			if returnsBool || takesContext {
				want = "Validate() error"
			}
		case "UnmarshalBSONValue":
			first, ok := types.Type(nil), params.Len() == 2
			if ok {
				first = types.Unalias(params.At(0).Type())
			}
			// Version 1 of the driver has bsontype.Type, and bson.Type is not byte either.
			if t, ok := first.(*types.Named); ok && t.Obj().Name() == "Type" && t.Obj().Pkg() != nil && strings.Contains(t.Obj().Pkg().Path(), "go.mongodb.org/mongo-driver") {
				want = "UnmarshalBSONValue(byte, []byte) error"
			}
		}
		if want != "" && r.ours(named.Obj().Pkg()) {
			r.out.Notes.Add(r.at(m.Pos()), fmt.Sprintf("note: %s.%s is not called when events are decoded", r.short(named), m.Name()), "that is "+want)
		}
	}
}
