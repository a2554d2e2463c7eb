package doccheck

import (
	"debug/elf"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/matryer/is"
	"go.yaml.in/yaml/v3"
)

// TestRelease_CommandsInstall: go install puts both commands where GOBIN says, and both know what they are.
func TestRelease_CommandsInstall(t *testing.T) {
	t.Parallel()
	sources(t)
	is := is.New(t)
	bin := t.TempDir()
	install := exec.CommandContext(t.Context(), "go", "install", "./cmd/pulse", "./cmd/echoesgen")
	install.Dir, install.Env = root, append(os.Environ(), "GOWORK=off", "GOFLAGS=", "GOBIN="+bin)
	out, err := install.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for name, version := range map[string]string{"pulse": "version", "echoesgen": "-version"} {
		out, err := exec.CommandContext(t.Context(), filepath.Join(bin, name), version).CombinedOutput()
		is.NoErr(err)
		is.True(strings.Contains(string(out), runtime.Version())) // with what it was built
	}
}

// TestRelease_ContainerHasAStaticBinary runs the build of the Containerfile, without a container: the binary must need
// nothing of the empty image around it.
func TestRelease_ContainerHasAStaticBinary(t *testing.T) {
	t.Parallel()
	sources(t)
	is := is.New(t)
	file, err := os.ReadFile(filepath.Join(root, "Containerfile"))
	is.NoErr(err)
	command := regexp.MustCompile(`(?m)^RUN (CGO_ENABLED=0 go build .*)$`).FindSubmatch(file)
	is.True(command != nil) // the build was found
	binary := filepath.Join(t.TempDir(), "pulse")
	is.True(strings.Contains(string(command[1]), " -o /out/pulse "))
	build := exec.CommandContext(t.Context(), "sh", "-c", strings.Replace(string(command[1]), "/out/pulse", binary, 1)) //nolint:gosec // the repository's own
	build.Dir, build.Env = root, append(os.Environ(), "GOWORK=off", "GOFLAGS=", "GOOS=linux")
	out, err := build.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	image, err := elf.Open(binary)
	is.NoErr(err)
	defer func() { is.NoErr(image.Close()) }()
	for _, part := range image.Progs {
		if part.Type == elf.PT_INTERP {
			loader, err := io.ReadAll(part.Open())
			is.NoErr(err)
			t.Errorf("the binary needs %s, which an empty image does not have", loader)
		}
	}
	for _, copied := range regexp.MustCompile(`(?m)^COPY ([\w.]+) ([\w.]+) \./$`).FindAllSubmatch(file, -1) {
		for _, name := range copied[1:] {
			_, err := os.Stat(filepath.Join(root, string(name)))
			is.NoErr(err)
		}
	}
}

// TestRelease_IssueFormsAreWellFormed looks for what GitHub demands of a form.
func TestRelease_IssueFormsAreWellFormed(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	forms, err := filepath.Glob(filepath.Join(root, ".github", "ISSUE_TEMPLATE", "*.yml"))
	is.NoErr(err)
	is.True(len(forms) >= 3)
	for _, name := range forms {
		text, err := os.ReadFile(name)
		is.NoErr(err)
		var form struct {
			Name, Description string
			Body              []struct {
				Type, ID   string
				Attributes struct{ Label, Value string }
			}
			Links []struct{ Name, URL, About string } `yaml:"contact_links"`
		}
		is.NoErr(yaml.Unmarshal(text, &form))
		if filepath.Base(name) == "config.yml" {
			is.True(len(form.Links) > 0)
			continue
		}
		is.True(form.Name != "" && form.Description != "" && len(form.Body) > 0)
		seen := map[string]bool{}
		for _, part := range form.Body {
			is.True(part.Type == "markdown" && part.Attributes.Value != "" || part.ID != "" && part.Attributes.Label != "" && !seen[part.ID])
			seen[part.ID] = true
		}
	}
}
