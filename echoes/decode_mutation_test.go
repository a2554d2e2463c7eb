package echoes

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// The tests in this file prove that no bytes make the decoder panic or look
// outside of what it may look at. Every mutant of a document with all BSON
// types is decoded; what the cursor visited must be what an independent walk
// finds, which accepts a value only when it lies in its parent.

// mutationSeed holds every type, nested in documents, lists, maps and pointers
// that decodeInvoice reads.
func mutationSeed(t testing.TB) []byte {
	oid := bson.ObjectID{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}
	b, err := bson.Marshal(bson.D{
		{Key: "id", Value: "é"},
		{Key: "number", Value: int64(7)},
		{Key: "rate", Value: 1.5},
		{Key: "total", Value: decimal128(t, "1.5")},
		{Key: "paid", Value: true},
		{Key: "issued", Value: bson.DateTime(1)},
		{Key: "ref", Value: oid},
		{Key: "hash", Value: bson.Binary{Subtype: 2, Data: []byte("xy")}},
		{Key: "parent", Value: bson.D{{Key: "tags", Value: bson.D{{Key: "a", Value: int32(1)}}}}},
		{Key: "lines", Value: bson.A{bson.D{{Key: "sku", Value: "s"}}, nil}},
		{Key: "any", Value: bson.A{
			bson.Regex{Pattern: "p", Options: "i"},
			bson.Timestamp{T: 1, I: 2},
			bson.MinKey{},
			bson.MaxKey{},
			bson.JavaScript("j"), bson.Symbol("s"),
			bson.DBPointer{DB: "d", Pointer: oid},
			bson.Undefined{},
			bson.CodeWithScope{Code: "c", Scope: bson.D{{Key: "x", Value: bson.A{}}}},
			bson.D{{Key: "b", Value: bson.Binary{Subtype: 5, Data: []byte("z")}}},
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// visit is one value seen by a walk.
type visit struct {
	typ      bson.Type
	key      string
	off, end int
}

// visitDecoder walks with the decoder's cursor.
func visitDecoder(d *Decoder, out []visit) []visit {
	for end := d.enter(d.typ, ""); d.Next(end); {
		out = append(out, visit{d.typ, string(d.Key()), d.off, d.end})
		if d.typ == bson.TypeEmbeddedDocument || d.typ == bson.TypeArray {
			out = visitDecoder(d, out)
		}
	}
	return out
}

var errReference = errors.New("reference: malformed")

// referenceWalk parses the document that is all of b, by taking pieces off a
// shrinking slice, and appends what it finds. base is b's offset in the root.
func referenceWalk(b []byte, base int, out []visit) ([]visit, error) {
	if len(b) < 5 || int64(int32(binary.LittleEndian.Uint32(b))) != int64(len(b)) || b[len(b)-1] != 0 {
		return nil, errReference
	}
	rest := b[4 : len(b)-1]
	for len(rest) > 0 {
		typ := bson.Type(rest[0])
		key, value, found := bytes.Cut(rest[1:], []byte{0})
		if !found {
			return nil, errReference
		}
		n := referenceSize(typ, value)
		if n < 0 || n > len(value) {
			return nil, errReference
		}
		off := base + len(b) - 1 - len(value)
		out = append(out, visit{typ, string(key), off, off + n})
		if typ == bson.TypeEmbeddedDocument || typ == bson.TypeArray {
			var err error
			if out, err = referenceWalk(value[:n], off, out); err != nil {
				return nil, err
			}
		}
		rest = value[n:]
	}
	return out, nil
}

// referenceFixed holds the size of the types of fixed size, plus one.
var referenceFixed = [256]int{0x01: 9, 0x06: 1, 0x07: 13, 0x08: 2, 0x09: 9, 0x0a: 1, 0x10: 5, 0x11: 9, 0x12: 9, 0x13: 17, 0xff: 1, 0x7f: 1}

func referenceSize(typ bson.Type, b []byte) int {
	prefix := func(at int) int64 {
		if len(b) < at+4 {
			return math.MaxInt32
		}
		return int64(int32(binary.LittleEndian.Uint32(b[at:])))
	}
	text := func() int {
		n := prefix(0)
		if n < 1 || 4+n > int64(len(b)) || b[3+n] != 0 {
			return -1
		}
		return int(4 + n)
	}
	if n := referenceFixed[typ]; n > 0 {
		return n - 1
	}
	switch typ {
	case 0x02, 0x0d, 0x0e:
		return text()
	case 0x03, 0x04:
		return int(max(prefix(0), -1))
	case 0x05:
		if n := prefix(0); n >= 0 && n+5 <= int64(len(b)) {
			return int(n + 5)
		}
	case 0x0b:
		if parts := bytes.SplitN(b, []byte{0}, 3); len(parts) == 3 {
			return len(parts[0]) + len(parts[1]) + 2
		}
	case 0x0c:
		if n := text(); n >= 0 {
			return n + 12
		}
	case 0x0f:
		if n := prefix(0); n >= 14 {
			return int(n)
		}
	}
	return -1
}

// judge decodes one mutant in every way and compares. The mutant lies between
// other bytes, so that reading past its end is not stopped by the slice.
// driver says whether to compare with the driver too, which is the slow part.
func judge(t testing.TB, mutant, around []byte, driver bool) {
	buf := append(append(append(around[:0:0], around...), mutant...), around...)
	in := buf[len(around) : len(around)+len(mutant)]
	v := bson.RawValue{Type: bson.TypeEmbeddedDocument, Value: in}

	d := NewDecoder(v)
	got := visitDecoder(d, nil)
	want, err := referenceWalk(mutant, 0, nil)
	if (d.err == nil) != (err == nil) {
		t.Fatalf("decoder says %v, reference says %v for % x", d.err, err, mutant)
	}
	if err == nil && !slices.Equal(got, want) {
		t.Fatalf("visited %v\nreference %v\nfor % x", got, want, mutant)
	}

	if _, err := DecodeParams(v, decodeInvoice); err != nil && err.Error() == "" {
		t.Fatalf("empty error for % x", mutant)
	}
	free, err := DecodeParams(v, (*Decoder).D)
	if err != nil || !driver {
		return
	}
	// What is accepted as a whole the driver accepts too, with the same result.
	var theirs bson.D
	if err := bson.Unmarshal(mutant, &theirs); err != nil {
		t.Fatalf("driver: %v for % x", err, mutant)
	}
	a, errA := bson.Marshal(free)
	b, errB := bson.Marshal(nullUndefined(theirs))
	if errA != nil || errB != nil || !bytes.Equal(a, b) {
		t.Fatalf("%v (%v)\ndriver %v (%v)\nfor % x", free, errA, theirs, errB, mutant)
	}
}

// nullUndefined replaces undefined, which the decoder gives as nil.
func nullUndefined(v any) any {
	switch v := v.(type) {
	case bson.Undefined:
		return nil
	case bson.D:
		for i := range v {
			v[i].Value = nullUndefined(v[i].Value)
		}
	case bson.A:
		for i := range v {
			v[i] = nullUndefined(v[i])
		}
	case bson.CodeWithScope:
		v.Scope = nullUndefined(v.Scope)
		return v
	}
	return v
}

// repaired sets the outer length, without which every mutant of another length
// would end at the first check.
func repaired(b []byte) []byte {
	if len(b) >= 4 {
		binary.LittleEndian.PutUint32(b, uint32(len(b)))
	}
	return b
}

func TestDecode_7_3_NoMutantPanicsOrLeavesItsParent(t *testing.T) {
	t.Parallel()
	seed := mutationSeed(t)
	around := bytes.Repeat([]byte{0xfe}, 8)
	mutants := 0
	try := func(b []byte) {
		mutants++
		judge(t, b, around, mutants%4 == 0)
	}
	try(seed)

	step := 1
	if raceEnabled {
		step = 7
	}
	scratch := make([]byte, 0, len(seed)+8)
	for i := range seed {
		for v := 0; v < 256; v += step {
			b := append(scratch[:0], seed...)
			b[i] = byte(v)
			try(b)
		}
		try(repaired(append(scratch[:0], seed[:i]...)))
		try(repaired(append(append(scratch[:0], seed[:i]...), seed[i+1:]...)))
		for _, v := range []byte{0, 1, 2, 3, 4, 5, 0x10, 0x7f, 0xff} {
			try(repaired(append(append(append(scratch[:0], seed[:i]...), v), seed[i:]...)))
		}
	}
	size := int32(len(seed))
	evil := []int32{
		math.MinInt32, math.MinInt32 + 1, -256, -5, -4, -1, 0, 1, 2, 3, 4, 5, 6, size - 1, size, size + 1,
		1 << 24, math.MaxInt32 - 5, math.MaxInt32 - 4, math.MaxInt32,
	}
	for i := range len(seed) - 3 {
		for _, v := range evil {
			b := append(scratch[:0], seed...)
			binary.LittleEndian.PutUint32(b[i:], uint32(v))
			try(b)
		}
		// Lengths that end just around the bytes that follow.
		for v := range int32(40) {
			b := append(scratch[:0], seed...)
			binary.LittleEndian.PutUint32(b[i:], uint32(v))
			try(b)
		}
	}
	t.Logf("%d mutants of %d bytes", mutants, len(seed))
}

// FuzzDecode looks further than the exhaustive test:
//
//	go test ./echoes -run - -fuzz FuzzDecode -fuzzminimizetime 5x
func FuzzDecode(f *testing.F) {
	f.Add(mutationSeed(f))
	b, err := bson.Marshal(sampleInvoice(f))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	around := bytes.Repeat([]byte{0xfe}, 8)
	f.Fuzz(func(t *testing.T, b []byte) {
		judge(t, repaired(bytes.Clone(b)), around, true)
	})
}
