package directive

import (
	"fmt"
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strings"

	"github.com/orionjs/orion-go/internal/spelling"
)

// slip matches comments that are nearly a directive but not one for the Go
// tools: blanks or capitals in the head, another sign than a colon, a block
// comment, a third slash. gofmt rewrites most of them to "// ...", so that they
// end up looking like prose.
var slip = regexp.MustCompile(`^(/{2,}|/\*+)(\s*)([@+]?)([A-Za-z]+)(\s*(?::+|[.：/=-])\s*|\s+)([A-Za-z0-9_-]+)(.*)$`)

// alone matches the tool's name without that of a directive.
var alone = regexp.MustCompile(`^//+[@+]?(?i:echoes)(:?)(?:\s+(.*))?$`)

// toolless matches the name of a directive without the tool's.
var toolless = regexp.MustCompile(`^//(event|batch)\s+(.*)$`)

// named takes the name of a directive off what follows it without a blank.
var named = regexp.MustCompile(`^([A-Za-z0-9_-]+)(.*)$`)

// recognize returns the directive that a comment is, with its kind. It reports
// what was meant to be one. The kind is empty for prose, for directives of other
// tools, and for what was reported.
func (s *scanner) recognize(c *ast.Comment, onMethod bool) (ast.Directive, Kind) {
	d, ok := ast.ParseDirective(c.Pos(), c.Text)
	if !ok {
		if s.file.Ineffective == "" {
			s.reportSlips(c, onMethod)
		}
		return d, ""
	}
	if d.Tool == tool && slices.Contains(names, d.Name) {
		return d, Kind(d.Name)
	}
	if d.Tool == tool && d.Name == topicName {
		return d, "" // of a type: see Topics
	}
	name, rest := d.Name, ""
	if m := named.FindStringSubmatch(d.Name); m != nil {
		name, rest = m[1], m[2]
	}
	near, ok := meant(name)
	args, isSettings := settings(rest + " " + d.Args)
	message := fmt.Sprintf("unknown directive //%s:%s", d.Tool, d.Name)
	switch {
	case d.Tool == tool && ok && rest != "" && isSettings:
		s.report(c.Pos(), message, "only blanks separate: "+written(near, args))
	case d.Tool == tool && !ok:
		s.report(c.Pos(), message, "there are //echoes:event and //echoes:batch, and //echoes:topic for a type")
	case ok && resemblesTool(d.Tool):
		s.report(c.Pos(), message, fmt.Sprintf("did you mean //%s:%s?", tool, near))
	}
	return d, ""
}

// resemblesTool reports whether a word is the tool's name, or was meant as it.
func resemblesTool(word string) bool {
	word = strings.ToLower(word)
	return word == "echoesgen" || spelling.Distance(word, tool) <= 2
}

// meant returns the directive name that a word is, or nearly is.
func meant(word string) (string, bool) {
	all := append([]string{topicName}, names...)
	for _, name := range all {
		if strings.EqualFold(word, name) {
			return name, true
		}
	}
	return spelling.Nearest(word, all)
}

// reportSlips reports a comment that was meant as a directive, and lines of a
// block comment that were.
func (s *scanner) reportSlips(c *ast.Comment, onMethod bool) {
	text, more, isLong := strings.Cut(c.Text, "\n")
	s.reportSlip(c.Pos(), strings.TrimSpace(text), onMethod)
	// Elsewhere, and around a declaration, a block quotes code.
	if !isLong || !onMethod || strings.Contains(more, "func ") {
		return
	}
	at := c.Pos() + token.Pos(len(text)+1)
	for line := range strings.Lines(more) {
		plain := strings.TrimSpace(strings.TrimSuffix(strings.TrimRight(line, "\r\n"), "*/"))
		plain = strings.TrimPrefix(strings.TrimLeft(plain, "* \t"), "//")
		if d, ok := ast.ParseDirective(c.Pos(), "//"+plain); ok && d.Tool == tool && slices.Contains(names, d.Name) {
			s.report(at+token.Pos(len(line)-len(strings.TrimLeft(line, " \t"))), "//"+plain+" has no effect: a directive is a line comment", "write //"+plain)
		}
		at += token.Pos(len(line))
	}
}

// reportSlip reports a line that was meant as a directive. Prose that begins
// with the same words stays legal: away from methods, and whenever blanks or a
// sign other than the colon make it read like a sentence, only the name alone,
// or followed by key=value, counts.
func (s *scanner) reportSlip(pos token.Pos, text string, onMethod bool) {
	line := strings.TrimSpace(strings.TrimSuffix(text, "*/"))
	if m := toolless.FindStringSubmatch(line); m != nil && onMethod && onlySettings(m[2]) {
		s.report(pos, text+" has no effect: a directive begins with //echoes:", written(m[1], m[2]))
		return
	}
	if m := alone.FindStringSubmatch(line); m != nil && (m[1] != "" || onMethod) && (m[2] == "" || onlySettings(m[2])) {
		s.report(pos, text+" has no effect: it does not say which directive", "write //echoes:event or //echoes:batch")
		return
	}
	m := slip.FindStringSubmatch(line)
	if m == nil {
		return
	}
	open, blanks, sign, head, colon, word, rest := m[1], m[2], m[3], m[4], m[5], m[6], m[7]
	name, ok := meant(word)
	if !ok || !resemblesTool(head) {
		return
	}
	args, isSettings := settings(rest)
	sameWords := strings.EqualFold(head, tool) && strings.EqualFold(word, name)
	// "// echoes.Batch" may be a line of a sentence.
	odd := strings.Trim(colon, " \t:") != "" && blanks != "" && args == ""
	if !(onMethod && colon == ":" && sameWords) && (!isSettings || odd) {
		return
	}
	if !isSettings {
		args = strings.TrimSpace(rest)
	}
	var why string
	switch {
	case strings.HasPrefix(open, "/*"):
		why = "a directive is a line comment"
	case !sameWords:
		why = "misspelled directive"
	case blanks != "" && colon == ":":
		why = "a directive has no blank after //"
	case open != "//" || sign != "":
		why = "a directive begins with //echoes:"
	case colon == ":" && (head != tool || word != name):
		why = "a directive is in lower case"
	default:
		why = "a directive is //tool:name without blanks"
	}
	s.report(pos, fmt.Sprintf("%s has no effect: %s", text, why), written(name, args))
}

// written shows a directive as it should be.
func written(name, args string) string {
	return strings.TrimSpace(fmt.Sprintf("write //%s:%s %s", tool, name, args))
}

var (
	separator = regexp.MustCompile(`[,;]\s*([A-Za-z]+=)`)
	quoted    = regexp.MustCompile("([A-Za-z]+)=(\"[^\"]*\"|'[^']*'|`[^`]*`)")
)

// settings reports whether what follows a directive's name is nothing, or begins
// with key=value, and returns it as it should be written.
func settings(rest string) (string, bool) {
	trimmed := strings.TrimSpace(rest)
	if trimmed == "" {
		return "", true
	}
	if !strings.ContainsAny(rest[:1], " \t,;:(") {
		return "", false
	}
	args := strings.TrimRight(strings.TrimLeft(trimmed, ",;:( \t"), ",;) \t")
	args = separator.ReplaceAllString(args, " $1")
	args = quoted.ReplaceAllStringFunc(args, func(arg string) string {
		m := quoted.FindStringSubmatch(arg)
		value := m[2][1 : len(m[2])-1]
		if strings.ContainsAny(value, " \t") {
			return `"` + m[1] + "=" + value + `"`
		}
		return m[1] + "=" + value
	})
	first, _, _ := strings.Cut(args, " ")
	if !strings.Contains(first, "=") {
		return "", false
	}
	return args, true
}

// onlySettings reports whether a line consists of settings alone, the first with
// a known key.
func onlySettings(line string) bool {
	for i, field := range strings.Fields(line) {
		name, _, ok := strings.Cut(field, "=")
		if !ok || i == 0 && !slices.ContainsFunc(keyNames(), func(key string) bool { return strings.EqualFold(key, name) }) {
			return false
		}
	}
	return strings.TrimSpace(line) != ""
}
