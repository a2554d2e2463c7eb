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
	is.NoErr(f.Apply())

	is.NoErr(os.Chmod(path, 0o600))
	f = output.File{Path: path, Content: []byte("two"), Old: []byte("one")}
	is.Equal(f.Status(), output.Updated)
	is.NoErr(f.Apply())
	content, err := os.ReadFile(path)
	is.NoErr(err)
	is.Equal(string(content), "two")
	info, err := os.Stat(path)
	is.NoErr(err)
	is.Equal(info.Mode().Perm(), os.FileMode(0o600)) // who could read it stays as it was

	f = output.File{Path: path, Old: []byte("two")}
	is.Equal(f.Status(), output.Removed)
	is.NoErr(f.Apply())
	is.NoErr(f.Apply()) // somebody else was faster
	entries, err := os.ReadDir(filepath.Dir(path))
	is.NoErr(err)
	is.Equal(len(entries), 0)

	f = output.File{Path: path}
	is.Equal(f.Status(), output.Unchanged)
	is.NoErr(f.Apply())
}

func TestApply_7_2_FailsWithoutLeftOvers(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	dir := t.TempDir()
	path := filepath.Join(dir, "echoes_gen.go")
	is.NoErr(os.Mkdir(path, 0o755)) // nothing can be renamed onto a folder
	is.True(output.File{Path: path, Content: []byte("x")}.Apply() != nil)
	is.True(output.File{Path: filepath.Join(dir, "gone", "f"), Content: []byte("x")}.Apply() != nil)
	entries, err := os.ReadDir(dir)
	is.NoErr(err)
	is.Equal(len(entries), 1)
}
