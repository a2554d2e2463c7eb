package directive

import (
	"fmt"
	"go/ast"
	"go/token"
)

// misplaced reports a directive that is not in the doc comment of a method.
func (s *scanner) misplaced(c *ast.Comment, d ast.Directive) {
	name := fmt.Sprintf("//%s:%s", d.Tool, d.Name)
	what, fix := s.place(c)
	s.report(c.Pos(), name+" "+what, fix)
}

const aboveMethod = "put it directly above a method of a service"

// place says where a comment stands, and what to do with a directive there.
func (s *scanner) place(c *ast.Comment) (what, fix string) {
	file := s.file.Syntax
	if c.Pos() < file.Package {
		return "stands above the package clause", aboveMethod
	}
	for _, decl := range file.Decls {
		if doc := docOf(decl); doc != nil && within(c, doc.Pos(), doc.End()) {
			return s.onDecl(decl)
		}
		if !within(c, decl.Pos(), decl.End()) {
			continue
		}
		switch d := decl.(type) {
		case *ast.FuncDecl:
			if d.Body != nil && within(c, d.Body.Lbrace, d.Body.Rbrace+1) {
				return fmt.Sprintf("stands in the body of %s", d.Name.Name), "put it directly above the method"
			}
			return fmt.Sprintf("stands inside the declaration of %s", d.Name.Name), "put it directly above the method"
		case *ast.GenDecl:
			return s.inside(d, c)
		}
	}
	if s.trails(c) {
		return "stands behind code on the same line", aboveMethod
	}
	for _, decl := range file.Decls {
		if decl.Pos() < c.End() {
			continue
		}
		if fn, ok := decl.(*ast.FuncDecl); ok && fn.Recv != nil {
			return fmt.Sprintf("is detached from the method %s", fn.Name.Name), "remove the blank line below the directive"
		}
		return "stands apart from any method", aboveMethod
	}
	return "is followed by no method", aboveMethod
}

// onDecl is a directive in the doc comment of a declaration that is no method.
func (s *scanner) onDecl(decl ast.Decl) (what, fix string) {
	switch d := decl.(type) {
	case *ast.FuncDecl:
		if d.Recv == nil {
			return fmt.Sprintf("stands above the function %s, which has no receiver", d.Name.Name), "a listener is a method of a service struct: give it a receiver"
		}
	case *ast.GenDecl:
		return "stands above " + declaration(d), aboveMethod
	}
	return "is misplaced", aboveMethod
}

// inside is a directive within a type, var, const or import declaration.
func (s *scanner) inside(d *ast.GenDecl, c *ast.Comment) (what, fix string) {
	what, fix = "stands in "+declaration(d), aboveMethod
	ast.Inspect(d, func(n ast.Node) bool {
		if n == nil || !within(c, n.Pos(), n.End()) {
			return n == d
		}
		switch n.(type) {
		case *ast.InterfaceType:
			what, fix = "stands on a method of an interface", "put it above the method of the struct that implements it"
		case *ast.StructType:
			what, fix = "stands on a field of a struct", aboveMethod
		case *ast.FuncLit:
			what, fix = "stands in a function literal", aboveMethod
			return false
		}
		return true
	})
	return what, fix
}

func declaration(d *ast.GenDecl) string {
	if d.Tok == token.IMPORT {
		return "an import declaration"
	}
	return fmt.Sprintf("a %s declaration", d.Tok)
}

// trails reports whether code ends on the line of the comment.
func (s *scanner) trails(c *ast.Comment) bool {
	line := s.file.Fset.Position(c.Pos()).Line
	for _, decl := range s.file.Syntax.Decls {
		if decl.End() <= c.Pos() && s.file.Fset.Position(decl.End()).Line == line {
			return true
		}
	}
	return false
}

func docOf(decl ast.Decl) *ast.CommentGroup {
	switch d := decl.(type) {
	case *ast.FuncDecl:
		return d.Doc
	case *ast.GenDecl:
		return d.Doc
	}
	return nil
}

func within(c *ast.Comment, from, to token.Pos) bool {
	return c.Pos() >= from && c.Pos() < to
}
