package load

import (
	"go/token"
	"os"
	"path/filepath"
	"regexp"

	"golang.org/x/tools/go/packages"

	"github.com/orionjs/orion-go/generator/internal/diag"
)

// problem is what keeps the generator from trusting a package.
type problem struct {
	pos          token.Position
	message, fix string
}

// reportBroken reports what is wrong with packages. One that has no directive,
// and that no package with a directive is made of, cannot change what is
// generated: its problems are the compiler's to tell, and here they are notes.
func (s *Set) reportBroken(cfg Config, problems, notes *diag.List) {
	needed := s.needed(cfg)
	for _, p := range s.Packages {
		if needed(p.Package) {
			for _, x := range p.problems {
				problems.Add(x.pos, x.message, x.fix)
			}
		} else if len(p.problems) > 0 {
			x := p.problems[0]
			notes.Add(x.pos, "note: "+x.message, "the package is passed over: it has no directive, and no listener needs it")
		}
	}
}

// needed returns which packages have directives, or are imported on the way from
// one that has.
func (s *Set) needed(cfg Config) func(*packages.Package) bool {
	reached := make(map[string]bool)
	broken := false
	for _, p := range s.Packages {
		broken = broken || p.Broken
	}
	if !broken {
		return func(*packages.Package) bool { return true } // nobody asks
	}
	for _, p := range s.Packages {
		// A package that could not be listed has no files to look at.
		if len(p.GoFiles)+len(p.IgnoredFiles) > 0 && !cfg.mentions(p) {
			continue
		}
		packages.Visit([]*packages.Package{p.Package}, func(q *packages.Package) bool {
			if reached[q.ID] {
				return false
			}
			reached[q.ID] = true
			return true
		}, nil)
	}
	return func(p *packages.Package) bool { return reached[p.ID] }
}

// directives matches comments that may be a directive or one of the misspellings
// that are reported.
var directives = regexp.MustCompile(`(?i)//[^\n]*echo|//(event|batch)\s|/\*([^*]|\*[^/])*echo`)

// mentions reports whether the text of a package has a comment like a directive.
func (c Config) mentions(p *Package) bool {
	for _, path := range append(p.GoFiles[:len(p.GoFiles):len(p.GoFiles)], p.IgnoredFiles...) {
		if filepath.Ext(path) != ".go" || filepath.Base(path) == c.Output {
			continue
		}
		src, err := os.ReadFile(path)
		if err != nil {
			return true // what cannot be read may hold anything
		}
		if !hasHeader(src) && directives.Match(src) {
			return true
		}
	}
	return false
}
