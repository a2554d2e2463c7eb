package resolve

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/format"
	"go/types"
	"strings"

	"github.com/orionjs/orion-go/generator/internal/directive"
)

// method is what the type checker knows about an annotated method.
type method struct {
	recv    *types.Named
	pointer bool
	sig     *types.Signature
}

// fullName is the method's name with its package and receiver, as the runtime
// writes it.
func (m *method) fullName(name string) string {
	recv := m.recv.Obj().Name()
	if m.pointer {
		recv = "(*" + recv + ")"
	}
	return m.recv.Obj().Pkg().Name() + "." + recv + "." + name
}

// method resolves the declaration of a listener, or reports why that cannot be
// done.
func (r *resolver) method(l directive.Listener) *method {
	decl := l.Decl
	if decl.Name.Name == "_" {
		r.report(decl.Name.Pos(), "nothing can call the method _", "give it a name")
		return nil
	}
	if errs := r.set.TypeErrorsIn(decl.Pos(), decl.Type.End()); len(errs) > 0 {
		if r.dotImport() {
			return nil
		}
		for _, e := range errs {
			r.problems.Add(e.Pos, e.Message, r.remedy(e.Message))
		}
		return nil
	}
	fn, ok := r.pkg.TypesInfo.Defs[decl.Name].(*types.Func)
	if !ok {
		r.report(decl.Name.Pos(), fmt.Sprintf("the type of method %s cannot be resolved", decl.Name.Name), mustCompile)
		return nil
	}
	sig := fn.Signature()
	if sig.RecvTypeParams().Len() > 0 {
		r.report(decl.Recv.Pos(), fmt.Sprintf("%s is a method of a generic type, whose parameter types are not known", decl.Name.Name), "write the service without type parameters")
		return nil
	}
	recv := types.Unalias(sig.Recv().Type())
	ptr, pointer := recv.(*types.Pointer)
	if pointer {
		recv = types.Unalias(ptr.Elem())
	}
	named, ok := recv.(*types.Named)
	if !ok {
		r.invalid(decl.Recv.List[0].Type, "the receiver's type")
		return nil
	}
	if why := r.constraint(named.Obj()); why != "" {
		r.report(decl.Recv.List[0].Type.Pos(), fmt.Sprintf("the service %s is not part of every build, and generated code is: %s", named.Obj().Name(), why), "declare it in a file without build constraints")
		return nil
	}
	return &method{named, pointer, sig}
}

// signature returns the shape of a method and its parameter type, or reports
// the signature that it should have.
func (r *resolver) signature(l directive.Listener, sig *types.Signature) (Shape, types.Type, bool) {
	params := sig.Params()
	for i := range params.Len() {
		if hasInvalid(params.At(i).Type()) {
			r.invalid(l.Decl.Type.Params, "the parameter type")
			return 0, nil, false
		}
	}
	wrong := func(message string) (Shape, types.Type, bool) {
		r.report(l.Decl.Name.Pos(), fmt.Sprintf("wrong signature of %s: %s", l.Decl.Name.Name, message), "write "+r.rightSignature(l, sig))
		return 0, nil, false
	}
	switch {
	case params.Len() == 0 || !isContext(params.At(0).Type()):
		return wrong("the first parameter must be context.Context")
	case params.Len() == 1:
		return wrong("it does not take the event")
	case params.Len() > 2:
		return wrong("it takes more than the context and the event")
	case sig.Variadic():
		return wrong("it is variadic")
	}
	switch results := sig.Results(); {
	case results.Len() > 1:
		return wrong("it returns more than an error")
	case results.Len() == 1 && !types.Identical(results.At(0).Type(), types.Universe.Lookup("error").Type()):
		return wrong(fmt.Sprintf("it returns %s", r.short(results.At(0).Type())))
	}

	t := params.At(1).Type()
	item, isItem := itemOf(t)
	items, isItems := itemsOf(t)
	_, isHidden := itemIn(t)
	_, isDeclared := types.Unalias(t).(*types.Named)
	switch {
	case l.Kind == directive.Batch && isItems:
		return Items, items, r.notItem(l, items)
	case l.Kind == directive.Event && isItem:
		return Item, item, r.notItem(l, item)
	case isHidden && isDeclared && !isItem:
		return wrong(r.short(t) + " is a type of its own, from which the items' type cannot be inferred, as it could from an alias")
	case l.Kind == directive.Batch && isItem:
		return wrong("a batch takes a slice of items")
	case l.Kind == directive.Batch:
		return wrong("a batch takes []echoes.Item[P]")
	case isItems:
		return wrong("an event is one item, a slice of items is for //echoes:batch")
	case isHidden && isPointer(t):
		return wrong("it takes a pointer to an item")
	case isHidden:
		return wrong("an item is what a listener takes, and never part of the payload")
	}
	return Plain, t, true
}

// notItem reports an item in an item.
func (r *resolver) notItem(l directive.Listener, param types.Type) bool {
	if _, nested := itemIn(param); nested {
		r.report(l.Decl.Name.Pos(), fmt.Sprintf("wrong signature of %s: the parameters of an item are an item", l.Decl.Name.Name), "use the payload's type in echoes.Item[...]")
		return false
	}
	return true
}

// rightSignature shows how the method should look, with as much of the source
// as can stay.
func (r *resolver) rightSignature(l directive.Listener, sig *types.Signature) string {
	ctx, arg, payload := "ctx", "", "P"
	for i := range sig.Params().Len() {
		p := sig.Params().At(i)
		// In (ctx, p P) the context has the type of the parameter.
		if resemblesContext(p.Type()) || i == 0 && p.Name() == "ctx" {
			if p.Name() != "" && p.Name() != "_" {
				ctx = p.Name()
			}
			continue
		}
		t := p.Type()
		if elem, ok := sliceElem(t); ok && (l.Kind == directive.Batch || sig.Variadic()) {
			t = elem
		}
		item, isItem := itemIn(t)
		for isItem {
			t = item
			item, isItem = itemIn(t)
		}
		_, isItem = itemIn(p.Type())
		arg, payload = p.Name(), r.short(t)
		if isItem && l.Kind == directive.Event {
			payload = "echoes.Item[" + payload + "]"
		}
		break
	}
	if l.Kind == directive.Batch {
		payload = "[]echoes.Item[" + payload + "]"
	}
	if arg == "" {
		arg = map[directive.Kind]string{directive.Event: "event", directive.Batch: "items"}[l.Kind]
	}
	result := " error"
	if sig.Results().Len() == 0 {
		result = ""
	}
	return fmt.Sprintf("func %s %s(%s context.Context, %s %s)%s", r.source(l.Decl.Recv), l.Decl.Name.Name, ctx, arg, payload, result)
}

// source prints a receiver list as it stands in the source.
func (r *resolver) source(recv *ast.FieldList) string {
	var b bytes.Buffer
	f := recv.List[0]
	if err := format.Node(&b, r.set.Fset, f.Type); err != nil {
		return "(s *Service)"
	}
	name := "s"
	if len(f.Names) > 0 && f.Names[0].Name != "_" {
		name = f.Names[0].Name
	}
	return "(" + name + " " + strings.TrimSpace(b.String()) + ")"
}

func isContext(t types.Type) bool { return isNamed(t, "context", "Context") }

// resemblesContext reports whether a type was meant as the context: it is one,
// or an interface or struct with the methods of one, or a pointer to that.
func resemblesContext(t types.Type) bool {
	if ptr, ok := types.Unalias(t).(*types.Pointer); ok {
		t = ptr.Elem()
	}
	obj, _, _ := types.LookupFieldOrMethod(t, true, nil, "Deadline")
	return isContext(t) || obj != nil
}

func isPointer(t types.Type) bool {
	_, ok := types.Unalias(t).(*types.Pointer)
	return ok
}

// isNamed reports whether t, behind aliases, is the named type.
func isNamed(t types.Type, path, name string) bool {
	n, ok := types.Unalias(t).(*types.Named)
	return ok && n.Obj().Name() == name && n.Obj().Pkg() != nil && n.Obj().Pkg().Path() == path
}

// itemOf returns the P of echoes.Item[P].
func itemOf(t types.Type) (types.Type, bool) {
	if !isNamed(t, EchoesPath, "Item") {
		return nil, false
	}
	args := types.Unalias(t).(*types.Named).TypeArgs()
	if args.Len() != 1 {
		return nil, false
	}
	return args.At(0), true
}

// itemsOf returns the P of []echoes.Item[P].
func itemsOf(t types.Type) (types.Type, bool) {
	s, ok := types.Unalias(t).(*types.Slice)
	if !ok {
		return nil, false
	}
	return itemOf(s.Elem())
}

// itemIn returns the P of an echoes.Item[P] wherever a type holds one: behind
// pointers, in slices, arrays and maps, and under types that are declared as one
// of these.
func itemIn(t types.Type) (types.Type, bool) {
	for range maxDepth {
		if item, ok := itemOf(t); ok {
			return item, true
		}
		if item, ok := declaredItem(t); ok {
			return item, true
		}
		elem := elemOf(t)
		if elem == nil {
			break
		}
		t = elem
	}
	return nil, false
}

// declaredItem returns the P of a type that is declared as echoes.Item[P].
func declaredItem(t types.Type) (types.Type, bool) {
	s, ok := t.Underlying().(*types.Struct)
	if !ok || s.NumFields() != 2 || !s.Field(1).Embedded() || !isNamed(s.Field(1).Type(), EchoesPath, "EventContext") {
		return nil, false
	}
	return s.Field(0).Type(), true
}

// isItem reports whether a type is an item, or declared as one.
func isItem(t types.Type) bool {
	_, ok := itemOf(t)
	_, declared := declaredItem(t)
	return ok || declared
}

func elemOf(t types.Type) types.Type {
	switch u := t.Underlying().(type) {
	case *types.Pointer:
		return u.Elem()
	case *types.Slice:
		return u.Elem()
	case *types.Array:
		return u.Elem()
	case *types.Map:
		return u.Elem()
	}
	return nil
}

func sliceElem(t types.Type) (types.Type, bool) {
	s, ok := types.Unalias(t).(*types.Slice)
	if !ok {
		return nil, false
	}
	return s.Elem(), true
}
