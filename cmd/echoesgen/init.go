package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/orionjs/orion-go/templates"
)

const initUsage = `usage: echoesgen init NAME [-module PATH]

Writes a small service into the new folder NAME: main.go, a package with a batch
and an event listener, its test, a README and a Makefile.

  -module PATH   the path of the service's module, such as example.com/billing;
                 default: the last element of NAME
`

// initService renders the starter service.
func initService(args []string, dir string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("echoesgen init", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	module := flags.String("module", "", "")
	// The flag may stand before the name or after it.
	err := flags.Parse(args)
	name := flags.Arg(0)
	if err == nil && flags.NArg() > 0 {
		err = flags.Parse(flags.Args()[1:])
	}
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(stdout, initUsage)
		return exitOK
	case err == nil && name == "":
		err = errors.New("init needs a NAME for the folder of the service")
	case err == nil && flags.NArg() > 0:
		err = fmt.Errorf("init takes one NAME, and %q is another", flags.Arg(0))
	}
	if err != nil {
		fmt.Fprintf(stderr, "echoesgen: %v\n%s", err, initUsage)
		return exitUsage
	}
	target := name
	if !filepath.IsAbs(target) {
		target = filepath.Join(dir, target)
	}
	files, err := templates.Render(target, templates.Service{Module: *module})
	if err != nil {
		fmt.Fprintf(stderr, "echoesgen: %v\n", err)
		return exitProblem
	}
	for _, f := range files {
		fmt.Fprintln(stdout, filepath.Join(name, f))
	}
	fmt.Fprintf(stdout, `
Next:
  cd %s
%s  go mod tidy          finds the versions of what the service uses
  go generate ./...    writes orders/echoes_gen.go
  go test ./...
  go tool pulse dev -- go run . -publish 5

README.md says more.
`, name, replaceStep())
	return exitOK
}

const modulePath = "github.com/orionjs/orion-go"

// replaceStep is the line about the module of this command for those who did not
// get it by a version, as nobody does until one is tagged: go mod tidy would not
// find it.
func replaceStep() string {
	clone := "PATH/TO/CLONE"
	if _, file, _, ok := runtime.Caller(0); ok {
		root := filepath.Dir(filepath.Dir(filepath.Dir(file)))
		if strings.Contains(filepath.ToSlash(root), modulePath+"@v") {
			return "" // from the module cache
		}
		// Built with -trimpath, the file is none of this machine.
		if _, err := os.Stat(filepath.Join(root, "go.mod")); err == nil && filepath.IsAbs(root) {
			clone = root
		}
	}
	return fmt.Sprintf("  go mod edit -replace=%s=%s\n                       needed until a version is tagged\n", modulePath, clone)
}
