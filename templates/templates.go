// Package templates has the starter services that echoesgen init writes.
package templates

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"go/build"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"text/template"
)

//go:embed pulse migration
var files embed.FS

// suffix ends the name of every file in files: each is a template.
const suffix = ".tmpl"

// Template is a starter service.
type Template struct {
	// Name is the name of its folder in this package.
	Name string
	// About is what the service does, in a few words.
	About string
	// Run is the command that tries a rendered service, in its folder.
	Run string
}

// All returns the templates. The first is the default.
func All() []Template {
	return []Template{
		{"pulse", "handles events from Pulse, single and in batches", "go tool pulse dev -- go run . -publish 5"},
		{"migration", "moves its events from Kafka to Pulse, step by step", "go tool pulse dev --kafka -- go run . -publish 5"},
	}
}

// find returns the template of a name, "" being the default.
func find(name string) (Template, error) {
	var names []string
	for _, t := range All() {
		if name == "" || t.Name == name {
			return t, nil
		}
		names = append(names, t.Name)
	}
	return Template{}, fmt.Errorf("there is no template %q: choose one of %s", name, strings.Join(names, ", "))
}

// Service says which starter service to write and how to fill it in.
type Service struct {
	// Template is the name of a Template. Default: the first of All.
	Template string
	// Module is the path of the service's module. Default: the folder's name.
	Module string
	// Name is the consumer group and the name of the database. Default: the last
	// element of Module.
	Name string
}

var (
	validModule = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._~-]*(/[A-Za-z0-9_][A-Za-z0-9._~-]*)*$`)
	validName   = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_-]*$`)
	majorSuffix = regexp.MustCompile(`^v[0-9]+$`)
)

// Render writes a starter service into a folder, which must not exist or be
// empty, and returns its template and the files relative to the folder, sorted.
// Nothing is written when a name cannot be used.
func Render(dir string, s Service) (Template, []string, error) {
	t, err := find(s.Template)
	if err != nil {
		return t, nil, err
	}
	s, err = s.complete(dir)
	if err != nil {
		return t, nil, err
	}
	rendered, err := render(t.Name, s)
	if err != nil {
		return t, nil, err
	}
	names, err := write(dir, rendered)
	return t, names, err
}

// write writes the files and returns their names.
func write(dir string, rendered map[string][]byte) ([]string, error) {
	entries, err := os.ReadDir(dir)
	switch {
	case err == nil && len(entries) > 0:
		return nil, fmt.Errorf("the folder %s is not empty: choose a new one", dir)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("looking into the folder of the new service: %w", err)
	}
	var names []string
	for name := range rendered {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		target := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			return nil, fmt.Errorf("making the folder of the new service: %w", err)
		}
		if err := os.WriteFile(target, rendered[name], 0o644); err != nil {
			return nil, fmt.Errorf("writing the new service: %w", err)
		}
	}
	return names, nil
}

func (s Service) complete(dir string) (Service, error) {
	if s.Module == "" {
		s.Module = filepath.Base(dir)
	}
	if !validModule.MatchString(s.Module) {
		return s, fmt.Errorf("%q is not a module path: use letters, digits, dots, dashes and slashes, such as example.com/billing", s.Module)
	}
	if ofGo(s.Module) {
		return s, fmt.Errorf("the go command keeps %q for itself, so that a module of this path does not build: give another one with -module, such as example.com/billing", s.Module)
	}
	if s.Name == "" {
		s.Name = path.Base(s.Module)
		if majorSuffix.MatchString(s.Name) && s.Name != s.Module {
			s.Name = path.Base(path.Dir(s.Module))
		}
		// A database's name has no dots.
		s.Name = strings.Trim(strings.NewReplacer(".", "-", "~", "-").Replace(s.Name), "-")
	}
	if !validName.MatchString(s.Name) {
		return s, fmt.Errorf("%q is not a name for a service: use letters, digits, dashes and underscores", s.Name)
	}
	return s, nil
}

// ofGo reports whether a module path is one that the go command takes for
// something else: a package of the standard library, or one of its own words.
func ofGo(module string) bool {
	switch module {
	case "C", "all", "cmd", "go", "main", "std", "tool", "toolchain", "work":
		return true
	}
	if slices.Contains(strings.Split(module, "/"), "vendor") {
		return true
	}
	info, err := os.Stat(filepath.Join(build.Default.GOROOT, "src", filepath.FromSlash(module)))
	return build.Default.GOROOT != "" && err == nil && info.IsDir()
}

func render(root string, s Service) (map[string][]byte, error) {
	out := make(map[string][]byte)
	err := fs.WalkDir(files, root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := files.ReadFile(name)
		if err != nil {
			return err
		}
		t, err := template.New(name).Option("missingkey=error").Parse(string(text))
		if err != nil {
			return err
		}
		var b bytes.Buffer
		if err := t.Execute(&b, s); err != nil {
			return err
		}
		out[strings.TrimSuffix(strings.TrimPrefix(name, root+"/"), suffix)] = b.Bytes()
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("rendering the starter service: %w", err)
	}
	return out, nil
}
