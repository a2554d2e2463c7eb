package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/orionjs/orion-go/generator"
)

const asyncAPIUsage = `usage: echoesgen asyncapi [flags] [packages]

Describes the topics of all listeners in the packages, and those of types with
//echoes:topic, with their payloads, as an AsyncAPI 3 document. Packages are as for
go build, default .

  -o FILE           write FILE, as JSON when it ends with .json, else as YAML, and
                    only when it changed; default: print YAML
  -json             print JSON
  -check            with -o: write nothing; exit 1 when FILE is not up to date
  -title TEXT       name of the application; default: the module's last element
  -apiversion TEXT  version of the application; default 0.0.0
  -tags LIST        build tags to apply, separated by commas
`

// asyncAPI describes a service.
func asyncAPI(args []string, dir string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("echoesgen asyncapi", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	file := flags.String("o", "", "")
	asJSON := flags.Bool("json", false, "")
	check := flags.Bool("check", false, "")
	title := flags.String("title", "", "")
	version := flags.String("apiversion", "", "")
	tags := flags.String("tags", "", "")
	err := flags.Parse(args)
	ending := strings.ToLower(filepath.Ext(*file))
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(stdout, asyncAPIUsage)
		return exitOK
	case err == nil && *check && *file == "":
		err = errors.New("-check goes with -o FILE")
	case err == nil && *asJSON && *file != "" && ending != ".json":
		err = errors.New("-json is for a file that ends with .json")
	case err == nil && *file != "" && ending != ".json" && ending != ".yaml" && ending != ".yml":
		err = fmt.Errorf("-o %s: the file ends with .yaml, .yml or .json", *file)
	case err == nil:
		err = flagsFirst(flags.Args())
	}
	if err != nil {
		fmt.Fprintf(stderr, "echoesgen: %v\n%s", err, asyncAPIUsage)
		return exitUsage
	}
	described, err := generator.AsyncAPI(
		generator.Config{Dir: dir, Patterns: flags.Args(), Tags: splitTags(*tags), Check: *check},
		generator.Document{Title: *title, Version: *version, JSON: *asJSON || ending == ".json", File: *file},
	)
	if err != nil {
		return failed(stderr, err)
	}
	printNotes(stderr, described.Notes)
	noListeners(described.Listeners+described.Topics, described.Packages, stderr)
	switch {
	case *file == "":
		if _, err := stdout.Write(described.Content); err != nil {
			return failed(stderr, fmt.Errorf("printing the document: %w", err))
		}
	case *check && described.Status != generator.Unchanged:
		fmt.Fprintf(stderr, "%s: is not up to date: run the same without -check\n", described.Path)
		return exitProblem
	case !*check && described.Status != generator.Unchanged:
		fmt.Fprintf(stdout, "%s: %s\n", described.Path, described.Status)
	}
	return exitOK
}
