package templates_test

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/matryer/is"

	"github.com/orionjs/orion-go/pulse/pulsetest"
	"github.com/orionjs/orion-go/templates"
)

// TestRender_7_2_GeneratesCompilesAndPasses renders the service into a module of
// its own and does what its README says, with this checkout for the runtime.
func TestRender_7_2_GeneratesCompilesAndPasses(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	checkout, err := filepath.Abs("..")
	is.NoErr(err)
	dir := filepath.Join(t.TempDir(), "billing")
	database := ""
	if !testing.Short() {
		database = pulsetest.Database(t).Name()
	}
	files, err := templates.Render(dir, templates.Service{Module: "example.com/acme/billing", Name: database})
	is.NoErr(err)
	is.Equal(files, []string{"Makefile", "README.md", "go.mod", "main.go", "main_test.go", "orders/orders.go", "orders/orders_test.go"})

	run := func(args ...string) {
		t.Helper()
		cmd := exec.Command("go", args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOWORK=off")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	run("mod", "edit", "-replace", "github.com/orionjs/orion-go="+checkout)
	run("mod", "tidy")
	run("generate", "./...")
	run("vet", "./...")
	run("test", "./...")
	run("tool", "echoesgen", "-check", "./...")
	run("tool", "pulse", "version")
	run("build", "-o", "service", ".")
	t.Run("runs and stops", func(t *testing.T) { runAndStop(t, filepath.Join(dir, "service"), pulsetest.URI(t)) })

	for _, name := range files {
		if !strings.HasSuffix(name, ".go") {
			continue
		}
		out, err := exec.Command(filepath.Join(goroot(t), "bin", "gofmt"), "-l", filepath.Join(dir, name)).CombinedOutput()
		is.NoErr(err)
		is.Equal(string(out), "")
	}
}

// runAndStop starts the service, waits until it has handled what it published,
// and stops it as Ctrl-C does.
func runAndStop(t *testing.T, service, uri string) {
	is := is.New(t)
	cmd := exec.Command(service, "-publish", "5")
	cmd.Env = append(os.Environ(), "MONGODB_URI="+uri)
	out, err := cmd.StderrPipe()
	is.NoErr(err)
	is.NoErr(cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() }) // if the test has failed before the end
	var text strings.Builder
	for lines := bufio.NewScanner(out); lines.Scan(); {
		line := lines.Text()
		text.WriteString(line + "\n")
		interesting := strings.Contains(line, "order created") || strings.Contains(line, "order shipped") || strings.Contains(line, "waiting for events")
		all := text.String()
		if interesting && strings.Count(all, "order created") == 5 && strings.Count(all, "order shipped") == 5 && strings.Contains(all, "waiting for events") {
			is.NoErr(cmd.Process.Signal(os.Interrupt))
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("the service ended with %v:\n%s", err, text.String())
	}
	_, end, _ := strings.Cut(text.String(), "stopping: running handlers finish")
	is.True(strings.HasSuffix(strings.TrimSpace(end), "stopped"))
}

func goroot(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// TestRender_7_2_Names: what becomes of the names, and which are refused.
func TestRender_7_2_Names(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		dir     string
		service templates.Service
		want    string
	}{
		{"shop", templates.Service{}, "shop"},
		{"x", templates.Service{Module: "example.com/shop.api/v2"}, "shop-api"},
		{"x", templates.Service{Module: "v2"}, "v2"},
		{"x", templates.Service{Module: "example.com/a", Name: "b"}, "b"},
		{"x", templates.Service{Module: "example.com/a b"}, ""},
		{"x", templates.Service{Module: "/abs"}, ""},
		{"x", templates.Service{Module: "a//b"}, ""},
		{"x", templates.Service{Module: "example.com/a", Name: "b$"}, ""},
	} {
		is := is.New(t)
		dir := filepath.Join(t.TempDir(), c.dir)
		_, err := templates.Render(dir, c.service)
		if c.want == "" {
			is.True(err != nil)
			_, err := os.Stat(dir)
			is.True(os.IsNotExist(err)) // nothing is written
			continue
		}
		is.NoErr(err)
		main, err := os.ReadFile(filepath.Join(dir, "main.go"))
		is.NoErr(err)
		is.True(strings.Contains(string(main), `ConsumerGroup: "`+c.want+`"`))
	}
}

// TestRender_7_2_KeepsWhatIsThere: a folder with content is refused as it is.
func TestRender_7_2_KeepsWhatIsThere(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	dir := t.TempDir()
	is.NoErr(os.WriteFile(filepath.Join(dir, "main.go"), []byte("mine"), 0o644))
	_, err := templates.Render(dir, templates.Service{Module: "example.com/a"})
	is.True(err != nil)
	content, err := os.ReadFile(filepath.Join(dir, "main.go"))
	is.NoErr(err)
	is.Equal(string(content), "mine")
}
