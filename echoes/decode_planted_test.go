package echoes

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/matryer/is"
)

// planted are faults in the cursor: an expression of decode.go each, and what
// stands there instead while the fault is on. Every one lets the cursor look where
// it must not, or lets something through.
var planted = []struct{ name, sound, faulty string }{
	{"a key may end behind its document", "textEnd(d.buf[start+1 : end])", "textEnd(d.buf[start+1:])"},
	{"a value may end behind its document", "size(t, d.buf[off:end])", "size(t, d.buf[off:])"},
	{"a value begins with the end of its key", "start + n + 2", "start + n + 1"},
	{"the payload may be longer than it says", "size(v.Type, v.Value) != len(v.Value)", "size(v.Type, v.Value) < 0"},
	{"a document may end with any byte", "d.buf[d.end-1] != 0", "false"},
	{"the closing byte may be a field", "start >= end", "start > end"},
	{"fields begin in the length", "d.off + 4", "d.off + 3"},
	{"a value may be longer than what is left", "n > len(b)", "false"},
	{"a length may be less than its own size", "int(n) < least", "n < 0"},
	{"a string may end with any byte", "n > 0 && n <= len(b)-4 && b[3+n] == 0", "n > 0 && n <= len(b)-4"},
	{"a string may be longer than what is left", "n > 0 && n <= len(b)-4 && b[3+n] == 0", "n > 0 && b[3+n] == 0"},
	{"binary data ends early", "m + 5", "m + 4"},
	{"a key ends with its first eight bytes", "bits.TrailingZeros64(zeros) / 8", "7"},
	{"a regex ends with its pattern", "i + j + 2", "i + 1"},
}

// TestDecode_7_3_PlantedFaultsAreFound shows that the exhaustive tests can fail:
// with each fault planted, that of the cursor fails, and that of the generated
// decoders. The faults are compiled into one binary, and an environment variable
// turns one on.
func TestDecode_7_3_PlantedFaultsAreFound(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		return // it compiles the package anew
	}
	is := is.New(t)
	dir := t.TempDir()
	overlay := plant(t, dir)
	cursor, generated := filepath.Join(dir, "cursor.test"), filepath.Join(dir, "generated.test")
	for binary, pkg := range map[string]string{cursor: ".", generated: "./internal/everykind"} {
		out, err := exec.Command("go", "test", "-c", "-overlay", overlay, "-o", binary, pkg).CombinedOutput()
		if err != nil {
			t.Fatalf("building with the faults: %v\n%s", err, out)
		}
	}
	fails := func(binary, test string, fault int) bool {
		cmd := exec.Command(binary, "-test.run", test, "-test.failfast")
		cmd.Env = append(os.Environ(), fmt.Sprintf("PLANTED_FAULT=%d", fault))
		cmd.Dir = filepath.Dir(binary)
		out, err := cmd.CombinedOutput()
		if err != nil && !strings.Contains(string(out), test) {
			t.Fatalf("fault %d: %v\n%s", fault, err, out)
		}
		return err != nil
	}
	is.True(!fails(cursor, "TestDecode_7_3_NoMutantPanicsOrLeavesItsParent", -1)) // without a fault
	for i, fault := range planted {
		if !fails(cursor, "TestDecode_7_3_NoMutantPanicsOrLeavesItsParent", i) {
			t.Errorf("no mutant shows the fault: %s", fault.name)
		}
		if !fails(generated, "TestDecode_7_3_NoMutantBreaksAGeneratedDecoder", i) {
			t.Errorf("no mutant of a generated decoder shows the fault: %s", fault.name)
		}
	}
}

// plant writes decode.go with all faults, and an overlay that puts it in the
// place of the real one.
func plant(t *testing.T, dir string) (overlay string) {
	t.Helper()
	is := is.New(t)
	content, err := os.ReadFile("decode.go")
	is.NoErr(err)
	source := string(content)
	places := make(map[string]string)
	for i, f := range planted {
		if strings.Count(source, f.sound) != 1 {
			t.Fatalf("decode.go has to have this once: %s", f.sound)
		}
		sound, ok := places[f.sound]
		if !ok {
			sound = f.sound
		}
		kind := "int"
		if strings.ContainsAny(f.sound, "<>=") {
			kind = "bool"
		}
		places[f.sound] = fmt.Sprintf("pickPlanted(%d, func() %s { return %s }, func() %[2]s { return %[4]s })", i, kind, f.faulty, sound)
	}
	for sound, switched := range places {
		source = strings.Replace(source, sound, switched, 1)
	}
	source = strings.Replace(source, "import (", "import (\n\t\"os\"\n\t\"strconv\"", 1) + `
var plantedFault = func() int { n, _ := strconv.Atoi(os.Getenv("PLANTED_FAULT")); return n }()

func pickPlanted[T any](fault int, faulty, sound func() T) T {
	if fault == plantedFault {
		return faulty()
	}
	return sound()
}
`
	here, err := os.Getwd()
	is.NoErr(err)
	faulty := filepath.Join(dir, "decode.go")
	is.NoErr(os.WriteFile(faulty, []byte(source), 0o600))
	config, err := json.Marshal(map[string]map[string]string{"Replace": {filepath.Join(here, "decode.go"): faulty}})
	is.NoErr(err)
	overlay = filepath.Join(dir, "overlay.json")
	is.NoErr(os.WriteFile(overlay, config, 0o600))
	return overlay
}
