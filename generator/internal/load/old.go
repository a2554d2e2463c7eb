package load

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/tools/go/packages"
)

// Old describes the generated file as it was found.
type Old struct {
	// Exists says that there is a file, and Content what it holds.
	Exists  bool
	Content []byte
	// Ours says that the file has the generator's header.
	Ours bool
	// Foreign says that somebody else's work stands under the name: text without
	// the generator's header, or a folder. It must not be replaced.
	Foreign bool
	// Err is why the file could not be read.
	Err error
}

func readOld(path string) Old {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return Old{Foreign: true}
	}
	content, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Old{}
	}
	if err != nil {
		return Old{Exists: true, Err: err}
	}
	return Old{Exists: true, Content: content, Ours: hasHeader(content), Foreign: foreign(content)}
}

// foreign reports whether content is somebody's work. That need not parse: only
// what a merge or a broken disk can leave of a generated file without its header
// is replaced, which is conflict markers, bytes that are no text, and nothing.
func foreign(content []byte) bool {
	text := len(bytes.TrimSpace(content)) > 0 && utf8.Valid(content) && bytes.IndexByte(content, 0) < 0
	return text && !hasHeader(content) && !conflict.Match(content)
}

var conflict = regexp.MustCompile(`(?m)^(<<<<<<<|>>>>>>>)( |\r?$)`)

// obstructing returns the generated files that keep the go command from listing
// their package: they say another package than their neighbours, or hold bytes at
// which it gives up looking for imports.
func (c Config) obstructing(pkgs []*packages.Package) []string {
	var hidden []string
	for _, p := range pkgs {
		for _, e := range p.Errors {
			if e.Kind != packages.ListError {
				continue
			}
			misnamed := strings.Contains(e.Msg, "found packages ")
			unreadable := c.inGenerated(e) && importsLost(p)
			dir := packageDir(p, e.Msg)
			if !misnamed && !unreadable || dir == "" {
				continue
			}
			for _, path := range c.generatedIn(dir) {
				if old := readOld(path); old.Exists && !old.Foreign && !slices.Contains(hidden, path) {
					hidden = append(hidden, path)
				}
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
