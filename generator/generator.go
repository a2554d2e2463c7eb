// Package generator writes the code that connects annotated methods with the
// runtime of Echoes: for every package that has such methods one file,
// echoes_gen.go, with a decode function for each parameter type and the method
// EchoesListeners for each service (spec 7.1 to 7.4).
//
// A run is a pipeline: load reads packages, directive finds the annotated
// methods, resolve works out what their parameters are made of, emit writes the
// source and output brings it onto the disk. Problems of all stages and packages
// are collected; when there is one, nothing is written anywhere.
package generator

import (
	"fmt"
	"go/token"
	"os"
	"path/filepath"
	"strings"

	"github.com/orionjs/orion-go/generator/internal/diag"
	"github.com/orionjs/orion-go/generator/internal/directive"
	"github.com/orionjs/orion-go/generator/internal/emit"
	"github.com/orionjs/orion-go/generator/internal/load"
	"github.com/orionjs/orion-go/generator/internal/output"
	"github.com/orionjs/orion-go/generator/internal/resolve"
)

// Config says what to generate. The zero value generates for the package in the
// current folder.
type Config struct {
	// Dir is the folder that Patterns are relative to, and that paths in
	// diagnostics and results are made relative to. Default: the current folder.
	Dir string
	// Patterns name packages as for the go command, such as "./...". Packages
	// outside the main module are passed over. Default: ".".
	Patterns []string
	// Tags are build tags to apply while loading.
	Tags []string
	// Output is the name of the generated files, the same in every package, such as
	// "listeners_gen.go". Default: "echoes_gen.go". A package has one generated
	// file: those that a run with another name left are removed.
	Output string
	// Check compares only: nothing is written, and the result says which files
	// would change. Positions of listeners and line ends do not count: a file that
	// differs in them alone is up to date.
	Check bool
	// Env is the environment of the go command, in the form of os.Environ.
	// Default: that of the process.
	Env []string
}

// Status says what a run did with a file, or would do in check mode.
type Status = output.Status

// The states of a file after a run.
const (
	Unchanged = output.Unchanged
	Created   = output.Created
	Updated   = output.Updated
	Removed   = output.Removed
)

// File is one generated file.
type File struct {
	// Path is relative to Config.Dir when the file lies below it.
	Path   string
	Status Status
	// Listeners are those that the file registers, in its order, and Publishers the
	// functions for types with a topic.
	Listeners, Publishers []Listener
}

// Result is what a run did.
type Result struct {
	// Files has the generated file of every package that has listeners or topics,
	// and those of packages that no longer have any, which are removed. Sorted by
	// import path.
	Files []File
	// Packages is how many packages were read, Listeners how many listeners they
	// have, and Topics how many types with a topic.
	Packages, Listeners, Topics int
	// Notes are no problems, but may surprise: settings that need others to have an
	// effect, methods of parameter types that decoding does not call, listeners that
	// take another type than their topic has, packages that do not parse and that no
	// listener needs. Sorted by place.
	Notes []Diagnostic

	loads int
}

// Stale returns the files that differ from what they should be. After a run
// without Config.Check they have been brought up to date.
func (r Result) Stale() []File {
	var out []File
	for _, f := range r.Files {
		if f.Status != Unchanged {
			out = append(out, f)
		}
	}
	return out
}

// Diagnostic is one problem in the source, with its place and the way out.
type Diagnostic = diag.Diagnostic

// SourceError reports the problems that keep a run from generating. It holds all
// of them, sorted by place. Nothing was written in any package.
type SourceError struct {
	Diagnostics []Diagnostic
}

// Error returns the diagnostics, one a line.
func (e *SourceError) Error() string {
	lines := make([]string, len(e.Diagnostics))
	for i, d := range e.Diagnostics {
		lines[i] = d.String()
	}
	return strings.Join(lines, "\n")
}

// Generate reads the packages and writes their generated files. The packages
// need not compile: what they lack may be what is generated now.
//
// It returns a *SourceError when the source has problems, and another error when
// packages could not be read or files not be written. Several runs for one
// package at a time are safe for the files, and the last one wins.
func Generate(cfg Config) (Result, error) {
	cfg, err := cfg.complete()
	if err != nil {
		return Result{}, err
	}
	r, err := read(cfg)
	if err != nil {
		return Result{}, err
	}
	if r.problems.Len() > 0 {
		return Result{}, &SourceError{r.problems.Sorted(cfg.Dir)}
	}
	result := Result{Packages: len(r.set.Packages), Listeners: r.listeners, Topics: r.topics, Notes: r.notes.Sorted(cfg.Dir), loads: r.set.Loads}
	var files []output.File
	for _, p := range r.packages {
		written, err := p.files()
		if err != nil {
			return Result{}, err
		}
		for _, file := range written {
			status := file.Status()
			if cfg.Check && file.UpToDate() {
				status = Unchanged
			}
			f := File{Path: diag.Relative(cfg.Dir, file.Path), Status: status}
			if file.Content != nil {
				f.Listeners, f.Publishers = p.listeners(cfg.Dir), p.publishers(cfg.Dir)
			}
			files = append(files, file)
			result.Files = append(result.Files, f)
		}
	}
	if cfg.Check {
		return result, nil
	}
	if err := output.Apply(files); err != nil {
		return Result{}, err
	}
	return result, nil
}

func (c Config) complete() (Config, error) {
	if c.Dir == "" {
		c.Dir = "."
	}
	dir, err := filepath.Abs(c.Dir)
	if err != nil {
		return c, fmt.Errorf("finding the folder to generate in: %w", err)
	}
	// The go command reports paths without symbolic links.
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	if info, err := os.Stat(dir); err != nil {
		return c, fmt.Errorf("finding the folder to generate in: %w", err)
	} else if !info.IsDir() {
		return c, fmt.Errorf("%s is not a folder", c.Dir)
	}
	c.Dir = dir
	if len(c.Patterns) == 0 {
		c.Patterns = []string{"."}
	}
	if c.Output == "" {
		c.Output = load.GeneratedFile
	}
	return c, load.CheckOutput(c.Output)
}

// run is everything that was read.
type run struct {
	set       *load.Set
	packages  []*pkg
	listeners int
	topics    int
	problems  diag.List
	notes     diag.List
}

// pkg is one package on its way through the pipeline.
type pkg struct {
	*load.Package
	model *resolve.Package
}

// read runs the stages that only read.
func read(cfg Config) (*run, error) {
	r := &run{}
	set, err := load.Load(load.Config{Dir: cfg.Dir, Patterns: cfg.Patterns, Tags: cfg.Tags, Output: cfg.Output, Env: cfg.Env}, &r.problems, &r.notes)
	if err != nil {
		return nil, err
	}
	r.set = set
	var models []*resolve.Package
	var generated []*load.Package
	for _, p := range set.Packages {
		listeners, topics := r.scan(p)
		r.listeners += len(listeners)
		r.topics += len(topics)
		out := &pkg{Package: p}
		r.packages = append(r.packages, out)
		something := len(listeners)+len(topics) > 0
		if p.Old.Foreign && something {
			r.problems.Add(token.Position{Filename: p.Generated, Line: 1, Column: 1}, fmt.Sprintf("%s was not written by echoesgen, and would be replaced", cfg.Output), "rename it, or delete it")
		}
		if p.Old.Err != nil {
			return nil, fmt.Errorf("reading the generated file: %w", p.Old.Err)
		}
		if something && !p.Broken && p.Types != nil && p.TypesInfo != nil {
			out.model = resolve.Resolve(set, p, listeners, topics, &r.problems)
			models, generated = append(models, out.model), append(generated, p)
			r.notes.Append(&out.model.Notes)
		}
	}
	resolve.Mismatches(models, &r.notes)
	load.NoteMissing(generated, strings.TrimSuffix(resolve.EchoesPath, "/echoes"), &r.notes)
	return r, nil
}

// scan finds the listeners of a package and its types with a topic, and directives
// in files where they have no effect.
func (r *run) scan(p *load.Package) (listeners []directive.Listener, topics []directive.TypeTopic) {
	for _, syntax := range p.Syntax {
		if p.Unparsed[p.FileOf(syntax)] {
			continue // where a comment stands in it is anybody's guess
		}
		file := directive.File{Fset: p.Fset, Syntax: syntax, Notes: &r.notes}
		if c := load.Constraint(p.FileOf(syntax), syntax); c != "" {
			file.Ineffective = fmt.Sprintf("%s limits the file to certain builds, and generated code is part of all", c)
			file.Fix = "move the method to a file without build constraints"
		}
		listeners = append(listeners, directive.Scan(file, &r.problems)...)
		topics = append(topics, directive.Topics(file, &r.problems)...)
	}
	for _, x := range p.Excluded {
		file := directive.File{
			Fset: p.Fset, Syntax: x.File,
			Ineffective: "build constraints exclude the file, so the listener would never be registered",
			Fix:         "move the method to a file without build constraints",
		}
		if x.Test {
			file.Ineffective, file.Fix = "the service is not complete in a test file", "move the method out of the test file"
		}
		directive.Scan(file, &r.problems)
		directive.Topics(file, &r.problems)
	}
	return listeners, topics
}

// files are the generated file as it should be, if there should be one or is one,
// and those that have to go. A package that could not be read keeps what it has.
func (p *pkg) files() ([]output.File, error) {
	var out []output.File
	f := output.File{Path: p.Generated}
	none := p.model == nil || len(p.model.Services)+len(p.model.Topics) == 0
	if none && p.Broken {
		return nil, nil
	}
	if p.Old.Ours || p.Old.Exists && !none {
		f.Old = append([]byte{}, p.Old.Content...)
	}
	if !none {
		content, err := emit.File(p.model)
		if err != nil {
			return nil, err
		}
		f.Content = content
	}
	if f.Content != nil || f.Old != nil {
		out = append(out, f)
	}
	for _, path := range p.Leftover {
		out = append(out, output.File{Path: path, Old: []byte(load.Header)})
	}
	return out, nil
}
