package apisurface_test

import (
	"errors"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/matryer/is"
	"golang.org/x/tools/go/packages"

	"github.com/orionjs/orion-go/internal/apisurface"
)

var update = flag.Bool("update", false, "write api/ anew")

// TestAPI_IsAsListed compares what each public package exports with its file under api/. A removed or changed line
// breaks programs of users; an added one is a promise.
func TestAPI_IsAsListed(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	loaded, err := packages.Load(&packages.Config{
		Mode: packages.NeedName | packages.NeedTypes | packages.NeedImports | packages.NeedFiles | packages.NeedSyntax | packages.NeedTypesInfo,
		Dir:  "../..",
	}, "./...")
	is.NoErr(err)
	listed, err := filepath.Glob("../../api/*.txt")
	is.NoErr(err)
	// Files that only the go command has looked at are unknown to the cache of go test.
	is.NoErr(filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && strings.HasPrefix(d.Name(), ".") && d.Name() != ".." {
			return fs.SkipDir
		}
		if err == nil && filepath.Ext(path) == ".go" {
			_, err = os.Stat(path)
		}
		return err
	}))
	left := map[string]bool{}
	for _, file := range listed {
		left[file] = true
	}
	for _, pkg := range loaded {
		path, ours := strings.CutPrefix(pkg.PkgPath, "github.com/orionjs/orion-go/")
		if !ours || pkg.Name == "main" || strings.Contains("/"+path+"/", "/internal/") || strings.HasPrefix(path, "examples/") {
			continue
		}
		for _, e := range pkg.Errors {
			t.Errorf("%s: %v", path, e)
		}
		got := apisurface.Of(pkg.Types)
		file := filepath.Join("../../api", strings.ReplaceAll(path, "/", ".")+".txt")
		delete(left, file)
		if *update {
			is.NoErr(os.WriteFile(file, []byte(got), 0o644)) //nolint:gosec // it is a source
			continue
		}
		want, err := os.ReadFile(file)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			is.NoErr(err)
		}
		if added, removed := differences(string(want), got); len(added)+len(removed) > 0 {
			t.Errorf("the API of %s is not as api/ lists it: if that is meant, run make api\n%s%s", path, mark("- ", removed), mark("+ ", added))
		}
	}
	for file := range left {
		if *update {
			is.NoErr(os.Remove(file))
		} else {
			t.Errorf("%s lists a package that is gone: run make api", filepath.Base(file))
		}
	}
}

// differences are the lines that one text has and the other has not.
func differences(was, now string) (added, removed []string) {
	in := func(text string) map[string]bool {
		lines := map[string]bool{}
		for line := range strings.Lines(text) {
			lines[strings.TrimSuffix(line, "\n")] = true
		}
		return lines
	}
	old := in(was)
	for line := range strings.Lines(now) {
		if line = strings.TrimSuffix(line, "\n"); !old[line] {
			added = append(added, line)
		}
	}
	present := in(now)
	for line := range strings.Lines(was) {
		if line = strings.TrimSuffix(line, "\n"); !present[line] {
			removed = append(removed, line)
		}
	}
	return added, removed
}

func mark(sign string, lines []string) string {
	text := ""
	for _, line := range lines {
		text += sign + line + "\n"
	}
	return text
}
