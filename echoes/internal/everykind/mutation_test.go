package everykind

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"testing"
	"unicode"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/orionjs/orion-go/echoes"
)

// decoding tries one generated decoder on bytes.
type decoding struct {
	name string
	// run takes the bytes, and whether to ask the driver too, which is slow. It
	// returns the decoder's error.
	run func(t testing.TB, b []byte, driver bool) error
}

var decodings = []decoding{
	{"Foreign", func(t testing.TB, b []byte, _ bool) error {
		_, err := judge(t, b, decodeForeign)
		return err
	}},
	{"Checked", func(t testing.TB, b []byte, _ bool) error {
		_, err := judge(t, b, decodeChecked)
		return err
	}},
	{"Shared", func(t testing.TB, b []byte, driver bool) error {
		got, err := judge(t, b, decodeShared)
		if !driver || err != nil || capitals(b) {
			return err
		}
		switch theirs, err := unmarshal(b); {
		case errors.Is(err, errPanic):
		case err == nil:
			if d := difference(got, theirs); d != "" {
				t.Fatalf("ours and the driver's: %s\nfor % x", d, b)
			}
		case widerThanDriver(err) == "":
			t.Fatalf("only ours accepts: %v\nfor % x", err, b)
		}
		return nil
	}},
}

var errPanic = errors.New("the driver panics")

// unmarshal is the driver's decoding. It panics on a list that is there twice, as
// in {"a": [null], "a": [1]} for a bson.A.
func unmarshal(b []byte) (p Shared, err error) {
	defer func() {
		if recover() != nil {
			err = errPanic
		}
	}()
	err = bson.Unmarshal(b, &p)
	return p, err
}

// judge decodes b twice, between different bytes and with strings of both kinds. The
// results must be the same: whatever a decoder reads beyond b would show, since the slice does not stop it.
// What is accepted must be sound at least as far as every decoder looks, by an
// independent walk.
func judge[T any](t testing.TB, b []byte, decode func(*echoes.Decoder, *T)) (T, error) {
	var (
		first T
		err   error
	)
	for i, around := range [][]byte{bytes.Repeat([]byte{0xfe}, 8), {5, 0, 0, 0, 0, 1, 'a', 0}} {
		buf := append(append(append([]byte{}, around...), b...), around...)
		got, problem := echoes.DecodeParams(document(buf[len(around):len(around)+len(b)]), func(d *echoes.Decoder, p *T) {
			if i > 0 {
				d.ZeroCopy()
			}
			decode(d, p)
		})
		if i == 0 {
			first, err = got, problem
			continue
		}
		if (err == nil) != (problem == nil) || err != nil && err.Error() != problem.Error() {
			t.Fatalf("%v and %v, by the bytes around or ZeroCopy % x", err, problem, b)
		}
		if d := difference(got, first); err == nil && d != "" {
			t.Fatalf("the result depends on the bytes around or ZeroCopy: %s\nfor % x", d, b)
		}
	}
	if err == nil && !sound(b) {
		t.Fatalf("accepted % x", b)
	}
	return first, err
}

// sound reports whether the fields of the document that is all of b lie in it.
func sound(b []byte) bool {
	if len(b) < 5 || int(int32(binary.LittleEndian.Uint32(b))) != len(b) || b[len(b)-1] != 0 {
		return false
	}
	for rest := b[4 : len(b)-1]; len(rest) > 0; {
		_, value, found := bytes.Cut(rest[1:], []byte{0})
		if !found {
			return false
		}
		n := length(rest[0], value)
		if n < 0 || n > int64(len(value)) {
			return false
		}
		rest = value[n:]
	}
	return true
}

// length is the size of a value, -1 when there is none.
func length(typ byte, b []byte) int64 {
	prefix := int64(-1)
	if len(b) >= 4 {
		prefix = int64(int32(binary.LittleEndian.Uint32(b)))
	}
	text := func() int64 {
		if prefix < 1 || prefix+4 > int64(len(b)) || b[prefix+3] != 0 {
			return math.MinInt32
		}
		return prefix + 4
	}
	switch typ {
	case 0x06, 0x0a, 0x7f, 0xff:
		return 0
	case 0x08:
		return 1
	case 0x10:
		return 4
	case 0x01, 0x09, 0x11, 0x12:
		return 8
	case 0x07:
		return 12
	case 0x13:
		return 16
	case 0x02, 0x0d, 0x0e:
		return text()
	case 0x0c:
		return text() + 12
	case 0x03, 0x04, 0x0f:
		return prefix
	case 0x05:
		if prefix < 0 {
			return -1
		}
		return prefix + 5
	case 0x0b:
		if parts := bytes.SplitN(b, []byte{0}, 3); len(parts) == 3 {
			return int64(len(parts[0]) + len(parts[1]) + 2)
		}
	}
	return -1
}

// documents are small documents that together have every field of a sample:
// mutants cost by the square of the length.
func documents(t testing.TB) map[string][][]byte {
	required, err := bson.Raw(marshal(t, sampleChecked()[:2])).Elements()
	if err != nil {
		t.Fatal(err)
	}
	out := make(map[string][][]byte)
	for name, sample := range map[string]any{"Shared": sampleShared(t), "Foreign": sampleForeign(t), "Checked": sampleChecked()} {
		elements, err := bson.Raw(marshal(t, sample)).Elements()
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range elements {
			b := append(make([]byte, 4), e...)
			for _, r := range required {
				if name == "Checked" && e.Key() != r.Key() {
					b = append(b, r...)
				}
			}
			out[name] = append(out[name], repaired(append(b, 0)))
		}
	}
	return out
}

// repaired sets the outer length, without which most mutants would end at the
// first check.
func repaired(b []byte) []byte {
	if len(b) >= 4 {
		binary.LittleEndian.PutUint32(b, uint32(len(b)))
	}
	return b
}

func TestDecode_7_3_NoMutantBreaksAGeneratedDecoder(t *testing.T) {
	t.Parallel()
	seeds := documents(t)
	for _, d := range decodings {
		if t.Failed() {
			break // one is enough, and quick
		}
		t.Run(d.name, func(t *testing.T) {
			mutants := 0
			for _, seed := range seeds[d.name] {
				if err := d.run(t, seed, true); err != nil {
					t.Fatalf("%v\nfor % x", err, seed) // mutants of what is refused prove little
				}
				mutate(seed, func(b []byte) {
					mutants++
					_ = d.run(t, b, mutants%4 == 0)
				})
			}
			t.Logf("%d mutants of %d documents", mutants, len(seeds[d.name]))
		})
	}
}

// mutate tries every other byte at every place, every truncation, every
// deletion, some insertions and lengths of evil at every place.
func mutate(seed []byte, try func([]byte)) {
	step := 1
	if raceEnabled {
		step = 11
	}
	for i := range seed {
		for v := 0; v < 256; v += step {
			b := bytes.Clone(seed)
			b[i] = byte(v)
			try(b)
		}
		try(bytes.Clone(seed[:i]))
		try(repaired(bytes.Clone(seed[:i])))
		try(repaired(append(bytes.Clone(seed[:i]), seed[i+1:]...)))
		for _, v := range []byte{0, 1, 2, 5, 0x10, 0xff} {
			try(repaired(append(append(bytes.Clone(seed[:i]), v), seed[i:]...)))
		}
	}
	size := int32(len(seed))
	for i := range len(seed) - 3 {
		for _, v := range []int32{math.MinInt32, -5, -1, 0, 1, 4, 5, size - i32(i), size - i32(i) - 1, size - i32(i) - 4, size, 1 << 24, math.MaxInt32 - 4, math.MaxInt32} {
			b := bytes.Clone(seed)
			binary.LittleEndian.PutUint32(b[i:], uint32(v))
			try(b)
		}
	}
}

func i32(i int) int32 { return int32(i) }

// FuzzGenerated looks further than the exhaustive test; see make fuzz.
func FuzzGenerated(f *testing.F) {
	for _, seeds := range documents(f) {
		for _, seed := range seeds {
			f.Add(seed)
		}
	}
	f.Add(marshal(f, sampleShared(f)))
	f.Fuzz(func(t *testing.T, b []byte) {
		b = repaired(bytes.Clone(b))
		for _, d := range decodings {
			_ = d.run(t, b, true)
		}
	})
}

// capitals reports whether a byte of b could be a capital letter of a key: the
// driver finds fields by any capitals, we by those that publishers write.
func capitals(b []byte) bool { return bytes.ContainsFunc(b, unicode.IsUpper) }
