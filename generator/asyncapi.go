package generator

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/orionjs/orion-go/generator/internal/asyncapi"
	"github.com/orionjs/orion-go/generator/internal/output"
	"github.com/orionjs/orion-go/generator/internal/resolve"
)

// Document says how a service is described.
type Document struct {
	// Title names the application. Default: the last element of the module's path.
	Title string
	// Version is that of the application, whatever its form. Default: "0.0.0".
	Version string
	// JSON asks for JSON instead of YAML.
	JSON bool
	// File, when set, is where the document is written, relative to Config.Dir: as a
	// whole, and only when it changed.
	File string
}

// Description is a document, and what happened to its file.
type Description struct {
	// Content is the document.
	Content []byte
	// Path is that of the file, relative to Config.Dir when it lies below it, and
	// Status what was done with it, or would be with Config.Check. Both are empty
	// without Document.File.
	Path   string
	Status Status
	// Listeners and Topics are how many listeners and types with a topic are
	// described, in how many packages.
	Listeners, Topics, Packages int
	// Notes are those of Result.
	Notes []Diagnostic
}

// AsyncAPI describes the topics of all listeners in the packages, and those of
// types with a topic, with their payloads, as an AsyncAPI 3 document. It comes from
// the same model as the generated code, and writes no code. Errors are those of
// Generate.
func AsyncAPI(cfg Config, doc Document) (Description, error) {
	cfg, err := cfg.complete()
	if err != nil {
		return Description{}, err
	}
	r, err := read(cfg)
	if err != nil {
		return Description{}, err
	}
	if r.problems.Len() > 0 {
		return Description{}, &SourceError{r.problems.Sorted(cfg.Dir)}
	}
	out := Description{Listeners: r.listeners, Topics: r.topics, Packages: len(r.set.Packages), Notes: r.notes.Sorted(cfg.Dir)}
	var models []*resolve.Package
	for _, p := range r.packages {
		if p.model != nil {
			models = append(models, p.model)
		}
	}
	info := asyncapi.Info{Title: doc.Title, Version: doc.Version}
	if info.Title == "" && len(r.set.Packages) > 0 {
		info.Title = path.Base(r.set.Packages[0].Module.Path)
	}
	if info.Version == "" {
		info.Version = "0.0.0"
	}
	write := asyncapi.YAML
	if doc.JSON {
		write = asyncapi.JSON
	}
	if out.Content, err = write(info, models); err != nil || doc.File == "" {
		return out, err
	}
	return out, out.write(cfg, doc.File)
}

// write brings the document onto the disk.
func (d *Description) write(cfg Config, name string) error {
	f := output.File{Path: name, Content: d.Content}
	if !filepath.IsAbs(name) {
		f.Path = filepath.Join(cfg.Dir, name)
	}
	old, err := os.ReadFile(f.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return fmt.Errorf("reading the old document: %w", err)
	case !isDocument(old):
		return fmt.Errorf("%s is no AsyncAPI document, and would be replaced: name another file, or delete it", name)
	default:
		f.Old = append([]byte{}, old...)
	}
	d.Path, d.Status = name, f.Status()
	if cfg.Check {
		return nil
	}
	return output.Apply([]output.File{f})
}

// isDocument reports whether a file begins as the documents do that are written
// here. Only such a file, or an empty one, is replaced.
func isDocument(content []byte) bool {
	content = bytes.TrimSpace(content)
	for _, begin := range []string{"asyncapi:", "{\n  \"asyncapi\":"} {
		if strings.HasPrefix(strings.ReplaceAll(string(content), "\r\n", "\n"), begin) {
			return true
		}
	}
	return len(content) == 0
}
