package echoes

import (
	"encoding"
	"slices"
	"strconv"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// EncodeMap writes a document, each value with elem, in the order of the keys;
// nil is null.
func EncodeMap[K ~string, V any](e *Encoder, p *map[K]V, elem func(*Encoder, *V)) {
	if *p == nil {
		e.null()
		return
	}
	start := e.Begin()
	EncodeInline(e, p, elem)
	e.End(start)
}

// EncodeInline writes the content of a map as fields of the document around it,
// in the order of the keys. A key that is one of taken, the document's own
// fields, is a problem.
func EncodeInline[K ~string, V any](e *Encoder, p *map[K]V, elem func(*Encoder, *V), taken ...string) {
	// The keys are sorted on a stack that maps in maps share.
	base := len(e.keys)
	for key := range *p {
		e.keys = append(e.keys, string(key))
	}
	top := len(e.keys)
	slices.Sort(e.keys[base:top])
	var v V
	for i := base; i < top && e.err == nil; i++ {
		key := e.keys[i]
		e.key(key)
		if slices.Contains(taken, key) {
			e.failf("the inline map has the key of a field")
		}
		v = (*p)[K(key)]
		elem(e, &v)
	}
	e.keys = e.keys[:base]
}

// EncodeMapOf is EncodeMap for keys that are not strings as they are: name makes
// a field's name of a key. Two keys with one name are a problem.
func EncodeMapOf[K comparable, V any](e *Encoder, p *map[K]V, name func(*K) (string, error), elem func(*Encoder, *V)) {
	if *p == nil {
		e.null()
		return
	}
	start := e.Begin()
	defer func() { e.End(start) }()
	type field struct {
		name string
		key  K
	}
	fields := make([]field, 0, len(*p))
	for key := range *p {
		n, err := name(&key)
		if err != nil {
			e.fail(err)
			return
		}
		fields = append(fields, field{n, key})
	}
	slices.SortFunc(fields, func(a, b field) int { return strings.Compare(a.name, b.name) })
	var v V
	for i, f := range fields {
		if e.err != nil {
			return
		}
		e.key(f.name)
		if i > 0 && f.name == fields[i-1].name {
			e.failf("two keys of the map have this name")
		}
		v = (*p)[f.key]
		elem(e, &v)
	}
}

// IntName makes a field's name of a whole number, as the driver does.
func IntName[K signed](k *K) (string, error) { return strconv.FormatInt(int64(*k), 10), nil }

// UintName is IntName for unsigned numbers.
func UintName[K unsigned](k *K) (string, error) { return strconv.FormatUint(uint64(*k), 10), nil }

// StringName is the string itself, for keys that parse text and have no
// MarshalText.
func StringName[K ~string](k *K) (string, error) { return string(*k), nil }

// TextName makes a field's name with the MarshalText of the key's type.
func TextName[K any, PK interface {
	*K
	encoding.TextMarshaler
}](k *K) (string, error) {
	text, err := PK(k).MarshalText()
	return string(text), err
}

// MarshaledName makes a field's name with the MarshalKey of the key's type.
func MarshaledName[K any, PK interface {
	*K
	bson.KeyMarshaler
}](k *K) (string, error) {
	return PK(k).MarshalKey()
}
