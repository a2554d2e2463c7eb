package doccheck

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
)

const troubleshooting = "docs/troubleshooting.md"

// said are the texts of the code: every string of a package that users link, with … for what varies, and those that
// are logged.
type said struct{ texts, logged []string }

// sourceTexts reads them from the sources.
func sourceTexts(t *testing.T) said {
	t.Helper()
	is := is.New(t)
	var all said
	for _, dir := range []string{"pulse", "echoes", "generator"} {
		is.NoErr(filepath.WalkDir(filepath.Join(root, dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
			if err != nil {
				return err
			}
			for _, helper := range []string{"pulsetest", "echoestest", "everykind"} {
				if strings.Contains(filepath.ToSlash(path), "/"+helper+"/") {
					return nil // for tests, not for services
				}
			}
			ast.Inspect(file, func(n ast.Node) bool { return all.add(n) })
			return nil
		}))
	}
	is.True(len(all.texts) > 300 && len(all.logged) > 20) // they were found
	return all
}

var verb = regexp.MustCompile(`%(\[\d+\])?[-+#0 ]*[\d.*]*[a-zA-Z]`)

func (s *said) add(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.CallExpr:
		method, ok := n.Fun.(*ast.SelectorExpr)
		if ok && slices.Contains([]string{"Info", "Warn", "Error", "InfoContext", "WarnContext", "ErrorContext"}, method.Sel.Name) {
			for _, arg := range n.Args[:min(2, len(n.Args))] {
				if text := textOf(arg); strings.Contains(text, ": ") {
					s.logged = append(s.logged, text)
					break
				}
			}
		}
	case *ast.BinaryExpr, *ast.BasicLit:
		if text := textOf(n.(ast.Expr)); text != "" && text != "…" {
			s.texts = append(s.texts, text)
		}
	}
	return true
}

// textOf is the text of a string, or of strings that are joined.
func textOf(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		if e.Kind == token.STRING {
			text, err := strconv.Unquote(e.Value)
			if err == nil {
				return verb.ReplaceAllString(text, "…")
			}
		}
	case *ast.BinaryExpr:
		if e.Op == token.ADD {
			left, right := textOf(e.X), textOf(e.Y)
			if left == "" && right == "" {
				return ""
			}
			return either(left) + either(right)
		}
	}
	return ""
}

func either(text string) string {
	if text == "" {
		return "…"
	}
	return text
}

// says tells whether a text has the parts of another one, which has … for what varies, in their order.
func says(text, pattern string) bool {
	for part := range strings.SplitSeq(pattern, "…") {
		_, rest, found := strings.Cut(text, part)
		if !found {
			return false
		}
		text = rest
	}
	return true
}

var quoted = regexp.MustCompile("`([^`]+)`")

// TestTroubleshooting_EveryTextIsOfTheCode: what the page quotes in its first columns is said by the code, word for word,
// or is one of its names.
func TestTroubleshooting_EveryTextIsOfTheCode(t *testing.T) {
	t.Parallel()
	all := sourceTexts(t)
	names := exportedErrors(t)
	foreign := []string{"(missing method EchoesListeners)", "file:line:col: …", "echoesgen"}
	quotes := 0
	_, tables, _ := strings.Cut(pageNamed(t, troubleshooting).prose, "\n## The service")
	for line := range strings.Lines(tables) {
		row, ok := strings.CutPrefix(line, "| ")
		first, _, _ := strings.Cut(row, " | ")
		if !ok || first == "text" {
			continue
		}
		for _, q := range quoted.FindAllStringSubmatch(first, -1) {
			quotes++
			text := verb.ReplaceAllString(q[1], "…")
			name := strings.TrimPrefix(text, "*")
			if slices.Contains(foreign, text) || slices.Contains(names, name) || slices.ContainsFunc(all.texts, func(s string) bool { return says(s, text) }) {
				continue
			}
			t.Errorf("%s: no error or log record says %q any more", troubleshooting, q[1])
		}
	}
	if quotes < 50 {
		t.Errorf("%d texts were found: the tables are not read as they should be", quotes)
	}
}

// TestTroubleshooting_HasEveryLogRecordAndError: each record that Pulse and Echoes log, and each error that they export, has a row.
func TestTroubleshooting_HasEveryLogRecordAndError(t *testing.T) {
	t.Parallel()
	prose := pageNamed(t, troubleshooting).prose
	for _, text := range sourceTexts(t).logged {
		if text != "kafka: …" && !strings.Contains(prose, "`"+text+"`") { // the Kafka client's own are not ours to explain
			t.Errorf("%s has no row for the log record %q: add its cause and remedy", troubleshooting, text)
		}
	}
	for _, name := range exportedErrors(t) {
		if !strings.Contains(prose, name+"`") {
			t.Errorf("%s has no row for %s: add its cause and remedy", troubleshooting, name)
		}
	}
}

var exported = regexp.MustCompile(`(?m)^(?:var (Err\w+) error|type (\w+Error)\b)`)

// exportedErrors are the errors that services meet, as package.Name, from api/.
func exportedErrors(t *testing.T) []string {
	t.Helper()
	is := is.New(t)
	var names []string
	for file, pkg := range map[string]string{"pulse": "pulse", "echoes": "echoes", "echoes.kafka": "kafka"} {
		text, err := os.ReadFile(filepath.Join(root, "api", file+".txt"))
		is.NoErr(err)
		for _, m := range exported.FindAllStringSubmatch(string(text), -1) {
			if name := pkg + "." + m[1] + m[2]; !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	is.True(len(names) > 10) // they were found
	return names
}
