package everykind

import (
	"encoding/binary"
	"strings"
	"testing"

	"github.com/matryer/is"

	"github.com/orionjs/orion-go/echoes"
)

// nested is a document in a document, and so on, under the keys in turn.
func nested(depth int, keys ...string) []byte {
	b := []byte{5, 0, 0, 0, 0}
	for i := range depth {
		key := keys[(depth-1-i)%len(keys)]
		outer := append(append([]byte{0, 0, 0, 0, 3}, key...), 0)
		b = append(append(outer, b...), 0)
		binary.LittleEndian.PutUint32(b, uint32(len(b)))
	}
	return b
}

// TestDecode_7_3_DepthBombs: recursive types and free values end at a depth, while
// what is skipped costs nothing.
func TestDecode_7_3_DepthBombs(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	for _, keys := range [][]string{{"tree", "parent"}, {"any"}, {"raw"}, {"rawvalue"}, {"m"}, {"d"}, {"page", "next"}} {
		if keys[0] == "tree" || keys[0] == "page" {
			b := nested(150, append([]string{keys[0]}, repeat(keys[1], 149)...)...)
			_, err := echoes.DecodeParams(document(b), decodeShared)
			is.NoErr(err)
			keys = append([]string{keys[0]}, repeat(keys[1], 999)...)
		}
		_, err := echoes.DecodeParams(document(nested(1000, keys...)), decodeShared)
		if err == nil || !strings.Contains(err.Error(), "nested deeper than 200 levels") {
			t.Errorf("%s: got %v", keys[0], err)
		}
	}
	_, err := echoes.DecodeParams(document(nested(1000, "json")), decodeForeign)
	is.True(err != nil && strings.Contains(err.Error(), "nested deeper than 200 levels"))
	_, err = echoes.DecodeParams(document(nested(5000, "unknown")), decodeShared)
	is.NoErr(err)
}

func repeat(s string, n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = s
	}
	return out
}
