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

const initUsage = `usage: echoesgen init NAME [-module PATH] [-template TEMPLATE]

Writes a small service into the new folder NAME: main.go, a package with
listeners, its test, a README and a Makefile.

  -module PATH         the path of the service's module, such as
                       example.com/billing; default: the last element of NAME
  -template TEMPLATE   what the service does:
`

// printInitUsage prints initUsage with the templates.
func printInitUsage(w io.Writer) {
	fmt.Fprint(w, initUsage)
	for i, t := range templates.All() {
		note := ""
		if i == 0 {
			note = " (default)"
		}
		fmt.Fprintf(w, "                       %-10s %s%s\n", t.Name, t.About, note)
	}
}

// initService renders a starter service.
func initService(args []string, dir string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("echoesgen init", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	module := flags.String("module", "", "")
	name := flags.String("template", "", "")
	// Flags may stand before the folder or after it.
	err := flags.Parse(args)
	folder := flags.Arg(0)
	if err == nil && flags.NArg() > 0 {
		err = flags.Parse(flags.Args()[1:])
	}
	switch {
	case errors.Is(err, flag.ErrHelp):
		printInitUsage(stdout)
		return exitOK
	case err == nil && folder == "":
		err = errors.New("init needs a NAME for the folder of the service")
	case err == nil && flags.NArg() > 0:
		err = fmt.Errorf("init takes one NAME, and %q is another", flags.Arg(0))
	}
	if err != nil {
		fmt.Fprintf(stderr, "echoesgen: %v\n", err)
		printInitUsage(stderr)
		return exitUsage
	}
	target := folder
	if !filepath.IsAbs(target) {
		target = filepath.Join(dir, target)
	}
	template, files, err := templates.Render(target, templates.Service{Template: *name, Module: *module})
	if err != nil {
		fmt.Fprintf(stderr, "echoesgen: %v\n", err)
		return exitProblem
	}
	for _, f := range files {
		fmt.Fprintln(stdout, filepath.Join(folder, f))
	}
	fmt.Fprintf(stdout, `
Next:
  cd %s
%s  go mod tidy          finds the versions of what the service uses
  go generate ./...    writes orders/echoes_gen.go
  go test ./...
  %s

README.md says more.
`, folder, replaceStep(), template.Run)
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
