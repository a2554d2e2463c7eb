// Command echoesgen writes the code that connects annotated methods with the
// runtime of Echoes, and starts new services.
//
//	echoesgen [-check] [-o file] [-tags list] [-v] [packages]
//	echoesgen -list [-json] [-tags list] [packages]
//	echoesgen asyncapi [-o file] [packages]
//	echoesgen init NAME [-module PATH] [-template TEMPLATE]
//
// In a module it stands once, in one file, and covers all packages:
//
//	//go:generate go tool echoesgen ./...
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/orionjs/orion-go/generator"
)

const usage = `echoesgen writes the code that connects annotated methods with Echoes:
one file, echoes_gen.go, in each package that has such methods.

usage:
  echoesgen [flags] [packages]           generate; packages as for go build, default .
  echoesgen -list [-json] [packages]     list topics and methods
  echoesgen asyncapi [flags] [packages]  describe topics and payloads as AsyncAPI 3
  echoesgen init NAME [-module PATH] [-template TEMPLATE]
                                         start a new service in the folder NAME;
                                         echoesgen init -h lists the templates

flags:
  -check       write nothing; exit 1 when a generated file is not up to date
  -list        write nothing; print topic, kind, method, options and position of
               every listener, and of every type with a topic
  -json        with -list: print a JSON array of objects
  -o NAME      name of the generated files, default echoes_gen.go
  -tags LIST   build tags to apply, separated by commas
  -v           name every generated file, also those that did not change, and
               list its topics and methods
  -version     print the version
  -h           print this text

A method becomes a listener by a directive directly above it:

  //echoes:event topic=order.created maxRetries=5
  func (s *Orders) Created(ctx context.Context, order Order) error

  //echoes:batch topic=invoice.created batchSize=100
  func (s *Invoices) Created(ctx context.Context, items []echoes.Item[Invoice]) error

All problems in the source are printed in one run, as file:line:col: message
(fix). The exit status is then 1, and nothing is written in any package. A wrong
command line exits with 2.

In a module, put this line into one file and run go generate:

  //go:generate go tool echoesgen ./...
`

// The exit statuses.
const (
	exitOK      = 0
	exitProblem = 1
	exitUsage   = 2
)

func main() {
	os.Exit(run(os.Args[1:], "", os.Stdout, os.Stderr))
}

// run executes one command line in a folder, "" being the current one, and
// returns the exit status.
func run(args []string, dir string, stdout, stderr io.Writer) int {
	if len(args) > 0 {
		switch args[0] {
		case "init":
			return initService(args[1:], dir, stdout, stderr)
		case "asyncapi":
			return asyncAPI(args[1:], dir, stdout, stderr)
		}
	}
	flags := flag.NewFlagSet("echoesgen", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	check := flags.Bool("check", false, "")
	list := flags.Bool("list", false, "")
	asJSON := flags.Bool("json", false, "")
	output := flags.String("o", "", "")
	tags := flags.String("tags", "", "")
	verbose := flags.Bool("v", false, "")
	version := flags.Bool("version", false, "")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(stdout, usage)
		return exitOK
	case err != nil:
		return misused(stderr, err)
	case *version:
		fmt.Fprintln(stdout, "echoesgen", versionText())
		return exitOK
	case *check && *list:
		return misused(stderr, errors.New("-check and -list exclude each other"))
	case *asJSON && !*list:
		return misused(stderr, errors.New("-json goes with -list"))
	}
	if err := flagsFirst(flags.Args()); err != nil {
		return misused(stderr, err)
	}
	cfg := generator.Config{
		Dir: dir, Patterns: flags.Args(), Tags: splitTags(*tags), Output: *output, Check: *check || *list,
	}
	result, err := generator.Generate(cfg)
	if err != nil {
		return failed(stderr, err)
	}
	printNotes(stderr, result.Notes)
	switch {
	case *list:
		return printListeners(result, *asJSON, stdout, stderr)
	case *check:
		again := flags.Args()
		if *output != "" {
			again = append([]string{"-o=" + *output}, again...)
		}
		if *tags != "" {
			again = append([]string{"-tags=" + *tags}, again...)
		}
		return reportCheck(result, again, *verbose, stdout, stderr)
	}
	for _, f := range result.Files {
		if *verbose || f.Status != generator.Unchanged {
			fmt.Fprintf(stdout, "%s: %s\n", f.Path, f.Status)
		}
		if *verbose {
			listFile(stdout, f)
		}
	}
	noListeners(result.Listeners+result.Topics, result.Packages, stderr)
	return exitOK
}

func noListeners(listeners, packages int, stderr io.Writer) {
	if listeners == 0 {
		fmt.Fprintf(stderr, "echoesgen: no method has a directive in %s\n", count(packages, "package"))
	}
}

// meant are words that look like commands, and what does the same here.
var meant = map[string]string{
	"list": "-list", "ls": "-list", "check": "-check", "version": "-version", "help": "-h",
	"generate": "./...", "gen": "./...", "new": "init", "create": "init", "async": "asyncapi", "asyncAPI": "asyncapi", "openapi": "asyncapi",
}

// flagsFirst finds what is no package, and would be taken for one: a flag behind
// packages, and a word in the place of a command.
func flagsFirst(patterns []string) error {
	for i, arg := range patterns {
		if strings.HasPrefix(arg, "-") {
			return fmt.Errorf("flags come before packages: %s", arg)
		}
		if instead, ok := meant[arg]; ok && i == 0 {
			return fmt.Errorf("there is no command %s (did you mean echoesgen %s?)", arg, instead)
		}
	}
	return nil
}

func splitTags(tags string) []string {
	return strings.FieldsFunc(tags, func(r rune) bool { return r == ',' || r == ' ' })
}

func printNotes(stderr io.Writer, notes []generator.Diagnostic) {
	for _, note := range notes {
		fmt.Fprintln(stderr, note)
	}
}

func misused(stderr io.Writer, err error) int {
	fmt.Fprintf(stderr, "echoesgen: %v\nRun echoesgen -h for usage.\n", err)
	return exitUsage
}

// failed prints diagnostics as they are, so that editors find the places, and
// any other error with the command's name.
func failed(stderr io.Writer, err error) int {
	var source *generator.SourceError
	if !errors.As(err, &source) {
		fmt.Fprintf(stderr, "echoesgen: %v\n", err)
		return exitProblem
	}
	fmt.Fprintln(stderr, source)
	fmt.Fprintf(stderr, "echoesgen: %s, nothing was written\n", count(len(source.Diagnostics), "problem"))
	return exitProblem
}

// listFile prints the listeners of a file, and its publish functions.
func listFile(stdout io.Writer, f generator.File) {
	for _, l := range f.Listeners {
		fmt.Fprintf(stdout, "  %s -> %s (%s)\n", l.Topic, l.Method, l.Position())
	}
	for _, l := range f.Publishers {
		fmt.Fprintf(stdout, "  %s <- %s (%s)\n", l.Topic, l.Method, l.Position())
	}
}

// reportCheck says which files are stale and what to run: the same without
// -check.
func reportCheck(result generator.Result, again []string, verbose bool, stdout, stderr io.Writer) int {
	stale := result.Stale()
	if verbose {
		for _, f := range result.Files {
			if f.Status == generator.Unchanged {
				fmt.Fprintf(stdout, "%s: up to date\n", f.Path)
			}
			listFile(stdout, f)
		}
	}
	if len(stale) == 0 {
		return exitOK
	}
	for _, f := range stale {
		why := map[generator.Status]string{
			generator.Created: "is missing",
			generator.Updated: "is out of date",
			generator.Removed: "is left over: no listener of the package is registered there",
		}[f.Status]
		fmt.Fprintf(stderr, "%s: %s\n", f.Path, why)
	}
	fmt.Fprintf(stderr, "echoesgen: %s not up to date: run go generate ./... or %s\n", count(len(stale), "file"), strings.Join(append([]string{"echoesgen"}, again...), " "))
	return exitProblem
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func versionText() string {
	version := "(devel)"
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		version = info.Main.Version
	}
	return version + " " + runtime.Version()
}
