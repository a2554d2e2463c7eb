// Package resolve turns annotated methods into a model of the code to generate:
// which services there are, what their methods take, and how each parameter type
// is decoded. It works on go/types and knows nothing about how code is written.
package resolve

import (
	"go/token"
	"go/types"

	"github.com/orionjs/orion-go/generator/internal/diag"
	"github.com/orionjs/orion-go/generator/internal/directive"
)

// EchoesPath is the import path of the runtime that generated code calls.
const EchoesPath = "github.com/orionjs/orion-go/echoes"

// Package is what to generate for one package.
type Package struct {
	Types    *types.Package
	Services []*Service
	// Topics are the types with a topic, in the order of the source.
	Topics []*Topic
	// Funcs are the decode functions in the order of their first use, Encoders the
	// types with an encode function.
	Funcs, Encoders []*Func
	// Guards are the struct types whose fields are written out once more, so that
	// a field that was added, removed, renamed or retyped after the generation
	// fails to compile.
	Guards []*types.Named
	// Declared are the names that mean something in the whole package: what it
	// declares, and the Funcs. Neither an import nor a variable may hide them.
	Declared map[string]bool
	// Notes are methods that look as if they were called, and are not.
	Notes diag.List

	position func(token.Pos) token.Position
}

// Service is a type with listeners.
type Service struct {
	Named *types.Named
	// Pointer says that the listeners are registered on the pointer.
	Pointer   bool
	Listeners []*Listener
	// Embedded are paths to embedded services, whose own EchoesListeners the
	// generated one would hide.
	Embedded [][]string
}

// Shape says what a listener's method takes.
type Shape int

// The shapes of a method: func(ctx, P), func(ctx, echoes.Item[P]) and
// func(ctx, []echoes.Item[P]).
const (
	Plain Shape = iota
	Item
	Items
)

// Listener is one annotated method whose signature fits.
type Listener struct {
	directive.Listener
	// Method is the method's name, FullName the one for messages, as in
	// "shop.(*Orders).Created".
	Method, FullName string
	Shape            Shape
	// NoResult says that the method returns nothing.
	NoResult bool
	// Params is the P of the signature, and how it is decoded.
	Params *Type
	// Position is "folder/file.go:line" of the directive, from the module's root.
	Position string
}

// Form says how a value is decoded.
type Form int

// The forms of decoding.
const (
	// Method is a method of the decoder that takes a pointer: d.String(&x).
	Method Form = iota
	// Convert is such a method for a type that has to be converted first:
	// d.Bytes((*[]byte)(&x)).
	Convert
	// Helper is a generic function over the types of one kind:
	// echoes.StringOf(d, &x).
	Helper
	// ByteArray is d.ByteArray(x[:]).
	ByteArray
	// Array, Slice, Map and Pointer decode elements: echoes.Slice(d, &x, elem).
	Array
	Slice
	Map
	Pointer
	// BSONValue and BSONDocument call the type's own UnmarshalBSONValue or
	// UnmarshalBSON. They occur as the content of a Func only.
	BSONValue
	BSONDocument
	// Struct walks over fields. It occurs as the content of a Func only.
	Struct
)

// Type is a type to decode.
type Type struct {
	Go   types.Type
	Form Form
	// Name is the method of the decoder, or the generic function of echoes.
	Name string
	// Elem is the type of the elements.
	Elem *Type
	// Key is the generic function of echoes that reads the keys of a Map, "" when
	// they are strings as they are.
	Key string
	// Func, when not nil, is the generated function that decodes the type.
	Func *Func
	// Fields are those of a Struct. Rest is its inline map, nil for none.
	Fields []*Field
	Rest   *Field
	// Validate are the parts of a Struct that are inlined and check themselves, as
	// paths of fields from the struct.
	Validate [][]Step
}

// Func is a decode function of its own.
type Func struct {
	Name string
	// Encode is the name of the function that encodes the type, "" when none is
	// needed.
	Encode string
	// Go is the type that it decodes.
	Go types.Type
	// Content is how the type is decoded inside the function.
	Content *Type
	// Text says that strings are left to the type's UnmarshalText, and Content is
	// for the form in which the driver stores the type.
	Text bool
	// Validate says that the type has a Validate method to call.
	Validate bool
	// Known are the only values that the function accepts, nil for any.
	Known []Constant

	order int
	hint  []string
}

// Constant is a value that a type declares.
type Constant struct {
	// Object is the constant to refer to, nil when generated code cannot, and
	// Literal its value as Go writes it.
	Object  *types.Const
	Literal string
}

// Field is one key of a document.
type Field struct {
	// Key is the name in BSON; Also are other spellings that are accepted.
	Key  string
	Also []string
	// Path leads from the struct to the field: one step, or more through inlined
	// structs.
	Path     []Step
	Type     *Type
	Required bool
	// OmitEmpty and MinSize are options of the tag that concern encoding.
	OmitEmpty, MinSize bool
}

// Step is one field on the way to a value.
type Step struct {
	Name string
	// New is the type to allocate when the field is a nil pointer to an inlined
	// struct on the way; nil for no pointer.
	New types.Type
}
