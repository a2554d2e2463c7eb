package generator_test

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
)

var update = flag.Bool("update", false, "rewrite the golden parts of testdata")

// modulePath is the module that test sources live in.
const modulePath = "example.com/shop"

// module is a module of its own, beside the checkout that it uses.
type module struct {
	t   testing.TB
	dir string
}

// newModule makes an empty module that finds echoes in this checkout and
// everything else where the checkout finds it.
func newModule(t testing.TB) *module {
	t.Helper()
	checkout, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	m := &module{t, dir}
	gomod := m.read(filepath.Join(checkout, "go.mod"))
	_, rest, ok := strings.Cut(gomod, "\n")
	if !ok || !strings.HasPrefix(gomod, "module ") {
		t.Fatalf("go.mod of the checkout does not begin with its module: %q", gomod)
	}
	m.write("go.mod", "module "+modulePath+"\n"+withoutTools(rest)+
		"\nrequire github.com/orionjs/orion-go v0.0.0\nreplace github.com/orionjs/orion-go => "+checkout+"\n")
	m.write("go.sum", m.read(filepath.Join(checkout, "go.sum")))
	return m
}

// withoutTools drops the tool lines of a go.mod: tools of the checkout are none
// of the module's.
func withoutTools(gomod string) string {
	var out []string
	inTools := false
	for line := range strings.Lines(gomod) {
		switch {
		case strings.HasPrefix(line, "tool ("):
			inTools = true
		case inTools:
			inTools = !strings.HasPrefix(line, ")")
		case !strings.HasPrefix(line, "tool "):
			out = append(out, line)
		}
	}
	return strings.Join(out, "")
}

// env keeps the settings of the surroundings away: flags, workspaces and any
// search for modules, which all are in go.mod.
func (m *module) env() []string {
	return append(os.Environ(), "GOFLAGS=", "GOWORK=off", "GOPROXY=off", "PWD="+m.dir)
}

func (m *module) read(path string) string {
	m.t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		m.t.Fatal(err)
	}
	return string(content)
}

func (m *module) write(name, content string) {
	m.t.Helper()
	path := filepath.Join(m.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		m.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		m.t.Fatal(err)
	}
}

// files returns the content of every file in the module.
func (m *module) files() map[string]string {
	m.t.Helper()
	out := make(map[string]string)
	err := filepath.WalkDir(m.dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			out[path] = m.read(path)
		}
		return err
	})
	if err != nil {
		m.t.Fatal(err)
	}
	return out
}

// run runs the go command in the module and returns what it prints.
func (m *module) run(args ...string) (string, error) {
	cmd := exec.Command("go", args...)
	cmd.Dir, cmd.Env = m.dir, m.env()
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// scenario is one txtar file: a folder of sources, and what is expected, in
// files whose names begin with want.
type scenario struct {
	name, path string
	archive    *txtar.Archive
}

// scenarios reads a folder of testdata and puts the sources of every scenario
// into a folder of the module that is named like it, so that one load covers
// all.
func (m *module) scenarios(folder string) []*scenario {
	m.t.Helper()
	paths, err := filepath.Glob(filepath.Join("testdata", folder, "*.txtar"))
	if err != nil || len(paths) == 0 {
		m.t.Fatalf("no scenarios in testdata/%s: %v", folder, err)
	}
	var out []*scenario
	for _, path := range paths {
		archive, err := txtar.ParseFile(path)
		if err != nil {
			m.t.Fatal(err)
		}
		s := &scenario{strings.TrimSuffix(filepath.Base(path), ".txtar"), path, archive}
		for _, f := range archive.Files {
			if !isGolden(f.Name) {
				m.write(filepath.Join(s.name, f.Name), string(f.Data))
			}
		}
		out = append(out, s)
	}
	return out
}

func isGolden(name string) bool { return name == "want" || strings.HasPrefix(name, "want/") }

// golden returns the expected files of a scenario by name.
func (s *scenario) golden() map[string]string {
	out := make(map[string]string)
	for _, f := range s.archive.Files {
		if isGolden(f.Name) {
			out[f.Name] = string(f.Data)
		}
	}
	return out
}

// setGolden replaces the expected files and writes the scenario back.
func (s *scenario) setGolden(t *testing.T, files []txtar.File) {
	t.Helper()
	var kept []txtar.File
	for _, f := range s.archive.Files {
		if !isGolden(f.Name) {
			kept = append(kept, f)
		}
	}
	s.archive.Files = append(kept, files...)
	if err := os.WriteFile(s.path, txtar.Format(s.archive), 0o644); err != nil {
		t.Fatal(err)
	}
}
