package echoes

import (
	"strings"
	"unsafe"
)

// ZeroCopy lets the strings, and the keys of maps, that readers store from now on point into the payload instead of
// copying them. Its bytes must never change then, and a string that is kept keeps all of them in memory.
func (d *Decoder) ZeroCopy() { d.zeroCopy = true }

// Short strings are most of a payload's allocations. They are copied into blocks that they share, so that a string
// that is kept keeps a block alive, at most.
const (
	blockBytes  = 512
	sharedBytes = 64 // longer ones have an allocation of their own
)

// copied returns b as a string that nothing changes: a copy, or with ZeroCopy the bytes themselves.
func (d *Decoder) copied(b []byte) string {
	if d.zeroCopy {
		return unsafe.String(unsafe.SliceData(b), len(b))
	}
	if len(b) == 0 || len(b) > sharedBytes {
		return string(b)
	}
	if d.block == nil || d.block.Cap()-d.block.Len() < len(b) {
		d.block = new(strings.Builder)
		d.block.Grow(blockBytes)
	}
	from := d.block.Len()
	d.block.Write(b) // within what it has: what was handed out stays where it is
	return d.block.String()[from:]
}
