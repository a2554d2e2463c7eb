package generator_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/matryer/is"

	"github.com/orionjs/orion-go/generator"
)

// TestGenerate_7_2_Workspace: in a workspace a run covers the modules that its
// patterns name, also from the workspace's folder.
func TestGenerate_7_2_Workspace(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	m := newOrders(t)
	// The folder around the module becomes the workspace.
	outer := t.TempDir()
	outer, err := filepath.EvalSymlinks(outer)
	is.NoErr(err)
	is.NoErr(os.Rename(m.dir, filepath.Join(outer, "shop")))
	is.NoErr(os.WriteFile(filepath.Join(outer, "go.work"), []byte("go 1.26.0\n\nuse ./shop\n"), 0o644))
	env := append(m.env(), "GOWORK=", "PWD="+outer)
	result, err := generator.Generate(generator.Config{Dir: outer, Patterns: []string{"./shop/..."}, Env: env})
	is.NoErr(err)
	is.Equal(result.Files[0].Path, filepath.Join("shop", "orders", "echoes_gen.go"))
	_, err = generator.Generate(generator.Config{Dir: outer, Patterns: []string{"./..."}, Env: env})
	is.True(err != nil)
	is.True(strings.Contains(err.Error(), "this folder belongs to no module of the workspace"))
}

// TestGenerate_7_2_CGo: listeners may stand in files with C, whose types no
// payload can have.
func TestGenerate_7_2_CGo(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	m := newModule(t)
	if out, err := m.run("env", "CGO_ENABLED"); err != nil || strings.TrimSpace(out) != "1" {
		t.Logf("cgo is not available: %s", out)
		return
	}
	if _, err := exec.LookPath("cc"); err != nil {
		t.Log("there is no C compiler")
		return
	}
	const source = `package c

// static int two(void) { return 2; }
import "C"

import "context"

type P struct{ Number TYPE }

type Service struct{}

//echoes:event
func (s *Service) Created(ctx context.Context, p P) error { _ = C.two(); return nil }
`
	m.write("c/c.go", strings.Replace(source, "TYPE", "int", 1))
	result, err := m.generate()
	is.NoErr(err)
	is.Equal(result.Files[0].Listeners[0].Position(), filepath.Join("c", "c.go")+":12:1")
	if out, err := m.run("vet", "./..."); err != nil {
		t.Fatal(out)
	}
	m.write("c/c.go", strings.Replace(source, "TYPE", "C.int", 1))
	_, err = m.generate()
	is.True(err != nil)
	is.True(strings.Contains(err.Error(), "c.go:8:16: P.Number: C.int is a type of C"))
}
