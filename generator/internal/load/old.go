package load

import (
	"bytes"
	"errors"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
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

// obstructing returns an overlay of empty files for generated files that keep the
// go command from listing their package: they say another package than their
// neighbours, or hold bytes at which it gives up looking for imports.
func obstructing(pkgs []*packages.Package) map[string][]byte {
	overlay := make(map[string][]byte)
	for _, p := range pkgs {
		for _, e := range p.Errors {
			if e.Kind != packages.ListError {
				continue
			}
			misnamed := strings.Contains(e.Msg, "found packages ")
			unreadable := filepath.Base(parsePos(e.Pos).Filename) == GeneratedFile && importsLost(p)
			if !misnamed && !unreadable {
				continue
			}
			dir := packageDir(p, e.Msg)
			path := filepath.Join(dir, GeneratedFile)
			old := readOld(path)
			if dir == "" || !old.Exists || old.Foreign {
				continue
			}
			if name := neighboursPackage(dir); name != "" && (unreadable || name != packageClause(path)) {
				overlay[path] = []byte("package " + name + "\n")
			}
		}
	}
	return overlay
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

// neighboursPackage returns the package name that the other files of a folder
// agree on, or "" when they do not.
func neighboursPackage(dir string) string {
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return ""
	}
	name := ""
	for _, path := range files {
		if filepath.Base(path) == GeneratedFile || strings.HasSuffix(path, "_test.go") {
			continue
		}
		clause := packageClause(path)
		if clause == "" || name != "" && name != clause {
			return ""
		}
		name = clause
	}
	return name
}

func packageClause(path string) string {
	f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.PackageClauseOnly)
	if err != nil || f.Name == nil {
		return ""
	}
	return f.Name.Name
}
