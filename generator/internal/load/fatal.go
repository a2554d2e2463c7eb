package load

import (
	"go/token"
	"regexp"
	"strconv"
	"strings"

	"golang.org/x/tools/go/packages"
)

// fatalError reports whether an error of the loader keeps the generator from
// trusting the package, and where it is.
//
// What the type checker says is not fatal by itself: the compiler will say it
// again, and a generator that refused it would make the order matter in which
// several generators run. Signatures of listeners and the types that they reach
// are examined where they are resolved.
func (c Config) fatalError(e packages.Error) (token.Position, bool) {
	pos := parsePos(e.Pos)
	if c.inGenerated(e) {
		return pos, false // our own output, replaced by this run
	}
	switch e.Kind {
	case packages.ParseError:
		return pos, true // declarations after the error are lost silently
	case packages.ListError:
		// The go command tried to compile a package, which cannot succeed while
		// generated code is missing. Such text starts with "# package". Files to
		// embed may be missing too: others make them.
		return pos, !strings.HasPrefix(e.Msg, "# ") && !embedding.MatchString(e.Msg)
	default:
		return pos, false
	}
}

// embedding matches what the go command says about a go:embed line.
var embedding = regexp.MustCompile(`^pattern .*: (no matching files found|cannot embed |invalid pattern)`)

// goFile matches the path of a source file in a message.
var goFile = regexp.MustCompile(`(?m)([^\s:]+\.go):`)

// inGenerated reports whether an error is about a generated file. The go command
// gives the place of some in the text only.
func (c Config) inGenerated(e packages.Error) bool {
	if c.generatedFile(parsePos(e.Pos).Filename) {
		return true
	}
	if e.Kind != packages.ListError {
		return false
	}
	for _, m := range goFile.FindAllStringSubmatch(e.Msg, -1) {
		if c.generatedFile(m[1]) {
			return true
		}
	}
	return false
}

// placeOf finds a place for an error of the go command that has none: the import
// that closes a cycle, or else the first file of the package.
func placeOf(p *packages.Package, e packages.Error) token.Position {
	for _, file := range p.Syntax {
		for _, spec := range file.Imports {
			path, err := strconv.Unquote(spec.Path.Value)
			_, stack, ok := strings.Cut(e.Msg, "import stack: [")
			if err == nil && ok && strings.Contains(strings.Replace(stack, "]", " ", 1), " "+path+" ") {
				return p.Fset.Position(spec.Pos())
			}
		}
	}
	if len(p.GoFiles) > 0 {
		return token.Position{Filename: p.GoFiles[0], Line: 1, Column: 1}
	}
	return token.Position{Filename: p.Dir}
}

func message(e packages.Error) string {
	msg := strings.TrimSpace(e.Msg)
	if e.Kind == packages.ParseError {
		return "syntax error: " + msg
	}
	return msg
}

func fix(e packages.Error) string {
	switch {
	case e.Kind == packages.ParseError:
		return "declarations after a syntax error are lost: correct it first"
	case strings.Contains(e.Msg, "found packages "):
		return "a folder holds one package: move or delete the files of the other"
	case strings.Contains(e.Msg, "import cycle not allowed"):
		return "break the cycle of imports"
	default:
		return ""
	}
}

// parsePos reads "file:line:col", "file:line" or "file"; "-" and "" are unknown.
func parsePos(s string) token.Position {
	if s == "" || s == "-" {
		return token.Position{}
	}
	var numbers []int
	for len(numbers) < 2 {
		i := strings.LastIndexByte(s, ':')
		if i < 0 {
			break
		}
		n, err := strconv.Atoi(s[i+1:])
		if err != nil {
			break
		}
		numbers, s = append(numbers, n), s[:i]
	}
	pos := token.Position{Filename: s}
	switch len(numbers) {
	case 1:
		pos.Line = numbers[0]
	case 2:
		pos.Line, pos.Column = numbers[1], numbers[0]
	}
	return pos
}

func unreadableExportData(pkgs []*packages.Package) bool {
	found := false
	packages.Visit(pkgs, nil, func(p *packages.Package) {
		for _, e := range p.Errors {
			if e.Kind != packages.ListError && (strings.Contains(e.Msg, "unsupported version") || strings.Contains(e.Msg, "export data")) {
				found = true
			}
		}
	})
	return found
}
