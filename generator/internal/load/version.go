package load

import (
	"bytes"
	"fmt"
	"go/token"
	"go/version"
	"os"
	"runtime"
	"strings"

	"github.com/orionjs/orion-go/generator/internal/diag"
)

// checkToolVersion refuses modules that are written for a later Go than the one
// that this program was built with: its parser and type checker do not know what
// that release added, and would misread it or complain about correct code.
func (s *Set) checkToolVersion(cfg Config, problems *diag.List) {
	tool := cfg.ToolVersion
	if tool == "" {
		tool = runtime.Version()
	}
	tool, _, _ = strings.Cut(tool, " ") // "go1.26.1 X:jsonv2" is built with experiments
	if !version.IsValid(tool) {
		return // a development version knows what is to come
	}
	for _, p := range s.Packages {
		m := p.Module
		needs := "go" + m.GoVersion
		if m.GoVersion == "" || version.Compare(version.Lang(needs), version.Lang(tool)) <= 0 {
			continue
		}
		problems.Add(goLine(m.GoMod), fmt.Sprintf("the module needs %s, and echoesgen was built with %s, which does not know all of it", needs, tool),
			"build it with the later Go: run go tool echoesgen, or install echoesgen again")
	}
}

// goLine is where a go.mod names the release of Go.
func goLine(path string) token.Position {
	pos := token.Position{Filename: path}
	content, err := os.ReadFile(path)
	if err != nil {
		return pos // the go command has just read it: somebody removed it since
	}
	n := 0
	for line := range bytes.Lines(content) {
		n++
		if bytes.HasPrefix(line, []byte("go ")) {
			pos.Line, pos.Column = n, 1
		}
	}
	return pos
}
