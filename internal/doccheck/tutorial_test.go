package doccheck

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"

	"github.com/orionjs/orion-go/pulse/pulsetest"
)

// TestReadme_TutorialWorksAsWritten runs the tutorial's commands and files in an empty folder, in the order
// of the text.
func TestReadme_TutorialWorksAsWritten(t *testing.T) {
	database := pulsetest.Database(t).Name()
	is := is.New(t)
	sources(t)
	readme := pageNamed(t, "README.md")
	top, err := filepath.Abs(root)
	is.NoErr(err)
	dir := t.TempDir()
	is.NoErr(os.Symlink(top, filepath.Join(dir, "orion-go"))) // "beside a clone of this repository"

	// One shell runs it all, as a reader's does; files are written where the text has them. The database
	// gets a name of its own, so that runs do not meet.
	script, output := "set -e\n", ""
	for _, b := range readme.blocks {
		output += b.text
		what, _ := b.note("tutorial")
		name, file := strings.CutPrefix(what, "file ")
		switch {
		case what == "commands":
			script += b.text
		case file:
			body := strings.Replace(b.text, `Database: "hello"`, `Database: "`+database+`"`, 1)
			source := filepath.Join(dir, fmt.Sprintf("part%d", b.line))
			is.NoErr(os.WriteFile(source, []byte(body), 0o600))
			script += "cp '" + source + "' '" + name + "'\n"
		}
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
		is.True(strings.Contains(output, line))
		if !strings.Contains(out.String(), line) {
			t.Errorf("the tutorial did not print %q:\n%s", line, out.String())
		}
	}
	is.True(strings.Contains(out.String(), "ok  \thello\t")) // its test
}
