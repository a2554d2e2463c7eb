package load

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
)

// Old describes the generated file as it was found.
type Old struct {
	// Exists says that there is a file, and Content what it holds.
	Exists  bool
	Content []byte
	// Ours says that the file has the generator's header.
	Ours bool
	// Foreign says that the file was written by hand or by another tool: it
	// parses and lacks the generator's header. It must not be replaced.
	Foreign bool
	// Err is why the file could not be read.
	Err error
}

func readOld(path string) Old {
	content, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Old{}
	}
	if err != nil {
		return Old{Exists: true, Err: err}
	}
	return Old{Exists: true, Content: content, Ours: hasHeader(content), Foreign: foreign(content)}
}

// foreign reports whether content is somebody's work. A file that does not
// parse, such as one with conflict markers where the header was, holds nothing
// that the compiler would accept, and is replaced.
func foreign(content []byte) bool {
	if len(bytes.TrimSpace(content)) == 0 || hasHeader(content) {
		return false
	}
	_, err := parser.ParseFile(token.NewFileSet(), GeneratedFile, content, parser.SkipObjectResolution)
	return err == nil
}

func hasHeader(content []byte) bool {
	for line := range bytes.Lines(content) {
		if string(bytes.TrimSpace(line)) == Header {
			return true
		}
	}
	return false
}

// obstructing returns the generated files that keep the go command from listing
// their package: they say another package than their neighbours, or hold bytes at
// which it gives up looking for imports.
func obstructing(pkgs []*packages.Package) []string {
	var hidden []string
	for _, p := range pkgs {
		for _, e := range p.Errors {
			if e.Kind != packages.ListError {
				continue
			}
			misnamed := strings.Contains(e.Msg, "found packages ")
			unreadable := inGenerated(e) && importsLost(p)
			if !misnamed && !unreadable {
				continue
			}
			dir := packageDir(p, e.Msg)
			path := filepath.Join(dir, GeneratedFile)
			if old := readOld(path); dir == "" || !old.Exists || old.Foreign {
				continue
			}
			if !slices.Contains(hidden, path) {
				hidden = append(hidden, path)
			}
		}
	}
	return hidden
}

// overlayFile writes what the go command's -overlay flag takes. It serves better
// than the overlay of go/packages, with which every dependency would be checked
// from source.
func overlayFile(hidden []string) (path string, remove func(), err error) {
	var overlay struct{ Replace map[string]string }
	overlay.Replace = make(map[string]string)
	for _, file := range hidden {
		overlay.Replace[file] = "" // does not exist
	}
	content, err := json.Marshal(overlay)
	if err != nil {
		return "", nil, fmt.Errorf("hiding generated files: %w", err)
	}
	dir, err := os.MkdirTemp("", "echoesgen-")
	if err != nil {
		return "", nil, fmt.Errorf("hiding generated files: %w", err)
	}
	path = filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		return "", nil, errors.Join(fmt.Errorf("hiding generated files: %w", err), os.RemoveAll(dir))
	}
	// A file that cannot be removed is a small matter for the folder of temporary
	// files.
	return path, func() { _ = os.RemoveAll(dir) }, nil
}

// importsLost reports whether imports of a package were not looked for.
func importsLost(p *packages.Package) bool {
	for _, imported := range p.Imports {
		for _, e := range imported.Errors {
			if e.Kind == packages.ListError && len(imported.GoFiles) == 0 {
				return true
			}
		}
	}
	return false
}

// packageDir returns the folder of a package that the go command could not
// list. Its message ends with the folder.
func packageDir(p *packages.Package, msg string) string {
	if p.Dir != "" {
		return p.Dir
	}
	if i := strings.LastIndex(msg, " in "); i >= 0 {
		if dir := strings.TrimSpace(msg[i+len(" in "):]); filepath.IsAbs(dir) {
			return dir
		}
	}
	return ""
}
