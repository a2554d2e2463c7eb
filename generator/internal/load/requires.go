package load

import (
	"bytes"
	"os"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"

	"github.com/orionjs/orion-go/generator/internal/diag"
)

// NoteMissing notes modules without the one that generated code imports. A service
// whose methods take plain payloads compiles without it, until it is generated.
func NoteMissing(pkgs []*Package, module string, notes *diag.List) {
	seen := make(map[*packages.Module]bool)
	for _, p := range pkgs {
		m := p.Module
		if m == nil || seen[m] || m.Path == module || p.importsFrom(module) {
			continue
		}
		seen[m] = true
		content, err := os.ReadFile(m.GoMod)
		if err != nil || mentionsModule(content, module) {
			continue
		}
		notes.Add(goLine(m.GoMod), "note: generated code imports "+module+", which the module does not require", "run go get "+module)
	}
}

// mentionsModule reports whether a go.mod has the module among its words.
func mentionsModule(content []byte, module string) bool {
	for line := range bytes.Lines(content) {
		code, _, _ := strings.Cut(string(line), "//")
		if slices.Contains(strings.Fields(code), module) {
			return true
		}
	}
	return false
}

// importsFrom reports whether the package imports one of a module, which it then
// has, be it by a workspace.
func (p *Package) importsFrom(module string) bool {
	for path, q := range p.Imports {
		if (path == module || strings.HasPrefix(path, module+"/")) && len(q.GoFiles) > 0 {
			return true
		}
	}
	return false
}
