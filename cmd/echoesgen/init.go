package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"path/filepath"

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
  go mod tidy          finds the versions of what the service uses
  go generate ./...    writes orders/echoes_gen.go
  go test ./...

README.md says how to run it.
`, name)
	return exitOK
}
