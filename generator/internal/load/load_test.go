package load_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/matryer/is"

	"github.com/orionjs/orion-go/generator/internal/diag"
	"github.com/orionjs/orion-go/generator/internal/load"
)

// TestLoad_7_4_ToolOlderThanModule: a generator that was built with an older Go
// than the module needs would misread it, and says which line of go.mod asks for
// more. A later or a development version reads all.
func TestLoad_7_4_ToolOlderThanModule(t *testing.T) {
	t.Parallel()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{
		"go.mod": "module example.com/shop\n\ngo 1.25.3\n",
		"a.go":   "package shop\n",
		"b/b.go": "package b\n",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for tool, want := range map[string]string{
		"go1.24.9":                "go.mod:3:1: the module needs go1.25.3, and echoesgen was built with go1.24.9, which does not know all of it (build it with the later Go: run go tool echoesgen, or install echoesgen again)",
		"go1.24.9 X:nocoverage":   "go.mod:3:1: the module needs go1.25.3, and echoesgen was built with go1.24.9, which does not know all of it (build it with the later Go: run go tool echoesgen, or install echoesgen again)",
		"go1.25.0":                "",
		"go1.26.1":                "",
		"devel go1.30-0123456789": "",
	} {
		t.Run(tool, func(t *testing.T) {
			is := is.New(t)
			var problems, notes diag.List
			_, err := load.Load(load.Config{
				Dir: dir, Patterns: []string{"./..."}, ToolVersion: tool,
				Env: append(os.Environ(), "GOFLAGS=", "GOWORK=off", "GOPROXY=off"),
			}, &problems, &notes)
			is.NoErr(err)
			got := ""
			for _, d := range problems.Sorted(dir) {
				got += d.String()
			}
			is.Equal(got, want)
		})
	}
}
