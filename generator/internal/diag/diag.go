// Package diag collects what is wrong in the source that the generator reads.
//
// A diagnostic says what is wrong, where, and what to do instead. All problems
// of one run are gathered before anything is reported, so that one run shows
// everything (spec 7.4).
package diag

import (
	"cmp"
	"fmt"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
)

// Diagnostic is one problem in the source.
type Diagnostic struct {
	// File is the path of the source file, relative to the folder that the
	// generator runs in when the file lies below it. Empty when a problem has no
	// place in the source, such as a pattern that matches no package.
	File string
	// Line and Column count from 1; 0 means unknown.
	Line, Column int
	// Message says what is wrong.
	Message string
	// Fix says what to do. Empty when the message says it already.
	Fix string
}

// String returns the diagnostic as "file:line:col: message (fix)".
func (d Diagnostic) String() string {
	var b strings.Builder
	if d.File != "" {
		b.WriteString(d.File)
		b.WriteByte(':')
		if d.Line > 0 {
			fmt.Fprintf(&b, "%d:", d.Line)
			if d.Column > 0 {
				fmt.Fprintf(&b, "%d:", d.Column)
			}
		}
		b.WriteByte(' ')
	}
	b.WriteString(d.Message)
	if d.Fix != "" {
		fmt.Fprintf(&b, " (%s)", d.Fix)
	}
	return b.String()
}

// List gathers the diagnostics of one run. The zero value is ready to use. It is
// not safe for concurrent use.
type List struct {
	items []entry
	seen  map[entry]bool
}

type entry struct {
	file         string
	line, column int
	message, fix string
}

// Add records a problem. The same problem at the same place is recorded once,
// however many ways lead there.
func (l *List) Add(pos token.Position, message, fix string) {
	e := entry{pos.Filename, pos.Line, pos.Column, message, fix}
	if l.seen[e] {
		return
	}
	if l.seen == nil {
		l.seen = make(map[entry]bool)
	}
	l.seen[e] = true
	l.items = append(l.items, e)
}

// OnLine reports whether a problem was recorded on the line of a place.
func (l *List) OnLine(pos token.Position) bool {
	return slices.ContainsFunc(l.items, func(e entry) bool { return e.file == pos.Filename && e.line == pos.Line })
}

// Len returns the number of problems recorded so far.
func (l *List) Len() int { return len(l.items) }

// Append adds what another list has.
func (l *List) Append(other *List) {
	for _, e := range other.items {
		l.Add(token.Position{Filename: e.file, Line: e.line, Column: e.column}, e.message, e.fix)
	}
}

// Sorted returns the problems by file, line and column. Paths below dir are
// made relative to it, which is how the go command prints them, also where a
// message of the type checker quotes one.
func (l *List) Sorted(dir string) []Diagnostic {
	out := make([]Diagnostic, 0, len(l.items))
	for _, e := range l.items {
		out = append(out, Diagnostic{
			File: Relative(dir, e.file), Line: e.line, Column: e.column,
			Message: strings.ReplaceAll(e.message, dir+string(filepath.Separator), ""), Fix: e.fix,
		})
	}
	slices.SortStableFunc(out, func(a, b Diagnostic) int {
		return cmp.Or(
			cmp.Compare(a.File, b.File),
			cmp.Compare(a.Line, b.Line),
			cmp.Compare(a.Column, b.Column),
			cmp.Compare(a.Message, b.Message),
		)
	})
	return out
}

// Relative returns path relative to dir when it lies below dir, else path.
func Relative(dir, path string) string {
	if path == "" || !filepath.IsAbs(path) {
		return path
	}
	rel, err := filepath.Rel(dir, path)
	if err != nil || rel == ".." || strings.HasPrefix(rel, ".."+string(filepath.Separator)) {
		return path
	}
	return rel
}
