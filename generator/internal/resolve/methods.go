package resolve

import "go/types"

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

func hasMethod(named *types.Named, name string) bool {
	sig, _ := lookup(named, name)
	return sig != nil
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
