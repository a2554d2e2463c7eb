package generator_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/matryer/is"
	"golang.org/x/tools/txtar"

	"github.com/orionjs/orion-go/generator"
)

// TestGenerate_7_2_Golden generates for every scenario at once, compares each
// generated file with the expected one, and then compiles, vets and tests all of
// them.
func TestGenerate_7_2_Golden(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	m := newModule(t)
	scenarios := append(m.scenarios("ok"), m.scenarios("pains")...)

	result, err := generator.Generate(generator.Config{Dir: m.dir, Patterns: []string{"./..."}, Env: m.env()})
	is.NoErr(err)
	got := make(map[string][]txtar.File)
	for _, f := range result.Files {
		is.Equal(f.Status, generator.Created)
		name, rest, _ := strings.Cut(filepath.ToSlash(f.Path), "/")
		content, err := os.ReadFile(filepath.Join(m.dir, f.Path))
		is.NoErr(err)
		got[name] = append(got[name], txtar.File{Name: "want/" + rest, Data: content})
	}
	for _, s := range scenarios {
		t.Run(s.name, func(t *testing.T) {
			if *update {
				s.setGolden(t, got[s.name])
				return
			}
			want := s.golden()
			if len(want) != len(got[s.name]) {
				t.Errorf("%d files were generated, want %d", len(got[s.name]), len(want))
			}
			for _, f := range got[s.name] {
				if want[f.Name] != string(f.Data) {
					t.Errorf("%s differs: %s\nrun go test ./generator -update and look at the change", f.Name, firstDifference(string(f.Data), want[f.Name]))
				}
			}
		})
	}

	t.Run("gofmt", func(t *testing.T) {
		is := is.New(t)
		var paths []string
		for _, f := range result.Files {
			paths = append(paths, f.Path)
		}
		out, err := m.run(append([]string{"run", "cmd/gofmt", "-s", "-l"}, paths...)...)
		is.NoErr(err)
		is.Equal(out, "")
	})
	t.Run("compile", func(t *testing.T) {
		out, err := m.run("vet", "-structtag=false", "-composites=false", "./...")
		if err != nil {
			t.Fatalf("the generated code does not compile or vet:\n%s", out)
		}
		out, err = m.run("test", "-vet=off", "-ldflags=-s -w", "./...")
		if err != nil {
			t.Fatalf("the tests in the scenarios fail:\n%s", out)
		}
	})
	t.Run("unchanged", func(t *testing.T) {
		is := is.New(t)
		// With the first output in place, and again: an order that a map decides shows.
		for range 2 {
			again, err := m.check()
			is.NoErr(err)
			is.Equal(len(again.Files), len(result.Files))
			is.Equal(again.Stale(), nil)
		}
	})
}

// TestGenerate_7_4_Notes compares what a run notes, without refusing anything, with
// the expected notes of each scenario.
func TestGenerate_7_4_Notes(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	m := newModule(t)
	scenarios := m.scenarios("notes")
	before := m.files()
	result, err := m.generate()
	is.NoErr(err)
	got := make(map[string]string)
	for _, note := range result.Notes {
		name, rest, _ := strings.Cut(filepath.ToSlash(note.String()), "/")
		got[name] += rest + "\n"
	}
	for _, s := range scenarios {
		t.Run(s.name, func(t *testing.T) {
			if *update {
				s.setGolden(t, []txtar.File{{Name: "want", Data: []byte(got[s.name])}})
			} else if want := s.golden()["want"]; got[s.name] != want {
				t.Errorf("%s", firstDifference(got[s.name], want))
			}
		})
	}
	// What is passed over keeps its file, and what is not has one.
	after := m.files()
	former := filepath.Join(m.dir, "unrelated", "former", "echoes_gen.go")
	is.Equal(after[former], before[former])
	_, ok := after[filepath.Join(m.dir, "unrelated", "page", "echoes_gen.go")]
	is.True(ok)
}

// firstDifference shows the first line in which two texts differ.
func firstDifference(got, want string) string {
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range max(len(g), len(w)) {
		var a, b string
		if i < len(g) {
			a = g[i]
		}
		if i < len(w) {
			b = w[i]
		}
		if a != b || i >= len(g) || i >= len(w) {
			return fmt.Sprintf("line %d\ngot  %s\nwant %s", i+1, a, b)
		}
	}
	return "no difference"
}

// TestGenerate_7_4_Diagnostics runs the generator over all wrong scenarios at
// once, and compares the problems of each with the expected ones.
func TestGenerate_7_4_Diagnostics(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	m := newModule(t)
	scenarios := m.scenarios("bad")
	before := m.files()

	_, err := generator.Generate(generator.Config{Dir: m.dir, Patterns: []string{"./..."}, Env: m.env()})
	var source *generator.SourceError
	is.True(errors.As(err, &source))
	got := make(map[string]string)
	for _, d := range source.Diagnostics {
		name, rest, _ := strings.Cut(filepath.ToSlash(d.String()), "/")
		got[name] += rest + "\n"
	}
	for _, s := range scenarios {
		t.Run(s.name, func(t *testing.T) {
			if *update {
				s.setGolden(t, []txtar.File{{Name: "want", Data: []byte(got[s.name])}})
				return
			}
			if want := s.golden()["want"]; got[s.name] != want {
				t.Errorf("%s", firstDifference(got[s.name], want))
			}
			delete(got, s.name)
		})
	}
	if !*update && len(got) > 0 {
		t.Errorf("problems outside the scenarios: %v", got)
	}

	sorted := slices.IsSortedFunc(source.Diagnostics, func(a, b generator.Diagnostic) int {
		if a.File != b.File {
			return strings.Compare(a.File, b.File)
		}
		return a.Line - b.Line
	})
	is.True(sorted)

	// Nothing is written in any package, also where a package has no problem.
	after := m.files()
	is.Equal(len(after), len(before))
	for path, content := range before {
		if after[path] != content {
			t.Errorf("%s was changed", path)
		}
	}
}
