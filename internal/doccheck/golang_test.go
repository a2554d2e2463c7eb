package doccheck

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"

	"github.com/orionjs/orion-go/generator"
)

// imports are the packages that blocks name without importing them.
var imports = map[string]string{
	"admin": "github.com/orionjs/orion-go/pulse/admin", "bson": "go.mongodb.org/mongo-driver/v2/bson", "cmp": "cmp", "context": "context",
	"echoes": "github.com/orionjs/orion-go/echoes", "echoestest": "github.com/orionjs/orion-go/echoes/echoestest", "errors": "errors", "fmt": "fmt", "fnv": "hash/fnv", "http": "net/http",
	"json": "encoding/json", "kafka": "github.com/orionjs/orion-go/echoes/kafka", "kgo": "github.com/twmb/franz-go/pkg/kgo", "log": "log",
	"mongo": "go.mongodb.org/mongo-driver/v2/mongo", "options": "go.mongodb.org/mongo-driver/v2/mongo/options", "os": "os",
	"pulse": "github.com/orionjs/orion-go/pulse", "pulsetest": "github.com/orionjs/orion-go/pulse/pulsetest", "rate": "golang.org/x/time/rate",
	"scram": "github.com/twmb/franz-go/pkg/sasl/scram", "signal": "os/signal", "slices": "slices", "slog": "log/slog", "strings": "strings",
	"sync": "sync", "syscall": "syscall", "testing": "testing", "time": "time", "tls": "crypto/tls",
	"otel": "go.opentelemetry.io/otel", "console": "github.com/orionjs/orion-go/pulse/console", "atomic": "sync/atomic", "observe": "github.com/orionjs/orion-go/pulse/observe", "telemetry": "github.com/orionjs/orion-go/pulse/telemetry",
}

// TestPages_GoCompiles builds a module with a package for each page, has its directives read by the generator and
// vets all of it.
func TestPages_GoCompiles(t *testing.T) {
	t.Parallel()
	sources(t)
	is := is.New(t)
	dir := moduleBeside(t)
	blocks := 0
	for _, p := range pages(t) {
		for _, b := range p.blocks {
			if b.lang != "go" {
				continue
			}
			if _, tutorial := b.note("tutorial"); tutorial {
				continue // run as a whole by TestReadme_TutorialWorksAsWritten
			}
			blocks++
			if err := b.write(dir); err != nil {
				t.Error(err)
			}
		}
	}
	is.True(blocks > 10) // blocks were found
	if t.Failed() {
		return
	}
	if _, err := generator.Generate(generator.Config{Dir: dir, Patterns: []string{"./..."}, Env: goEnv()}); err != nil {
		t.Fatalf("echoesgen refuses directives of the pages (a folder is a page, a file the line of a block):\n%v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	vet := exec.CommandContext(ctx, "go", "vet", "-unreachable=false", "./...")
	vet.Dir, vet.Env = dir, goEnv()
	if out, err := vet.CombinedOutput(); err != nil {
		t.Errorf("blocks do not compile (a folder is a page, a file the line of a block; what a reader imagines around a block belongs into a comment `<!-- with`, see the package's doc):\n%s", out)
	}
}

// self is the path of this module.
const self = "github.com/orionjs/orion-go"

func goEnv() []string { return append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod") }

// moduleBeside makes an empty module with this one's dependencies, in which this one is replaced by the checkout.
func moduleBeside(t *testing.T) string {
	t.Helper()
	is := is.New(t)
	top, err := filepath.Abs(root)
	is.NoErr(err)
	dir := t.TempDir()
	mod, err := os.ReadFile(filepath.Join(top, "go.mod"))
	is.NoErr(err)
	is.True(bytes.HasPrefix(mod, []byte("module "+self+"\n")))
	mod = bytes.Replace(mod, []byte("module "+self), []byte("module docs.example"), 1)
	mod = fmt.Appendf(mod, "\nrequire %s v0.0.0\n\nreplace %s => %s\n", self, self, top)
	mod = fmt.Appendf(mod, "\ntool (\n\t%s/cmd/echoesgen\n\t%s/cmd/pulse\n)\n", self, self)
	is.NoErr(os.WriteFile(filepath.Join(dir, "go.mod"), mod, 0o600))
	sum, err := os.ReadFile(filepath.Join(top, "go.sum"))
	is.NoErr(err)
	is.NoErr(os.WriteFile(filepath.Join(dir, "go.sum"), sum, 0o600))
	return dir
}

// write puts the block and what its notes add into the page's package below dir.
func (b block) write(dir string) error {
	name := strings.TrimSuffix(strings.ReplaceAll(strings.ReplaceAll(b.page, "/", "_"), "-", "_"), ".md")
	if _, alone := b.note("alone"); alone {
		name = fmt.Sprintf("%s_L%d", name, b.line)
	}
	folder := filepath.Join(dir, strings.ToLower(name))
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	source, err := b.source()
	if err != nil {
		return err
	}
	suffix := ""
	if strings.Contains(source, "*testing.") {
		suffix = "_test"
	}
	err = os.WriteFile(filepath.Join(folder, fmt.Sprintf("L%d%s.go", b.line, suffix)), []byte(source), 0o600)
	if with, ok := b.note("with"); ok && err == nil {
		if with, err = completed("package page\n\n" + with); err != nil {
			return fmt.Errorf("%s:%d: the comment with: %w", b.page, b.line, err)
		}
		err = os.WriteFile(filepath.Join(folder, fmt.Sprintf("L%dwith%s.go", b.line, suffix)), []byte(with), 0o600)
	}
	// An assembler file lets functions have no body, as where only signatures are shown.
	return errors.Join(err, os.WriteFile(filepath.Join(folder, "bodies.s"), nil, 0o600))
}

// source makes a file of the block: it is one, or declarations, or statements.
func (b block) source() (string, error) {
	if strings.HasPrefix(b.text, "package ") {
		_, rest, _ := strings.Cut(b.text, "\n")
		return completed("package page\n" + rest)
	}
	file, declarations := completed("package page\n\n" + b.text)
	if declarations == nil {
		return file, nil
	}
	head := "package page\n\nfunc _(ctx context.Context) error {\n"
	parsed, err := parser.ParseFile(token.NewFileSet(), "", head+b.text+"\nreturn nil\n}\n", 0)
	if err != nil {
		return "", fmt.Errorf("%s:%d: neither declarations (%w) nor statements (%w)", b.page, b.line, declarations, err)
	}
	use := "\n"
	for _, s := range parsed.Decls[0].(*ast.FuncDecl).Body.List {
		if assign, ok := s.(*ast.AssignStmt); ok && assign.Tok == token.DEFINE {
			for _, left := range assign.Lhs {
				if name := left.(*ast.Ident).Name; name != "_" {
					use += "_ = " + name + "\n"
				}
			}
		}
	}
	return completed(head + b.text + use + "return nil\n}\n")
}

// completed adds the imports that a file lacks.
func completed(source string) (string, error) {
	file, err := parser.ParseFile(token.NewFileSet(), "", source, parser.ParseComments)
	if err != nil {
		return "", err
	}
	has := map[string]bool{}
	for _, i := range file.Imports {
		has[strings.Trim(i.Path.Value, `"`)] = true
	}
	missing := map[string]bool{}
	ast.Inspect(file, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := s.X.(*ast.Ident); ok && imports[x.Name] != "" && !has[imports[x.Name]] {
				missing[imports[x.Name]] = true
			}
		}
		return true
	})
	lines := ""
	for _, path := range slices.Sorted(maps.Keys(missing)) {
		lines += fmt.Sprintf("import %q\n", path)
	}
	return strings.Replace(source, "package page\n", "package page\n"+lines, 1), nil
}
