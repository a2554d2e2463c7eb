// Package orion_test keeps the README true: its tutorial is run as it stands there.
package orion_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"

	"github.com/orionjs/orion-go/pulse/pulsetest"
)

// marked finds the parts of the tutorial: a comment that says what the fenced block after it is.
var marked = regexp.MustCompile("(?s)<!-- tutorial:(commands|file (\\S+)) -->\n```\\w+\n(.*?)```\n")

// TestReadme_TutorialWorksAsWritten runs the tutorial's commands and files in an empty folder, in the order
// of the text.
func TestReadme_TutorialWorksAsWritten(t *testing.T) {
	database := pulsetest.Database(t).Name()
	is := is.New(t)
	readme, err := os.ReadFile("README.md")
	is.NoErr(err)
	root, err := os.Getwd()
	is.NoErr(err)
	dir := t.TempDir()
	is.NoErr(os.Symlink(root, filepath.Join(dir, "orion-go"))) // "beside a clone of this repository"

	// One shell runs it all, as a reader's does; files are written where the text has them. The database
	// gets a name of its own, so that runs do not meet.
	script := "set -e\n"
	for i, part := range marked.FindAllStringSubmatch(string(readme), -1) {
		what, name, body := part[1], part[2], part[3]
		if what == "commands" {
			script += body
			continue
		}
		body = strings.Replace(body, `Database: "hello"`, `Database: "`+database+`"`, 1)
		source := filepath.Join(dir, "part"+string(rune('0'+i)))
		is.NoErr(os.WriteFile(source, []byte(body), 0o600))
		script += "cp '" + source + "' '" + name + "'\n"
	}
	is.True(strings.Contains(script, "go generate")) // the tutorial was found

	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", script)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "MONGODB_URI="+pulsetest.URI(t), "GOWORK=off", "GOFLAGS=")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		t.Fatalf("the tutorial failed: %v\n%s", err, out.String())
	}
	for _, line := range []string{ // as the text shows them
		"a batch of 100 invoices, 199900 cents, the first is INV-001\n",
		"a batch of 100 invoices, 199900 cents, the first is INV-101\n",
		"a batch of 50 invoices, 99950 cents, the first is INV-201\n",
	} {
		is.True(strings.Contains(string(readme), line))
		if !strings.Contains(out.String(), line) {
			t.Errorf("the tutorial did not print %q:\n%s", line, out.String())
		}
	}
	is.True(strings.Contains(out.String(), "ok  \thello\t")) // its test
}
