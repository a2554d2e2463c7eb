// Package visible shows stored text as what it is, to people who decide by what they see.
package visible

import (
	"fmt"
	"strings"
	"unicode"
)

// Name is text of one line, such as the name of a topic, with everything as its code that cannot be seen, or changes
// how what is seen looks: control characters (\u001b), those that turn the direction of writing (\u202e), spaces that are
// not the ordinary one, and what is no character at all. What comes back is all printable.
func Name(s string) string { return show(s, func(rune) bool { return false }) }

// Text is Name for text of several lines, such as an error or a document: its line ends and tabs stay.
func Text(s string) string {
	return show(s, func(r rune) bool { return r == '\n' || r == '\t' })
}

func show(s string, keep func(rune) bool) string {
	hidden := func(r rune) bool { return !keep(r) && (r == unicode.ReplacementChar || !unicode.IsPrint(r)) }
	if strings.IndexFunc(s, hidden) < 0 {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		switch {
		case !hidden(r):
			b.WriteRune(r)
		case r > 0xffff:
			fmt.Fprintf(&b, "\\U%08x", r)
		default:
			fmt.Fprintf(&b, "\\u%04x", r)
		}
	}
	return b.String()
}
