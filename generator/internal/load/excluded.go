package load

import (
	"bytes"
	"go/ast"
	"go/build"
	"go/build/constraint"
	"go/parser"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Excluded is a file whose directives can have no effect.
type Excluded struct {
	Path string
	File *ast.File
	// Test says that it is a test file; otherwise its build constraints exclude
	// it from this build.
	Test bool
}

// mention is how a directive, or a slip of one, looks. It only saves parsing
// files that cannot hold any.
var mention = regexp.MustCompile(`(?i)//\s*echoes\s*:`)

// readExcluded reads the files of the folder that the package does not consist
// of: their directives are reported, and the names that they declare avoided.
// A file that does not parse is left to the compiler.
func (p *Package) readExcluded(c Config) {
	tests, err := filepath.Glob(filepath.Join(p.Dir, "*_test.go"))
	if err != nil {
		return // the folder's name is a malformed pattern
	}
	paths := append(tests, p.IgnoredFiles...)
	slices.Sort(paths)
	for _, path := range slices.Compact(paths) {
		if !strings.HasSuffix(path, ".go") {
			continue
		}
		src, err := os.ReadFile(path)
		if err != nil || c.generated(path, src) {
			continue
		}
		file, err := parser.ParseFile(p.Fset, path, src, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			continue
		}
		if file.Name.Name == p.Name {
			p.noteNames(file)
		}
		if mention.Match(src) {
			p.Excluded = append(p.Excluded, Excluded{Path: path, File: file, Test: strings.HasSuffix(path, "_test.go")})
		}
	}
}

// noteNames keeps the names that a file declares at package level, and those of
// its imports.
func (p *Package) noteNames(file *ast.File) {
	if p.declared == nil {
		p.declared, p.imported = make(map[string]bool), make(map[string]bool)
	}
	for _, decl := range file.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil {
				p.declared[d.Name.Name] = true
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch s := spec.(type) {
				case *ast.TypeSpec:
					p.declared[s.Name.Name] = true
				case *ast.ValueSpec:
					for _, name := range s.Names {
						p.declared[name.Name] = true
					}
				case *ast.ImportSpec:
					if s.Name != nil {
						p.imported[s.Name.Name] = true
					}
				}
			}
		}
	}
}

// Constraint returns what limits a file of the package to certain builds, such
// as "//go:build linux" or "the name orders_linux.go", or "" when every build
// has it. Generated code that calls a method of such a file does not compile in
// the other builds.
func Constraint(path string, file *ast.File) string {
	for _, group := range file.Comments {
		if group.Pos() > file.Package {
			break
		}
		for _, c := range group.List {
			if !constraint.IsGoBuild(c.Text) {
				continue
			}
			expr, err := constraint.Parse(c.Text)
			if err == nil && limits(expr) {
				return c.Text
			}
		}
	}
	if name := filepath.Base(path); limitingName(name) {
		return "the file name " + name
	}
	return ""
}

// limitingName reports whether a file's name keeps it out of some builds. With a
// platform that does not exist, no suffix matches.
func limitingName(name string) bool {
	ctx := build.Default
	ctx.GOOS, ctx.GOARCH = "none", "none"
	ctx.OpenFile = func(string) (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader([]byte("package p\n"))), nil
	}
	ok, err := ctx.MatchFile("", name)
	return err == nil && !ok
}

// limits reports whether an expression mentions anything but Go versions.
func limits(expr constraint.Expr) bool {
	switch x := expr.(type) {
	case *constraint.TagExpr:
		return !strings.HasPrefix(x.Tag, "go1.")
	case *constraint.NotExpr:
		return limits(x.X)
	case *constraint.AndExpr:
		return limits(x.X) || limits(x.Y)
	case *constraint.OrExpr:
		return limits(x.X) || limits(x.Y)
	}
	return false
}
