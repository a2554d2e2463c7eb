package directive

import (
	"fmt"
	"go/ast"
	"go/token"
	"strings"

	"github.com/orionjs/orion-go/generator/internal/diag"
)

// File is one file to scan.
type File struct {
	Fset   *token.FileSet
	Syntax *ast.File
	// Ineffective says why no directive of this file can take effect, with the
	// way out; empty for a normal file.
	Ineffective, Fix string
	// Notes gets what is no problem and may surprise; nil when nobody asks.
	Notes *diag.List
}

type scanner struct {
	file     File
	problems *diag.List
}

func (s *scanner) report(pos token.Pos, message, fix string) {
	s.problems.Add(s.file.Fset.Position(pos), message, fix)
}

func (s *scanner) note(pos token.Pos, message, fix string) {
	if s.file.Notes != nil {
		s.file.Notes.Add(s.file.Fset.Position(pos), "note: "+message, fix)
	}
}

// Scan returns the listeners of a file in the order of the source, and reports
// every comment that looks like a directive and has no effect.
//
// One rule decides: the doc comments of methods are where directives belong. In
// any other place one is a problem, and what encloses or follows the comment
// picks the words.
func Scan(file File, problems *diag.List) []Listener {
	s := &scanner{file, problems}
	methods := make(map[*ast.CommentGroup]*ast.FuncDecl)
	// Services that are registered by hand, as an example in a test file may be,
	// miss nothing when no code is generated.
	registered := make(map[string]bool)
	for _, decl := range file.Syntax.Decls {
		fn, ok := decl.(*ast.FuncDecl)
		if !ok || fn.Recv == nil {
			continue
		}
		if fn.Doc != nil {
			methods[fn.Doc] = fn
		}
		if fn.Name.Name == "EchoesListeners" {
			registered[Receiver(fn)] = true
		}
	}
	var out []Listener
	for _, group := range file.Syntax.Comments {
		method := methods[group]
		var first *Listener
		for _, c := range group.List {
			d, kind := s.recognize(c, method != nil)
			switch {
			case kind == "" && first != nil && onlySettings(strings.TrimPrefix(c.Text, "//")):
				s.report(c.Pos(), "settings on a line of their own have no effect", "a directive is one line: move them to the end of the line with //echoes:"+string(first.Kind))
			case kind == "":
			case file.Ineffective != "" && method != nil && registered[Receiver(method)]:
			case file.Ineffective != "":
				s.report(c.Pos(), fmt.Sprintf("//%s:%s has no effect: %s", d.Tool, d.Name, file.Ineffective), file.Fix)
			case method == nil:
				s.misplaced(c, d)
			case first != nil:
				s.report(c.Pos(), fmt.Sprintf("%s has two directives", method.Name.Name), "one method is one listener: remove this one, or move it to a method of its own")
			default:
				first = s.listener(d, kind, method)
			}
		}
		if first != nil {
			out = append(out, *first)
		}
	}
	return out
}

// Receiver returns the name of a method's type, as it is written.
func Receiver(method *ast.FuncDecl) string {
	if len(method.Recv.List) == 0 {
		return ""
	}
	expr := method.Recv.List[0].Type
	if star, ok := expr.(*ast.StarExpr); ok {
		expr = star.X
	}
	if name, ok := expr.(*ast.Ident); ok {
		return name.Name
	}
	return ""
}

// listener reads a directive that stands where it belongs.
func (s *scanner) listener(d ast.Directive, kind Kind, method *ast.FuncDecl) *Listener {
	l := &Listener{
		Kind: kind, Decl: method, Pos: d.Slash,
		Topic: DefaultTopic(method.Name.Name), TopicPos: d.Slash,
	}
	s.parseArgs(l, d)
	return l
}
