// Package templates has the starter service that echoesgen init writes.
package templates

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"text/template"
)

//go:embed service
var files embed.FS

// root is the folder of the starter service in files. Every file in it is a
// template and ends with suffix.
const (
	root   = "service"
	suffix = ".tmpl"
)

// Service says how to fill the starter service in.
type Service struct {
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

// Render writes the starter service into a folder, which must not exist or be
// empty, and returns the files relative to it, sorted. Nothing is written when a
// name cannot be used.
func Render(dir string, s Service) ([]string, error) {
	s, err := s.complete(dir)
	if err != nil {
		return nil, err
	}
	rendered, err := render(s)
	if err != nil {
		return nil, err
	}
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

func render(s Service) (map[string][]byte, error) {
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
