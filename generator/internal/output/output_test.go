package output_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/matryer/is"

	"github.com/orionjs/orion-go/generator/internal/output"
)

func TestApply_7_2_WritesWholeFiles(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	path := filepath.Join(t.TempDir(), "echoes_gen.go")

	f := output.File{Path: path, Content: []byte("one")}
	is.Equal(f.Status(), output.Created)
	is.NoErr(output.Apply([]output.File{f}))

	is.NoErr(os.Chmod(path, 0o600))
	f = output.File{Path: path, Content: []byte("two"), Old: []byte("one")}
	is.Equal(f.Status(), output.Updated)
	is.NoErr(output.Apply([]output.File{f}))
	content, err := os.ReadFile(path)
	is.NoErr(err)
	is.Equal(string(content), "two")
	info, err := os.Stat(path)
	is.NoErr(err)
	is.Equal(info.Mode().Perm(), os.FileMode(0o600)) // who could read it stays as it was

	f = output.File{Path: path, Old: []byte("two")}
	is.Equal(f.Status(), output.Removed)
	is.NoErr(output.Apply([]output.File{f}))
	is.NoErr(output.Apply([]output.File{f})) // somebody else was faster
	entries, err := os.ReadDir(filepath.Dir(path))
	is.NoErr(err)
	is.Equal(len(entries), 0)

	f = output.File{Path: path}
	is.Equal(f.Status(), output.Unchanged)
	is.NoErr(output.Apply([]output.File{f}))
}

func TestApply_7_2_FailsWithoutLeftOvers(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	dir := t.TempDir()
	path := filepath.Join(dir, "echoes_gen.go")
	is.NoErr(os.Mkdir(path, 0o755)) // nothing can be renamed onto a folder
	is.True(output.Apply([]output.File{{Path: path, Content: []byte("x")}}) != nil)
	is.True(output.Apply([]output.File{{Path: filepath.Join(dir, "gone", "f"), Content: []byte("x")}}) != nil)
	entries, err := os.ReadDir(dir)
	is.NoErr(err)
	is.Equal(len(entries), 1)
}

// TestApply_7_2_AllOrNothing: a file that cannot be written keeps every other one
// from being written, removed or left in part.
func TestApply_7_2_AllOrNothing(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	dir := t.TempDir()
	for _, name := range []string{"old.go", "unneeded.go"} {
		is.NoErr(os.WriteFile(filepath.Join(dir, name), []byte("old"), 0o644))
	}
	err := output.Apply([]output.File{
		{Path: filepath.Join(dir, "unneeded.go"), Old: []byte("old")},
		{Path: filepath.Join(dir, "old.go"), Content: []byte("new"), Old: []byte("old")},
		{Path: filepath.Join(dir, "created.go"), Content: []byte("new")},
		{Path: filepath.Join(dir, "gone", "created.go"), Content: []byte("new")},
	})
	is.True(err != nil)
	entries, err := os.ReadDir(dir)
	is.NoErr(err)
	is.Equal(len(entries), 2)
	for _, e := range entries {
		content, err := os.ReadFile(filepath.Join(dir, e.Name()))
		is.NoErr(err)
		is.Equal(string(content), "old")
	}
}
