package doccheck

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/matryer/is"
)

// root is the top of the repository, from this package.
const root = "../.."

// page is one Markdown file.
type page struct {
	name   string // from the repository's top, with slashes
	blocks []block
	prose  string // the text without blocks, line for line
	dir    string // where it lies, if that is not its place in the repository
}

// block is one fenced block.
type block struct {
	page  string
	line  int // of the fence
	end   int // of the closing fence
	lang  string
	text  string
	notes []string // the HTML comments directly above, without their signs
}

// note returns what stands behind the name in one of the comments above the block.
func (b block) note(name string) (string, bool) {
	for _, n := range b.notes {
		if rest, ok := strings.CutPrefix(n, name); ok && (rest == "" || strings.ContainsAny(rest[:1], " :\n")) {
			return strings.TrimLeft(rest, " :\n"), true
		}
	}
	return "", false
}

// pages reads all documents that users and contributors get.
func pages(t *testing.T) []page {
	t.Helper()
	is := is.New(t)
	var names []string
	for _, pattern := range []string{"*.md", "docs/*.md", "examples/*.md", "examples/*/*.md"} {
		found, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(pattern)))
		is.NoErr(err)
		names = append(names, found...)
	}
	is.True(len(names) > 15) // the documents were found
	var all []page
	for _, name := range names {
		text, err := os.ReadFile(name)
		is.NoErr(err)
		rel, err := filepath.Rel(root, name)
		is.NoErr(err)
		all = append(all, parse(filepath.ToSlash(rel), string(text)))
	}
	return all
}

// sources tells the cache of go test which files a test depends on that has programs built or blocks compiled: those
// that other processes read are unknown to it, and what was right once would stay so.
func sources(t *testing.T) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && strings.HasPrefix(d.Name(), ".") && path != root {
			return fs.SkipDir
		}
		if err == nil && filepath.Ext(path) == ".go" {
			_, err = os.Stat(path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// pageNamed reads one of them.
func pageNamed(t *testing.T, name string) page {
	t.Helper()
	for _, p := range pages(t) {
		if p.name == name {
			return p
		}
	}
	t.Fatalf("there is no page %s", name)
	return page{}
}

// parse splits a page into prose and blocks. A fence begins in the first column, as everywhere in these pages.
func parse(name, text string) page {
	p := page{name: name}
	var notes []string
	var comment *strings.Builder // an HTML comment that goes on
	var open *block
	for i, line := range strings.SplitAfter(text, "\n") {
		bare := strings.TrimRight(line, "\n")
		prose := "\n"
		switch {
		case open != nil && strings.TrimSpace(bare) == "```":
			open.end = i + 1
			p.blocks = append(p.blocks, *open)
			open = nil
		case open != nil:
			open.text += line
		case comment != nil:
			rest, ended := strings.CutSuffix(bare, "-->")
			comment.WriteString(rest + "\n")
			if ended {
				notes = append(notes, strings.TrimSpace(comment.String()))
				comment = nil
			}
		case strings.HasPrefix(bare, "```"):
			open = &block{page: name, line: i + 1, lang: strings.TrimPrefix(bare, "```"), notes: notes}
			notes = nil
		case strings.HasPrefix(bare, "<!--"):
			rest, ended := strings.CutSuffix(strings.TrimPrefix(bare, "<!--"), "-->")
			if ended {
				notes = append(notes, strings.TrimSpace(rest))
			} else {
				comment = &strings.Builder{}
				comment.WriteString(rest + "\n")
			}
		default:
			notes = nil
			prose = line
		}
		p.prose += prose
	}
	return p
}

// languages are those that some test here looks at. What is only shown, such as output, is text.
var languages = regexp.MustCompile(`^(go|sh|js|json|yaml|promql|mermaid|text)$`)

var indented = regexp.MustCompile(`(?m)(?:\A|^[^\S\n]*\n) {4}\S`)

// TestPages_EveryBlockIsChecked: no block escapes by a language that nothing looks at, or by being indented.
func TestPages_EveryBlockIsChecked(t *testing.T) {
	t.Parallel()
	for _, p := range pages(t) {
		for _, at := range indented.FindAllStringIndex(p.prose, -1) {
			t.Errorf("%s:%d: an indented block: fence it, and say its language", p.name, strings.Count(p.prose[:at[1]], "\n")+1)
		}
		for _, b := range p.blocks {
			if !languages.MatchString(b.lang) {
				t.Errorf("%s:%d: a block of the language %q: say one of %s; output is text", b.page, b.line, b.lang, languages)
			}
			for _, n := range b.notes {
				if !regexp.MustCompile(`^(with\s|alone$|tutorial:|in: \S+$)`).MatchString(n) {
					t.Errorf("%s:%d: a comment above the block that no test knows: %q", b.page, b.line, n)
				}
			}
		}
	}
}
