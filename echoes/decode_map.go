package echoes

import (
	"encoding"
	"strconv"
	"unicode/utf8"
	"unsafe"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// Map reads a document into *p, each value with elem. null gives nil, an empty
// document an empty map, a null value the zero value under its key.
func Map[K ~string, V any](d *Decoder, p *map[K]V, elem func(*Decoder, *V)) {
	end, m := beginMap(d, p)
	var v, zero V
	for d.Next(end) {
		// MapOf would do, at the price of an allocation for its function.
		key := K(d.MapKey())
		v = zero
		elem(d, &v)
		m[key] = v
	}
	if d.err == nil {
		*p = m
	}
}

// MapOf is Map for keys that are not strings as they are: key reads a field's
// name. When two names give the same key the last value wins.
func MapOf[K comparable, V any](d *Decoder, p *map[K]V, key func(*Decoder, *K), elem func(*Decoder, *V)) {
	end, m := beginMap(d, p)
	var (
		k, noKey K
		v, zero  V
	)
	for d.Next(end) {
		k, v = noKey, zero
		if key(d, &k); d.err != nil {
			return
		}
		elem(d, &v)
		m[k] = v
	}
	if d.err == nil {
		*p = m
	}
}

// beginMap enters a document and returns the map to fill: the one that is there,
// since documents merge, or a new one, nil for null.
func beginMap[K comparable, V any](d *Decoder, p *map[K]V) (end int, m map[K]V) {
	end = d.enter(bson.TypeEmbeddedDocument, "document")
	if end < 0 {
		return end, nil
	}
	if *p != nil {
		return end, *p
	}
	var (
		k K
		v V
	)
	return end, make(map[K]V, d.count(end, unsafe.Sizeof(k)+unsafe.Sizeof(v)))
}

// MapKey returns the current field's name as a key to keep. A key that is not
// valid UTF-8 is a problem.
func (d *Decoder) MapKey() string {
	if !utf8.Valid(d.Key()) {
		d.failUTF8("key", d.Key())
	}
	return d.copied(d.Key())
}

// IntKey reads a field's name as a whole number, the form in which the driver
// stores such keys.
func IntKey[K signed](d *Decoder, k *K) {
	n, err := strconv.ParseInt(string(d.Key()), 10, 64)
	if err != nil || int64(K(n)) != n {
		d.failf("want a key that is an ", intName[K](), ", got ", quoteShort(d.Key()))
		return
	}
	*k = K(n)
}

// UintKey is IntKey for unsigned numbers.
func UintKey[K unsigned](d *Decoder, k *K) {
	n, err := strconv.ParseUint(string(d.Key()), 10, 64)
	if err != nil || uint64(K(n)) != n {
		d.failf("want a key that is a ", uintName[K](), ", got ", quoteShort(d.Key()))
		return
	}
	*k = K(n)
}

// TextKey reads a field's name with the UnmarshalText of the key's type.
func TextKey[K any, PK interface {
	*K
	encoding.TextUnmarshaler
}](d *Decoder, k *K) {
	if name := d.MapKey(); d.err == nil {
		d.failKey(PK(k).UnmarshalText([]byte(name)))
	}
}

// ParsedKey reads a field's name with the UnmarshalKey of the key's type, the
// method that the driver prefers.
func ParsedKey[K any, PK interface {
	*K
	bson.KeyUnmarshaler
}](d *Decoder, k *K) {
	if name := d.MapKey(); d.err == nil {
		d.failKey(PK(k).UnmarshalKey(name))
	}
}

func (d *Decoder) failKey(err error) {
	if err != nil {
		d.fail(err)
	}
}
