package admin

import (
	"fmt"
	"strings"
	"unicode"
)

// command is a command line as somebody gives it to a shell, with each argument quoted that needs it. It is one line
// of printable characters, whatever is in the arguments.
func command(words string, args ...string) string {
	quoted := []string{words}
	for _, arg := range args {
		if strings.HasPrefix(arg, "-") {
			quoted = append(quoted, "--") // what follows is no flag
			break
		}
	}
	for _, arg := range args {
		quoted = append(quoted, quote(arg))
	}
	return strings.Join(quoted, " ")
}

// plain are the characters that mean nothing to a shell, beside letters and digits.
const plain = "_-./:@%+=,"

// quote makes one word of a text for every POSIX shell.
func quote(s string) string {
	isPlain := func(r rune) bool {
		return r < unicode.MaxASCII && (unicode.IsLetter(r) || unicode.IsDigit(r)) || strings.ContainsRune(plain, r)
	}
	if s != "" && strings.IndexFunc(s, func(r rune) bool { return !isPlain(r) }) < 0 {
		return s
	}
	if strings.IndexFunc(s, func(r rune) bool { return r == unicode.ReplacementChar || r == '\u00a0' || !unicode.IsPrint(r) }) < 0 {
		return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
	}
	// Nobody can read or copy it: printf makes it of its bytes. Line ends at its end are lost by that.
	var b strings.Builder
	for i := range len(s) {
		if c := s[i]; c < unicode.MaxASCII && isPlain(rune(c)) && c != '%' && c != '-' {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, `\%03o`, c)
		}
	}
	return `"$(printf '` + b.String() + `')"`
}
