package directive

import (
	"fmt"
	"go/ast"
	"regexp"
	"slices"
	"strings"

	"github.com/orionjs/orion-go/generator/internal/diag"
)

// slip matches comments that are nearly a directive but not one for the Go
// tools: blanks or capitals in the head, a missing colon, a block comment. gofmt
// rewrites most of them to "// ...", so that they end up looking like prose.
var slip = regexp.MustCompile(`^(//|/\*)(\s*)([A-Za-z]+)(\s*:\s*|\s+)([A-Za-z0-9_-]+)(.*)$`)

// recognize returns the directive that a comment is, with its kind. It reports
// what was meant to be one. The kind is empty for prose, for directives of other
// tools, and for what was reported.
func (s *scanner) recognize(c *ast.Comment, onMethod bool) (ast.Directive, Kind) {
	d, ok := ast.ParseDirective(c.Pos(), c.Text)
	if !ok {
		if s.file.Ineffective == "" {
			s.reportSlip(c, onMethod)
		}
		return d, ""
	}
	switch {
	case d.Tool == tool && slices.Contains(names, d.Name):
		return d, Kind(d.Name)
	case d.Tool == tool:
		if near, ok := diag.Nearest(d.Name, names); ok {
			s.report(c.Pos(), fmt.Sprintf("unknown directive //%s:%s", d.Tool, d.Name), fmt.Sprintf("did you mean //%s:%s?", tool, near))
		} else {
			s.report(c.Pos(), fmt.Sprintf("unknown directive //%s:%s", d.Tool, d.Name), "there are //echoes:event and //echoes:batch")
		}
	case diag.Distance(d.Tool, tool) <= 2:
		if near, ok := meant(d.Name); ok {
			s.report(c.Pos(), fmt.Sprintf("unknown directive //%s:%s", d.Tool, d.Name), fmt.Sprintf("did you mean //%s:%s?", tool, near))
		}
	}
	return d, ""
}

// meant returns the directive name that a word is, or nearly is.
func meant(word string) (string, bool) {
	for _, name := range names {
		if strings.EqualFold(word, name) {
			return name, true
		}
	}
	return diag.Nearest(word, names)
}

// reportSlip reports a comment that was meant as a directive. Prose that begins
// with the same words stays legal: away from methods, and whenever blanks or a
// missing colon make it read like a sentence, only the name alone, or followed
// by key=value, counts.
func (s *scanner) reportSlip(c *ast.Comment, onMethod bool) {
	text := strings.TrimSpace(strings.TrimSuffix(firstLine(c.Text), "*/"))
	m := slip.FindStringSubmatch(text)
	if m == nil {
		return
	}
	open, blanks, head, colon, word, rest := m[1], m[2], m[3], m[4], m[5], m[6]
	name, ok := meant(word)
	if !ok || diag.Distance(strings.ToLower(head), tool) > 2 {
		return
	}
	exact := colon == ":" && strings.EqualFold(head, tool) && strings.EqualFold(word, name)
	if !(onMethod && exact) && !bare(rest) {
		return
	}
	want := fmt.Sprintf("write //%s:%s", tool, name)
	rest = strings.TrimSpace(rest)
	if rest != "" {
		want += " " + rest
	}
	text = firstLine(c.Text)
	var why string
	switch {
	case open == "/*":
		why = "a directive is a line comment"
	case strings.ToLower(head) != tool || word != name && !strings.EqualFold(word, name):
		why = "misspelled directive"
	case blanks != "" && colon == ":":
		why = "a directive has no blank after //"
	case head != tool || word != name:
		why = "a directive is in lower case"
	default:
		why = "a directive is //tool:name without blanks"
	}
	s.report(c.Pos(), fmt.Sprintf("%s has no effect: %s", text, why), want)
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

// bare reports whether what follows a directive's name is nothing, or settings.
func bare(rest string) bool {
	if rest != "" && rest[0] != ' ' && rest[0] != '\t' {
		return false
	}
	fields := strings.Fields(rest)
	return len(fields) == 0 || strings.Contains(fields[0], "=")
}
