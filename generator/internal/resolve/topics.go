package resolve

import (
	"fmt"
	"go/token"
	"go/types"
	"path/filepath"

	"github.com/orionjs/orion-go/generator/internal/diag"
	"github.com/orionjs/orion-go/generator/internal/directive"
)

// Topic is a type that has a topic, and a publish function for it.
type Topic struct {
	// Name is the topic.
	Name  string
	Named *types.Named
	// Params is how the type is encoded.
	Params *Type
	// Const, Publish and PublishMany are the names of what is generated.
	Const, Publish, PublishMany string

	at token.Position
}

// Position is where the directive begins.
func (t *Topic) Position() token.Position { return t.at }

// addTopic resolves a type with a topic.
func (r *resolver) addTopic(d directive.TypeTopic) {
	obj, ok := r.pkg.Types.Scope().Lookup(d.Spec.Name.Name).(*types.TypeName)
	if !ok {
		return // declared twice: the compiler says so
	}
	named, ok := obj.Type().(*types.Named)
	switch {
	case obj.IsAlias():
		r.report(d.Pos, fmt.Sprintf("%s is an alias, and a topic belongs to a type of its own", obj.Name()), "put the directive above the type that it stands for, or declare type "+obj.Name()+" without =")
		return
	case !ok:
		r.report(d.Spec.Pos(), fmt.Sprintf("the type %s cannot be resolved", obj.Name()), "")
		return
	case named.TypeParams().Len() > 0:
		r.report(d.Pos, fmt.Sprintf("%s has type parameters, so its encoding is not known", obj.Name()), fmt.Sprintf("declare a type for each topic, as in type Created %s[Order]", obj.Name()))
		return
	}
	for _, other := range r.out.Topics {
		if other.Name == d.Topic {
			r.report(d.TopicPos, fmt.Sprintf("topic %s belongs to %s already, at %s:%d", d.Topic, other.Named.Obj().Name(), filepath.Base(other.at.Filename), other.at.Line),
				"one topic has one type: give one of them another topic, or remove the directive")
			return
		}
	}
	r.param = r.at(d.Spec.Name.Pos())
	r.path = []string{obj.Name()}
	r.hint = []string{obj.Name()}
	before := r.problems.Len()
	t := r.resolve(named)
	if t == nil {
		if r.problems.Len() == before {
			r.report(d.Pos, fmt.Sprintf("%s cannot be encoded", obj.Name()), "mend its fields, which are reported where a listener takes it")
		}
		return
	}
	if !r.encodable(t, make(map[*Func]bool)) {
		return
	}
	topic := &Topic{Name: d.Topic, Named: named, Params: t, at: r.at(d.Pos)}
	if r.nameTopic(topic, d.Pos) {
		r.out.Topics = append(r.out.Topics, topic)
	}
}

// nameTopic names what is generated for a topic, and reports names that are
// taken. They are not exported when the type is not.
func (r *resolver) nameTopic(t *Topic, pos token.Pos) bool {
	name := exported(t.Named.Obj().Name())
	t.Const, t.Publish, t.PublishMany = "Topic"+name, "Publish"+name, "PublishMany"+name
	if !t.Named.Obj().Exported() {
		t.Const, t.Publish, t.PublishMany = "topic"+name, "publish"+name, "publishMany"+name
	}
	ok := true
	for _, n := range []string{t.Const, t.Publish, t.PublishMany} {
		switch obj := r.pkg.Types.Scope().Lookup(n); {
		case obj != nil:
			at := r.at(obj.Pos())
			r.report(pos, fmt.Sprintf("the package declares %s, at %s:%d, which is the name of what is generated for the topic %s", n, filepath.Base(at.Filename), at.Line, t.Name), "rename it")
			ok = false
		case r.out.Declared[n]:
			r.report(pos, fmt.Sprintf("%s would be generated for two topics", n), "rename one of the types")
			ok = false
		case r.pkg.Imported()[n]:
			r.report(pos, fmt.Sprintf("a file imports a package as %s, which is the name of what is generated for the topic %s", n, t.Name), "import it under another name")
			ok = false
		}
		r.out.Declared[n] = true
	}
	return ok
}

// encodable reports what keeps a type from being encoded so that its own decoder
// reads it.
func (r *resolver) encodable(t *Type, seen map[*Func]bool) bool {
	if t == nil {
		return true
	}
	content := t
	if t.Func != nil {
		if seen[t.Func] {
			return true
		}
		seen[t.Func] = true
		content = t.Func.Content
	}
	ok := r.hasMethods(t, content)
	for _, f := range content.Fields {
		r.within(fieldPath(f), func() {
			if f.Required && f.OmitEmpty {
				r.unsupported(nil, "the field is required and omitempty: an empty value would be left out, and no listener could read the event", "remove one of the two")
				ok = false
			}
			ok = r.encodable(f.Type, seen) && ok
		})
	}
	if content.Rest != nil {
		r.within(fieldPath(content.Rest), func() { ok = r.encodable(content.Rest.Type, seen) && ok })
	}
	if content.Elem != nil {
		r.within("[]", func() { ok = r.encodable(content.Elem, seen) && ok })
	}
	return ok
}

// hasMethods reports a type that reads a form of its own and does not write it,
// or the other way round.
func (r *resolver) hasMethods(t, content *Type) bool {
	missing := func(t types.Type, has, lacks string) bool {
		r.unsupported(nil, fmt.Sprintf("%s has %s and no %s, so what is published could not be read again", r.short(t), has, lacks), "give it both methods, or none")
		return false
	}
	if content.Form == Map && content.KeyWriter() == "" {
		switch key := content.Go.Underlying().(*types.Map).Key(); content.Key {
		case parsedKey:
			return missing(key, "UnmarshalKey", "MarshalKey")
		case textKey:
			return missing(key, "UnmarshalText", "MarshalText")
		}
	}
	named, ok := types.Unalias(t.Go).(*types.Named)
	if !ok || content.Form == Method || content.Name == nativeHelper {
		return true
	}
	switch {
	case content.Form == BSONValue && !returns(named, "MarshalBSONValue", types.Typ[types.Byte], byteSlice):
		return missing(named, "UnmarshalBSONValue", "MarshalBSONValue")
	case content.Form == BSONDocument && !returns(named, "MarshalBSON", byteSlice):
		return missing(named, "UnmarshalBSON", "MarshalBSON")
	case content.Name == textHelper && !returns(named, "MarshalText", byteSlice):
		return missing(named, "UnmarshalText", "MarshalText")
	case content.Form == BSONValue || content.Form == BSONDocument:
		return true
	case returns(named, "MarshalBSONValue", types.Typ[types.Byte], byteSlice):
		return missing(named, "MarshalBSONValue", "UnmarshalBSONValue")
	case returns(named, "MarshalBSON", byteSlice):
		return missing(named, "MarshalBSON", "UnmarshalBSON")
	}
	return true
}

// returns reports whether a type or a pointer to it has a method without
// parameters that returns these results and an error.
func returns(named *types.Named, name string, results ...types.Type) bool {
	if named == nil {
		return false
	}
	sig, _ := lookup(named, name)
	if sig == nil || sig.Params().Len() != 0 || sig.Results().Len() != len(results)+1 {
		return false
	}
	for i, t := range results {
		if !types.Identical(sig.Results().At(i).Type(), t) {
			return false
		}
	}
	return types.Identical(sig.Results().At(len(results)).Type(), types.Universe.Lookup("error").Type())
}

// IsZeroer reports whether a type has the method IsZero by which the driver tells
// that a value is empty.
func IsZeroer(t types.Type) bool {
	obj, _, _ := types.LookupFieldOrMethod(t, false, nil, "IsZero")
	fn, ok := obj.(*types.Func)
	if !ok {
		return false
	}
	sig := fn.Signature()
	return sig.Params().Len() == 0 && sig.Results().Len() == 1 && types.Identical(sig.Results().At(0).Type(), types.Typ[types.Bool]) &&
		types.NewMethodSet(t).Lookup(nil, "IsZero") != nil
}

// The functions of echoes that write the keys of maps.
const (
	stringName    = "StringName"
	textName      = "TextName"
	marshaledName = "MarshaledName"
)

// KeyWriter returns the generic function of echoes that writes the keys of a Map,
// "" when they are strings as they are.
func (t *Type) KeyWriter() string {
	key := t.Go.Underlying().(*types.Map).Key()
	named, _ := types.Unalias(key).(*types.Named)
	basic, _ := key.Underlying().(*types.Basic)
	isString := basic != nil && basic.Info()&types.IsString != 0
	switch {
	case t.Key == intKey:
		return "IntName"
	case t.Key == uintKey:
		return "UintName"
	case t.Key == parsedKey && returns(named, "MarshalKey", types.Typ[types.String]):
		return marshaledName
	case t.Key == textKey && returns(named, "MarshalText", byteSlice):
		return textName
	case t.Key != "" && isString:
		return stringName
	}
	return ""
}

// split keeps the decode functions that listeners need, and finds the types that
// topics need an encode function for.
func (p *Package) split() {
	decoded, encoded := make(map[*Func]bool), make(map[*Func]bool)
	for _, s := range p.Services {
		for _, l := range s.Listeners {
			reach(l.Params, decoded)
		}
	}
	for _, t := range p.Topics {
		reach(t.Params, encoded)
	}
	all := p.Funcs
	p.Funcs = nil
	for _, f := range all {
		if decoded[f] {
			p.Funcs = append(p.Funcs, f)
		}
		if encoded[f] {
			p.Encoders = append(p.Encoders, f)
		}
	}
}

// reach collects the functions that a type needs.
func reach(t *Type, found map[*Func]bool) {
	if t == nil {
		return
	}
	if t.Func != nil {
		if found[t.Func] {
			return
		}
		found[t.Func] = true
		if t = t.Func.Content; t.Func != nil {
			reach(t, found) // an enum has its type's own function inside
			return
		}
	}
	reach(t.Elem, found)
	for _, f := range t.Fields {
		reach(f.Type, found)
	}
	if t.Rest != nil {
		reach(t.Rest.Type, found)
	}
}

// Mismatches notes listeners that take another type than the one that the topic
// belongs to, and topics that belong to two types, over all packages. That may be
// meant: a consumer is free to read less than was published.
func Mismatches(packages []*Package, notes *diag.List) {
	first := make(map[string]*Topic)
	for _, p := range packages {
		for _, t := range p.Topics {
			other, twice := first[t.Name]
			if !twice {
				first[t.Name] = t
				continue
			}
			notes.Add(t.at, fmt.Sprintf("note: topic %s belongs to %s and to %s", t.Name, display(other.Named), display(t.Named)), "publish one type on a topic, so that all share one contract")
		}
	}
	for _, p := range packages {
		for _, s := range p.Services {
			for _, l := range s.Listeners {
				t := first[l.Topic]
				if t == nil {
					continue
				}
				taken := l.Params.Go
				if ptr, ok := types.Unalias(taken).(*types.Pointer); ok {
					taken = ptr.Elem()
				}
				if identity(taken) != identity(t.Named) {
					notes.Add(p.position(l.Pos), fmt.Sprintf("note: %s takes %s, and topic %s belongs to %s", l.FullName, display(taken), l.Topic, display(t.Named)),
						"take that type, unless the listener is to see a part of it only")
				}
			}
		}
	}
}

// identity is the same for a type in several loads of its package.
func identity(t types.Type) string { return types.TypeString(types.Unalias(t), (*types.Package).Path) }

// display is a type as people call it.
func display(t types.Type) string { return types.TypeString(t, (*types.Package).Name) }
