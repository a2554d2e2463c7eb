package telemetry_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/matryer/is"

	"github.com/orionjs/orion-go/pulse/observe"
)

const page = "../../docs/telemetry.md"

// listed returns what the first column of a table names in code style, by the heading above the table.
func listed(t *testing.T, heading string) []string {
	t.Helper()
	text, err := os.ReadFile(page)
	is.New(t).NoErr(err)
	_, section, found := strings.Cut(string(text), "\n## "+heading+"\n")
	if !found {
		t.Fatalf("%s has no heading %q", page, heading)
	}
	section, _, _ = strings.Cut(section, "\n## ")
	var names []string
	for _, row := range regexp.MustCompile("(?m)^\\| `([^|]*)` \\|").FindAllStringSubmatch(section, -1) {
		names = append(names, strings.Split(row[1], "`, `")...)
	}
	slices.Sort(names)
	return names
}

// Every metric that there is has a row, and every row is of a metric that there is.
func TestDocs_ListEveryMetric(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	c := collect(t)
	_, p := c.Publish(t.Context(), observe.Publish{System: observe.Pulse, Topic: "t", Events: 1})
	p.End(observe.Sent{})
	_, end := c.Attempt(t.Context(), observe.Attempt{System: observe.Pulse, Group: "g", Topic: "t", Number: 1, Batch: true, Events: []observe.Event{{ID: "1"}}})
	end(nil)
	c.Claimed(observe.Claimed{Group: "g", Topic: "t", Asked: 2, Won: 1})
	c.Woken(observe.Woken{Group: "g", Topic: "t", Source: observe.Poll})
	stop := c.Backlog(oneTopic)
	defer stop()
	var names []string
	for name := range c.measured(t) {
		names = append(names, name)
	}
	slices.Sort(names)
	is.Equal(listed(t, "Metrics"), names)
}

// The keys of log records are those that the page lists: people filter and alert by them. Every record of a
// component says which one by the first word of its message.
func TestDocs_ListEveryKeyOfLogRecords(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	keys := map[string]bool{}
	records := 0
	for _, dir := range []string{"../../pulse", "../../echoes"} {
		is.NoErr(filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
			// What helps in tests logs to the test.
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") ||
				strings.Contains(path, "pulsetest") || strings.Contains(path, "echoestest") {
				return err
			}
			files := token.NewFileSet()
			file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(n ast.Node) bool {
				at := func() string { return files.Position(n.Pos()).String() }
				switch n := n.(type) {
				case *ast.CallExpr:
					method, isLog := logMethod(n)
					if !isLog {
						return true
					}
					args := n.Args
					if method != "With" {
						records++
						if text := literal(args[0]); !regexp.MustCompile(`^(pulse|echoes|kafka): \w`).MatchString(text) {
							t.Errorf("%s: the message %q does not begin with its component", at(), text)
						}
						args = args[1:]
					}
					collectKeys(t, at(), args, keys)
				case *ast.AssignStmt: // attributes of several records: attrs := []any{"group", ...}
					if len(n.Lhs) != 1 || len(n.Rhs) != 1 {
						return true
					}
					name, _ := n.Lhs[0].(*ast.Ident)
					list, _ := n.Rhs[0].(*ast.CompositeLit)
					if name != nil && name.Name == "attrs" && list != nil && isAnySlice(list.Type) {
						collectKeys(t, at(), list.Elts, keys)
					}
				}
				return true
			})
			return nil
		}))
	}
	is.True(records > 20) // they were found
	var found []string
	for key := range keys {
		found = append(found, key)
	}
	slices.Sort(found)
	is.Equal(listed(t, "Log records"), found)
}

// logMethod tells whether the call makes a log record, or a logger with attributes.
func logMethod(call *ast.CallExpr) (method string, isLog bool) {
	f, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || !slices.Contains([]string{"Debug", "Info", "Warn", "Error", "With"}, f.Sel.Name) {
		return "", false
	}
	switch x := f.X.(type) {
	case *ast.Ident:
		return f.Sel.Name, x.Name == "log" || x.Name == "logger"
	case *ast.SelectorExpr:
		return f.Sel.Name, x.Sel.Name == "Logger" || x.Sel.Name == "log"
	}
	return "", false
}

// collectKeys takes every other argument, which must be a literal: a key that is put together is not stable.
func collectKeys(t *testing.T, at string, args []ast.Expr, keys map[string]bool) {
	t.Helper()
	for i := 0; i < len(args); {
		if more, ok := args[i].(*ast.CallExpr); ok {
			if name, ok := more.Fun.(*ast.Ident); ok && name.Name == "append" {
				collectKeys(t, at, more.Args[1:], keys)
				i++
				continue
			}
		}
		if name, ok := args[i].(*ast.Ident); ok && name.Name == "attrs" {
			i++
			continue
		}
		key := literal(args[i])
		if !regexp.MustCompile(`^[a-z]+$`).MatchString(key) {
			t.Errorf("%s: the key %q is no single word in small letters", at, key)
		}
		keys[key] = true
		i += 2
	}
}

func literal(e ast.Expr) string {
	lit, ok := e.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return ""
	}
	text, _ := strconv.Unquote(lit.Value)
	return text
}

func isAnySlice(e ast.Expr) bool {
	array, ok := e.(*ast.ArrayType)
	if !ok || array.Len != nil {
		return false
	}
	elem, ok := array.Elt.(*ast.Ident)
	return ok && elem.Name == "any"
}
