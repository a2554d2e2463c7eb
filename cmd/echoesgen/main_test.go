package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/matryer/is"
)

const service = `package main

import (
	"context"
	"fmt"

	"github.com/orionjs/orion-go/echoes"
	"go.mongodb.org/mongo-driver/v2/bson"
)

` + "//go" + `:generate GENERATE

type Order struct {
	ID    string  ` + "`bson:\"_id\" echoes:\"required\"`" + `
	Lines []Line
}

type Line struct{ Price float64 }

type Orders struct{}

//echoes:event topic=order.created
func (o *Orders) Created(ctx context.Context, order Order) error { return nil }

//echoes:batch topic=order.shipped batchSize=3
func (o *Orders) Shipped(ctx context.Context, items []echoes.Item[Order]) error { return nil }

func main() {
	for _, l := range echoes.Service(&Orders{}).EchoesListeners() {
		fmt.Println(l.Topic(), l.Kind(), l.BatchSize(), l.Position())
	}
	print := func(doc bson.M) {
		data, err := bson.Marshal(doc)
		if err != nil {
			panic(err)
		}
		order, err := echoes.DecodeParams(bson.RawValue{Type: bson.TypeEmbeddedDocument, Value: data}, decodeOrder)
		fmt.Printf("%+v %v\n", order, err)
	}
	print(bson.M{"_id": "a", "lines": bson.A{bson.M{"price": 2}, bson.M{"price": 1.5}}, "unknown": 1})
	print(bson.M{"_id": "b", "lines": bson.A{bson.M{"price": "x"}}})
}
`

const printed = `order.created event 1 main.go:22
order.shipped batch 3 main.go:25
{ID:a Lines:[{Price:2} {Price:1.5}]} <nil>
{ID: Lines:[]} lines[0].price: want float64, got string
`

// newService is a repository of its own that holds the service.
func newService(t *testing.T, generate string) *repository {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	checkout, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	r := &repository{t, dir, append(os.Environ(), "GOFLAGS=-mod=mod", "GOWORK=off")}
	r.write("main.go", strings.Replace(service, "GENERATE", generate, 1))
	r.write("go.mod", "module example.com/service\n\ngo 1.26.0\n")
	const module = "github.com/orionjs/orion-go"
	r.run("mod", "edit", "-replace="+module+"="+checkout, "-tool="+module+"/cmd/echoesgen")
	r.run("mod", "tidy")
	return r
}

type repository struct {
	t   *testing.T
	dir string
	env []string
}

func (r *repository) write(name, content string) {
	r.t.Helper()
	if err := os.WriteFile(filepath.Join(r.dir, name), []byte(content), 0o644); err != nil {
		r.t.Fatal(err)
	}
}

func (r *repository) run(args ...string) string {
	r.t.Helper()
	cmd := exec.Command("go", args...)
	cmd.Dir, cmd.Env = r.dir, r.env
	out, err := cmd.CombinedOutput()
	if err != nil {
		r.t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// echoesgen runs the command in the repository.
func (r *repository) echoesgen(args ...string) (status int, stdout, stderr string) {
	var out, errs bytes.Buffer
	status = run(args, r.dir, &out, &errs)
	return status, out.String(), errs.String()
}

// TestGoGenerate_7_2_OnPath: a repository of its own generates with the command
// on PATH, compiles and decodes.
func TestGoGenerate_7_2_OnPath(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	bin := t.TempDir()
	build := exec.Command("go", "build", "-o", filepath.Join(bin, "echoesgen"), ".")
	out, err := build.CombinedOutput()
	if err != nil {
		t.Fatalf("building the command: %v\n%s", err, out)
	}
	r := newService(t, "echoesgen")
	r.env = append(r.env, "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	is.Equal(r.run("generate", "./..."), "echoes_gen.go: created\n")
	is.Equal(r.run("generate", "./..."), "")
	is.Equal(r.run("run", "."), printed)
}

// TestGoGenerate_7_2_GoTool: the same with the tool that go.mod names.
func TestGoGenerate_7_2_GoTool(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	r := newService(t, "go tool echoesgen ./...")
	is.Equal(r.run("generate", "./..."), "echoes_gen.go: created\n")
	is.Equal(r.run("run", "."), printed)
	r.run("vet", "./...")
	r.run("tool", "echoesgen", "-check", "./...")
}

// TestRun_7_4_Statuses: what the command prints, and with which status it exits.
func TestRun_7_4_Statuses(t *testing.T) {
	t.Setenv("GOFLAGS", "-mod=mod")
	t.Setenv("GOWORK", "off")
	is := is.New(t)
	r := newService(t, "echoesgen")

	status, stdout, stderr := r.echoesgen("-check", "./...")
	is.Equal(status, 1)
	is.Equal(stdout, "")
	is.Equal(stderr, "echoes_gen.go: is missing\nechoesgen: 1 file not up to date: run go generate ./... or echoesgen ./...\n")

	status, stdout, stderr = r.echoesgen("./...")
	is.Equal(status, 0)
	is.Equal(stdout, "echoes_gen.go: created\n")
	is.Equal(stderr, "")

	status, stdout, stderr = r.echoesgen()
	is.Equal(status, 0)
	is.Equal(stdout+stderr, "")

	status, stdout, _ = r.echoesgen("-v")
	is.Equal(status, 0)
	const listed = "  order.created -> main.(*Orders).Created (main.go:22:1)\n  order.shipped -> main.(*Orders).Shipped (main.go:25:1)\n"
	is.Equal(stdout, "echoes_gen.go: unchanged\n"+listed)

	status, stdout, _ = r.echoesgen("-check", "-v", "-tags", "a,b c", "./...")
	is.Equal(status, 0)
	is.Equal(stdout, "echoes_gen.go: up to date\n"+listed)

	source := strings.Replace(service, "Price float64", "Price int", 1)
	r.write("main.go", source)
	status, _, stderr = r.echoesgen("-check=true", "-v=false", "-tags", "a", ".")
	is.Equal(status, 1)
	is.Equal(stderr, "echoes_gen.go: is out of date\nechoesgen: 1 file not up to date: run go generate ./... or echoesgen -tags=a .\n")

	r.write("main.go", strings.Replace(strings.Replace(source, "//echoes:event", "//echoes:evnt", 1), "batchSize=3", "batchsize=3", 1))
	before, err := os.ReadFile(filepath.Join(r.dir, "echoes_gen.go"))
	is.NoErr(err)
	status, stdout, stderr = r.echoesgen(".")
	is.Equal(status, 1)
	is.Equal(stdout, "")
	is.Equal(stderr, `main.go:22:1: unknown directive //echoes:evnt (did you mean //echoes:event?)
main.go:25:36: unknown key batchsize (did you mean batchSize?)
echoesgen: 2 problems, nothing was written
`)
	after, err := os.ReadFile(filepath.Join(r.dir, "echoes_gen.go"))
	is.NoErr(err)
	is.Equal(string(after), string(before))

	r.write("main.go", "package main\n\nfunc main() {}\n")
	status, stdout, stderr = r.echoesgen()
	is.Equal(status, 0)
	is.Equal(stdout, "echoes_gen.go: removed\n")
	is.Equal(stderr, "echoesgen: no method has a directive in 1 package\n")
}

// TestRun_7_2_CommandLine: help, version and wrong command lines.
func TestRun_7_2_CommandLine(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args           []string
		status         int
		stdout, stderr string
	}{
		{[]string{"-h"}, 0, "usage:", ""},
		{[]string{"--help"}, 0, "-check", ""},
		{[]string{"-version"}, 0, "echoesgen ", ""},
		{[]string{"-chekc"}, 2, "", "-chekc"},
		{[]string{".", "-check"}, 2, "", "flags come before packages: -check"},
		{[]string{"main.go"}, 1, "", "name packages"},
		{[]string{"list"}, 2, "", "there is no command list (did you mean echoesgen -list?)"},
		{[]string{"async", "./..."}, 2, "", "did you mean echoesgen asyncapi?"},
		{[]string{"-json"}, 2, "", "-json goes with -list"},
		{[]string{"-list", "-check"}, 2, "", "exclude each other"},
		{[]string{"-o", "a/b.go"}, 1, "", "cannot be the name of the generated files"},
		{[]string{"asyncapi", "-h"}, 0, "usage: echoesgen asyncapi", ""},
		{[]string{"asyncapi", "-check"}, 2, "", "-check goes with -o FILE"},
		{[]string{"asyncapi", "-o", "api.txt"}, 2, "", "ends with .yaml, .yml or .json"},
		{[]string{"asyncapi", "-json", "-o", "api.yaml"}, 2, "", "-json is for a file that ends with .json"},
		{[]string{"asyncapi", ".", "-json"}, 2, "", "flags come before packages: -json"},
		{[]string{"init"}, 2, "", "needs a NAME"},
		{[]string{"init", "-h"}, 0, "usage: echoesgen init", ""},
		{[]string{"init", "a", "b"}, 2, "", "another"},
		{[]string{"init", "a", "-modul", "x"}, 2, "", "-modul"},
		{[]string{"init", "a b"}, 1, "", "not a module path"},
	} {
		var stdout, stderr bytes.Buffer
		status := run(c.args, t.TempDir(), &stdout, &stderr)
		if status != c.status || !strings.Contains(stdout.String(), c.stdout) || !strings.Contains(stderr.String(), c.stderr) {
			t.Errorf("%v: status %d, want %d\nstdout %s\nstderr %s", c.args, status, c.status, stdout.String(), stderr.String())
		}
	}
}

// TestInit_7_2_WritesAService: the files are written below the named folder, and
// the flag may follow the name.
func TestInit_7_2_WritesAService(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	dir := t.TempDir()
	var stdout, stderr bytes.Buffer
	is.Equal(run([]string{"init", "billing", "-module", "example.com/acme/billing"}, dir, &stdout, &stderr), 0)
	is.Equal(stderr.String(), "")
	is.True(strings.Contains(stdout.String(), "cd billing"))
	checkout, err := filepath.Abs("../..")
	is.NoErr(err)
	is.True(strings.Contains(stdout.String(), "\n  go mod edit -replace=github.com/orionjs/orion-go="+checkout+"\n"))
	gomod, err := os.ReadFile(filepath.Join(dir, "billing", "go.mod"))
	is.NoErr(err)
	is.True(strings.HasPrefix(string(gomod), "module example.com/acme/billing\n"))

	stderr.Reset()
	is.Equal(run([]string{"init", "billing"}, dir, &stdout, &stderr), 1)
	is.True(strings.Contains(stderr.String(), "is not empty"))
}
