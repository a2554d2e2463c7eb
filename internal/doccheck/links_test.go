package doccheck

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"
)

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#{1,6} (.+)$`)
	inline  = regexp.MustCompile("`[^`\n]*`")
)

// TestPages_LinksLeadSomewhere follows the links between the documents, to files and headings.
func TestPages_LinksLeadSomewhere(t *testing.T) {
	t.Parallel()
	anchors := map[string]map[string]bool{}
	all := pages(t)
	for _, p := range all {
		anchors[p.name] = map[string]bool{}
		for _, h := range heading.FindAllStringSubmatch(p.prose, -1) {
			anchors[p.name][anchor(h[1])] = true
		}
	}
	for _, p := range all {
		for _, l := range link.FindAllStringSubmatch(inline.ReplaceAllString(p.prose, ""), -1) {
			target, fragment, _ := strings.Cut(l[1], "#")
			if strings.Contains(target, "://") {
				continue
			}
			file := p.name
			if target != "" {
				file = path.Join(path.Dir(p.name), target)
			}
			if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(file))); err != nil {
				t.Errorf("%s: the link %s leads nowhere", p.name, l[1])
			} else if fragment != "" && !anchors[file][fragment] {
				t.Errorf("%s: the link %s leads to a heading that %s does not have", p.name, l[1], file)
			}
		}
	}
}

// TestPages_IndexHasEveryPage: a reader of docs/README.md finds all of docs/.
func TestPages_IndexHasEveryPage(t *testing.T) {
	t.Parallel()
	index := pageNamed(t, "docs/README.md")
	for _, p := range pages(t) {
		if name, ok := strings.CutPrefix(p.name, "docs/"); ok && name != "README.md" && !strings.Contains(index.prose, "]("+name+")") {
			t.Errorf("docs/README.md does not link %s", name)
		}
	}
}

// anchor is the name that GitHub gives a heading.
func anchor(heading string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(heading) {
		switch {
		case unicode.IsLetter(r) || unicode.IsDigit(r) || r == '-' || r == '_':
			b.WriteRune(r)
		case r == ' ':
			b.WriteByte('-')
		}
	}
	return b.String()
}
