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
	"github.com/orionjs/orion-go/pulse/pulsetest/kafkaserver"
	"github.com/orionjs/orion-go/templates"
)

// TestRender_7_2_PulseGeneratesCompilesPassesAndRuns renders the service into a
// module of its own and does what its README says, with this checkout for the
// runtime.
func TestRender_7_2_PulseGeneratesCompilesPassesAndRuns(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	database := ""
	if !testing.Short() {
		database = pulsetest.Database(t).Name()
	}
	m := newModule(t, templates.Service{Name: database})
	is.Equal(m.files, []string{"Makefile", "README.md", "go.mod", "main.go", "main_test.go", "orders/orders.go", "orders/orders_test.go"})
	m.check()
	t.Run("runs and stops", func(t *testing.T) {
		out := m.serve(t, []string{"MONGODB_URI=" + pulsetest.URI(t)}, []string{"-publish", "5"}, func(out string) bool {
			return strings.Count(out, "order created") == 5 && strings.Count(out, "order shipped") == 5
		})
		is.Equal(strings.Count(out, "order created"), 5)
	})
}

// TestRender_7_5_MigrationGeneratesCompilesPassesAndRuns does the same with the
// service that moves from Kafka to Pulse, and takes it through all steps.
func TestRender_7_5_MigrationGeneratesCompilesPassesAndRuns(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	database := ""
	if !testing.Short() {
		database = pulsetest.Database(t).Name()
	}
	m := newModule(t, templates.Service{Template: "migration", Name: database})
	is.Equal(m.files, []string{
		"Makefile", "README.md", "go.mod", "main.go", "main_test.go",
		"orders/book.go", "orders/orders.go", "orders/orders_test.go", "steps.go",
	})
	m.check()
	t.Run("runs through the steps", func(t *testing.T) {
		is := is.New(t)
		// The topic has no name of its own, so the broker is this test's.
		broker, err := kafkaserver.Start(t.Context(), kafkaserver.Options{Progress: t.Output()})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { is.NoErr(broker.Stop()) }()
		env := []string{"MONGODB_URI=" + pulsetest.URI(t), "KAFKA_BROKERS=" + broker.Addr()}
		for _, step := range []struct{ name, transport string }{
			{"kafka", "kafka"}, {"both", "kafka"}, {"switch", "pulse"}, {"pulse", "pulse"},
		} {
			out := m.serve(t, env, []string{"-step", step.name, "-publish", "5"}, func(out string) bool {
				return strings.Count(out, "order created") == 5
			})
			for line := range strings.Lines(out) {
				if strings.Contains(line, "order created") {
					is.True(strings.Contains(line, "transport="+step.transport))
				}
			}
		}
	})
}

// module is a rendered service.
type module struct {
	t     *testing.T
	dir   string
	files []string
}

func newModule(t *testing.T, s templates.Service) *module {
	t.Helper()
	is := is.New(t)
	m := &module{t: t, dir: filepath.Join(t.TempDir(), "billing")}
	s.Module = "example.com/acme/billing"
	_, files, err := templates.Render(m.dir, s)
	is.NoErr(err)
	m.files = files
	return m
}

func (m *module) run(args ...string) {
	m.t.Helper()
	cmd := exec.Command("go", args...)
	cmd.Dir = m.dir
	cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		m.t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// check makes the service compile against this checkout, in the order of its
// README, and builds the program that serve starts.
func (m *module) check() {
	m.t.Helper()
	is := is.New(m.t)
	checkout, err := filepath.Abs("..")
	is.NoErr(err)
	m.run("mod", "edit", "-replace", "github.com/orionjs/orion-go="+checkout)
	m.run("mod", "tidy")
	m.run("generate", "./...")
	m.run("vet", "./...")
	m.run("test", "./...")
	m.run("tool", "echoesgen", "-check", "./...")
	m.run("tool", "pulse", "version")
	m.run("build", "-o", "service", ".")
	for _, name := range m.files {
		if !strings.HasSuffix(name, ".go") {
			continue
		}
		out, err := exec.Command(filepath.Join(goroot(m.t), "bin", "gofmt"), "-l", filepath.Join(m.dir, name)).CombinedOutput()
		is.NoErr(err)
		is.Equal(string(out), "")
	}
}

// serve starts the service, waits until it waits for events and has done what it
// should, stops it as Ctrl-C does, and returns what it has written.
func (m *module) serve(t *testing.T, env, args []string, done func(out string) bool) string {
	t.Helper()
	is := is.New(t)
	cmd := exec.Command(filepath.Join(m.dir, "service"), args...)
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.StderrPipe()
	is.NoErr(err)
	is.NoErr(cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() }) // if the test has failed before the end
	var text strings.Builder
	stopping := false
	for lines := bufio.NewScanner(out); lines.Scan(); {
		text.WriteString(lines.Text() + "\n")
		if !stopping && strings.Contains(text.String(), "waiting for events") && done(text.String()) {
			stopping = true
			is.NoErr(cmd.Process.Signal(os.Interrupt))
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("the service %v ended with %v:\n%s", args, err, text.String())
	}
	_, end, _ := strings.Cut(text.String(), "stopping: running handlers finish")
	is.True(strings.HasSuffix(strings.TrimSpace(end), "stopped"))
	return text.String()
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
		{"x", templates.Service{Module: "example.com/a", Template: "pulsar"}, ""},
		// What the go command keeps for itself does not build as a module's path.
		{"go", templates.Service{}, ""},
		{"cmd", templates.Service{}, ""},
		{"main", templates.Service{}, ""},
		{"time", templates.Service{}, ""},
		{"vendor", templates.Service{}, ""},
		{"x", templates.Service{Module: "log/slog"}, ""},
		{"x", templates.Service{Module: "example.com/vendor/a"}, ""},
		{"time", templates.Service{Module: "example.com/time"}, "time"},
		{"logs", templates.Service{Module: "log/billing"}, "billing"},
	} {
		is := is.New(t)
		dir := filepath.Join(t.TempDir(), c.dir)
		_, _, err := templates.Render(dir, c.service)
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
	_, _, err := templates.Render(dir, templates.Service{Module: "example.com/a"})
	is.True(err != nil)
	content, err := os.ReadFile(filepath.Join(dir, "main.go"))
	is.NoErr(err)
	is.Equal(string(content), "mine")
}
