package echoes

import (
	"strconv"
	"unsafe"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// firstAlloc bounds, in bytes, what is allocated for an array or a map on the
// strength of the number of its elements alone, before any of them is decoded.
const firstAlloc = 256 << 10

// Begin enters the document under the cursor, which is to be read into *p, and
// returns the bound that Next takes. On null there is nothing to enter: *p
// becomes the zero value and Next returns false at once. Any other type is a
// problem.
func Begin[T any](d *Decoder, p *T) int {
	if d.err == nil && d.null() {
		*p = *new(T)
	}
	return d.Begin()
}

// Slice reads an array into *p, each element with elem. null gives nil, an
// empty array an empty slice, a null element the zero value.
func Slice[E any](d *Decoder, p *[]E, elem func(*Decoder, *E)) {
	end := d.enter(bson.TypeArray, "array")
	if end < 0 {
		if d.err == nil {
			*p = nil
		}
		return
	}
	var zero E
	counted := d.count(end, unsafe.Sizeof(zero))
	s := make([]E, 0, counted)
	for d.Next(end) {
		if len(s) < counted {
			s = s[:len(s)+1] // zero since make
		} else {
			s = append(s, zero)
		}
		elem(d, &s[len(s)-1])
	}
	if d.err == nil {
		*p = s
	}
}

// Array reads an array into dst, which is all of a Go array: echoes.Array(d,
// p.Axes[:], elem). A longer one is a problem, the rest of dst after a shorter
// one and all of it on null is zero.
func Array[E any](d *Decoder, dst []E, elem func(*Decoder, *E)) {
	end := d.enter(bson.TypeArray, "array")
	if d.err != nil {
		return
	}
	clear(dst)
	for i := 0; d.Next(end); i++ {
		if i == len(dst) {
			d.failf("want at most ", strconv.Itoa(len(dst)), " elements, got more")
			return
		}
		elem(d, &dst[i])
	}
}

// Ptr reads the value under the cursor into *p with elem, and makes a P when *p
// is nil. null gives nil.
func Ptr[P any](d *Decoder, p **P, elem func(*Decoder, *P)) {
	switch {
	case d.err != nil:
	case d.null():
		*p = nil
	default:
		if *p == nil {
			*p = new(P)
		}
		elem(d, *p)
	}
}

// Pointer turns the decoder of a P into that of a *P, for parameters, elements
// and map values that are pointers.
func Pointer[P any](elem func(*Decoder, *P)) func(*Decoder, **P) {
	return func(d *Decoder, p **P) { Ptr(d, p, elem) }
}

// count returns how many elements up to end are there, but not more than fit
// into firstAlloc when each takes the given size.
func (d *Decoder) count(end int, each uintptr) int {
	most := firstAlloc / int(max(each, 1))
	n := 0
	for pos := d.pos; pos < end && n < most; n++ {
		i := textEnd(d.buf[pos+1 : end])
		if i < 0 {
			break
		}
		off := pos + i + 2
		length := size(bson.Type(d.buf[pos]), d.buf[off:end])
		if length < 0 {
			break
		}
		pos = off + length
	}
	return n
}
