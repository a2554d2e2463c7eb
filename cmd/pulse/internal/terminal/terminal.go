// Package terminal writes for people: tables that fit, times, questions, and progress.
package terminal

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode"

	"golang.org/x/text/width"

	"github.com/orionjs/orion-go/internal/visible"
)

// Width returns how many columns the terminal behind the file has; 0 if it does not tell, and false if the file is
// no terminal.
func Width(f *os.File) (columns int, ok bool) { return windowWidth(f) }

// ErrNoTerminal is returned by Confirm when there is nobody to ask.
var ErrNoTerminal = errors.New("standard input and standard error are not a terminal")

// Confirm asks a question that y or yes answers with true. It is asked on standard error, so that standard output stays
// what the command prints. The context ends the wait.
func Confirm(ctx context.Context, in, out *os.File, question string) (bool, error) {
	_, asks := Width(out)
	_, answers := Width(in)
	if !asks || !answers {
		return false, ErrNoTerminal
	}
	_, _ = fmt.Fprintf(out, "%s [y/N] ", question)
	answer := make(chan string, 1)
	// A read of a terminal cannot be ended; the process is about to when the context is.
	go func() {
		line, _ := bufio.NewReader(in).ReadString('\n')
		answer <- line
	}()
	select {
	case line := <-answer:
		switch strings.ToLower(strings.TrimSpace(line)) {
		case "y", "yes":
			return true, nil
		}
		return false, nil
	case <-ctx.Done():
		_, _ = fmt.Fprintln(out)
		return false, context.Cause(ctx)
	}
}

// Clean makes stored text safe to print in one line: line ends, tabs and spaces that do not break become plain spaces,
// and what a terminal would obey is shown as its code (package visible).
func Clean(s string) string { return visible.Name(oneLine.Replace(s)) }

var oneLine = strings.NewReplacer("\n", " ", "\t", " ", "\u00a0", " ")

// CleanLines is Clean for text of several lines, such as a stack, whose line ends and tabs stay.
func CleanLines(s string) string {
	lines := strings.Split(s, "\n")
	for i, line := range lines {
		indent := len(line) - len(strings.TrimLeft(line, "\t"))
		lines[i] = strings.Repeat("    ", indent) + Clean(line[indent:])
	}
	return strings.Join(lines, "\n")
}

// columnsOf is the number of columns that a terminal gives to printable text.
func columnsOf(s string) int {
	n := 0
	for _, r := range s {
		n += columnsOfRune(r)
	}
	return n
}

func columnsOfRune(r rune) int {
	if unicode.In(r, unicode.Mn, unicode.Me) {
		return 0
	}
	switch width.LookupRune(r).Kind() {
	case width.EastAsianWide, width.EastAsianFullwidth:
		return 2
	}
	return 1
}

// cut shortens text to a number of columns; an ellipsis stands for what is left out at its end.
func cut(s string, columns int) string {
	if columnsOf(s) <= columns {
		return s
	}
	n := 0
	for i, r := range s {
		if n += columnsOfRune(r); n > columns-1 {
			return s[:i] + "…"
		}
	}
	return s
}

// Fields writes names with their values, one a line, the values under each other. Those without a value are left out.
func Fields(w io.Writer, fields ...[2]string) {
	longest := 0
	for _, f := range fields {
		if f[1] != "" {
			longest = max(longest, columnsOf(f[0]))
		}
	}
	for _, f := range fields {
		if f[1] != "" {
			_, _ = fmt.Fprintf(w, "%s%s  %s\n", f[0], strings.Repeat(" ", longest-columnsOf(f[0])), f[1])
		}
	}
}
