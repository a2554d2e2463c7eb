package doccheck

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"
)

// foreign programs stand in examples, and are not ours to judge.
var foreign = []string{"kafka-consumer-groups.sh", "docker", "kubectl", "curl", "npm", "cat", "mkdir", "jq", "cp", "promtool"}

// TestPages_CommandsAreUnderstood lets a shell run all blocks of sh, with a stand-in for every program that writes
// down its command line, and then asks the programs themselves about these.
func TestPages_CommandsAreUnderstood(t *testing.T) {
	t.Parallel()
	sources(t)
	j := newJudge(t)
	seen := 0
	for _, p := range pages(t) {
		for _, b := range p.blocks {
			if b.lang != "sh" {
				continue
			}
			if _, left := b.note("not run"); left {
				continue
			}
			lines, err := j.commandLines(b.text)
			if err != nil {
				t.Errorf("%s:%d: %v", b.page, b.line, err)
				continue
			}
			for _, args := range lines {
				seen++
				if err := j.judge(args); err != nil {
					t.Errorf("%s:%d: %s: %v", b.page, b.line, strings.Join(args, " "), err)
				}
			}
		}
	}
	if seen < 20 {
		t.Errorf("%d commands were found: the blocks are not read as they should be", seen)
	}
}

// judge knows our programs.
type judge struct {
	ctx     context.Context
	top     string            // of the repository
	bin     string            // stand-ins
	built   map[string]string // pulse and echoesgen
	service string            // a folder with a module that has a service
}

func newJudge(t *testing.T) *judge {
	is := is.New(t)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 5*time.Minute)
	t.Cleanup(cancel)
	top, err := filepath.Abs(root)
	is.NoErr(err)
	j := &judge{ctx: ctx, top: top, bin: t.TempDir(), built: map[string]string{}}
	programs := t.TempDir()
	for _, name := range []string{"pulse", "echoesgen"} {
		j.built[name] = filepath.Join(programs, name)
		_, err := j.run(top, "go", "build", "-o", j.built[name], "./cmd/"+name)
		is.NoErr(err)
	}
	for _, name := range append([]string{"pulse", "echoesgen", "go", "make"}, foreign...) {
		script := "#!/bin/sh\nprintf '%s\\037' '" + name + "' \"$@\" >>\"$SEEN\"\nprintf '\\036' >>\"$SEEN\"\n"
		is.NoErr(os.WriteFile(filepath.Join(j.bin, name), []byte(script), 0o700)) //nolint:gosec // it is to be run
	}

	// A module with a service that is up to date, to run echoesgen in.
	module := moduleBeside(t)
	j.service = filepath.Join(module, "service")
	is.NoErr(os.CopyFS(filepath.Join(j.service, "billing"), os.DirFS(filepath.Join(top, "examples", "invoices", "billing"))))
	return j
}

func (j *judge) run(dir, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(j.ctx, name, args...)
	cmd.Dir, cmd.Env = dir, goEnv()
	if dir == j.top {
		cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=")
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	return string(out), nil
}

var read = regexp.MustCompile(`<\s*([\w./-]+)`)

// commandLines runs the text in a shell that knows only stand-ins.
func (j *judge) commandLines(text string) ([][]string, error) {
	dir, err := os.MkdirTemp(j.bin, "block")
	if err != nil {
		return nil, err
	}
	for _, m := range read.FindAllStringSubmatch(text, -1) { // what is read has to be there
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(m[1])), nil, 0o600); err != nil {
			return nil, err
		}
	}
	log := filepath.Join(dir, "seen")
	sh := exec.CommandContext(j.ctx, "/bin/sh", "-c", "cd() { :; }\n"+text)
	sh.Dir, sh.Env = dir, []string{"PATH=" + j.bin, "SEEN=" + log, "HOME=" + dir}
	if out, err := sh.CombinedOutput(); err != nil || len(out) > 0 && !strings.Contains(text, "echo") {
		return nil, fmt.Errorf("the shell says %v: %s (programs that are not ours are listed in shell_test.go)", err, out)
	}
	seen, err := os.ReadFile(log)
	if err != nil {
		return nil, fmt.Errorf("no command was run: %w", err)
	}
	var lines [][]string
	for line := range strings.SplitSeq(strings.TrimSuffix(string(seen), "\036"), "\036") {
		lines = append(lines, strings.Split(strings.TrimSuffix(line, "\037"), "\037"))
	}
	return lines, nil
}

// judge says what is wrong with a command line.
func (j *judge) judge(args []string) error {
	name, rest := args[0], args[1:]
	switch {
	case slices.Contains(foreign, name):
		return nil
	case name == "make":
		_, err := j.run(j.top, "make", append([]string{"-n"}, rest...)...)
		return err
	case name == "go":
		return j.goCommand(rest)
	case name == "pulse":
		return j.pulse(rest)
	case name == "echoesgen":
		return j.echoesgen(rest)
	case strings.ToUpper(name) == name:
		return nil // COMMAND stands for the reader's own
	}
	return fmt.Errorf("no test knows the program %s", name)
}

// pulse has the command line parsed, with --help so that nothing is done, and judges a command that it would run.
func (j *judge) pulse(args []string) error {
	if _, err := j.run(j.top, j.built["pulse"], append([]string{"--help"}, args...)...); err != nil {
		return err
	}
	if at := slices.Index(args, "--"); at >= 0 && len(args) > at+1 {
		return j.judge(args[at+1:])
	}
	return nil
}

// echoesgen runs for real, in a module with a service.
func (j *judge) echoesgen(args []string) error {
	_, err := j.run(j.service, j.built["echoesgen"], args...)
	return err
}

const self = "github.com/orionjs/orion-go"

func (j *judge) goCommand(args []string) error {
	switch {
	case len(args) > 1 && (args[0] == "run" || args[0] == "tool"):
		program := args[1]
		switch filepath.Base(program) {
		case "pulse":
			return j.pulse(args[2:])
		case "echoesgen":
			return j.echoesgen(args[2:])
		}
		if program == "." {
			return nil // the reader's own
		}
		return j.packages(program)
	case len(args) > 0 && (args[0] == "test" || args[0] == "build" || args[0] == "vet" || args[0] == "install" || args[0] == "get" || args[0] == "doc" || args[0] == "list"):
		for _, arg := range args[1:] {
			if strings.HasPrefix(arg, "./") || strings.HasPrefix(arg, self) {
				if err := j.packages(arg); err != nil {
					return err
				}
			}
		}
		return nil
	case len(args) > 0 && (args[0] == "generate" || args[0] == "mod" || args[0] == "version"):
		return nil
	}
	return fmt.Errorf("no test knows this use of go")
}

// packages says whether a pattern matches something.
func (j *judge) packages(pattern string) error {
	pattern, _, _ = strings.Cut(pattern, "@")
	out, err := j.run(j.top, "go", "list", pattern)
	if err == nil && (out == "" || strings.Contains(out, "matched no packages")) {
		err = fmt.Errorf("%s matches no packages", pattern)
	}
	return err
}
