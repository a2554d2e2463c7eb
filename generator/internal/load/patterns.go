package load

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/tools/go/packages"
)

// unmatched returns an error that names the patterns which match nothing: a
// misspelled folder in a list of several would else go unnoticed. Packages that
// are there and belong to others are matched, and passed over.
func unmatched(cfg Config, pkgs []*packages.Package, ours int) error {
	var out []string
	add := func(text string) { out = append(out, strings.Join(strings.Fields(text), " ")) }
	for _, p := range pkgs {
		if p.Module != nil || len(p.GoFiles) > 0 {
			continue
		}
		for _, e := range p.Errors {
			if e.Kind == packages.ListError && !strings.HasPrefix(e.Msg, "# ") {
				add(strings.TrimSpace(e.Msg))
			}
		}
	}
	if len(out) == 0 {
		for _, pattern := range cfg.Patterns {
			if before, _, wild := strings.Cut(pattern, "..."); wild && !anyBelow(cfg.Dir, before, pkgs) {
				add(pattern + " matches no package")
			}
		}
	}
	if ours == 0 && (len(out) == 0 || !above(cfg.Dir, "go.mod")) {
		out = []string{"no package of this module matches " + strings.Join(cfg.Patterns, " ")}
	}
	switch {
	case len(out) == 0:
		return nil
	case !above(cfg.Dir, "go.mod") && above(cfg.Dir, "go.work"):
		add("this folder belongs to no module of the workspace: run echoesgen in a module, or name one like ./module/...")
	case !above(cfg.Dir, "go.mod"):
		add("there is no go.mod in this folder or above it: run echoesgen in a module, or go mod init first")
	}
	return errors.New(strings.Join(out, "; "))
}

// anyBelow reports whether a package begins as a pattern does before its first
// "...".
func anyBelow(dir, prefix string, pkgs []*packages.Package) bool {
	local := prefix == "" || prefix[0] == '.' || filepath.IsAbs(prefix)
	if local {
		// A final slash is not part of the folder: ./a/... matches ./a too.
		prefix = filepath.Clean(prefix)
		if !filepath.IsAbs(prefix) {
			prefix = filepath.Join(dir, prefix)
		}
		if real, err := filepath.EvalSymlinks(prefix); err == nil {
			prefix = real
		}
	} else {
		prefix = strings.TrimSuffix(prefix, "/")
	}
	for _, p := range pkgs {
		name := p.PkgPath
		if local {
			name = p.Dir
			if real, err := filepath.EvalSymlinks(name); err == nil {
				name = real
			}
		}
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// above reports whether a folder or one around it has a file of this name.
func above(dir, name string) bool {
	for {
		if info, err := os.Stat(filepath.Join(dir, name)); err == nil && !info.IsDir() {
			return true
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return false
		}
		dir = parent
	}
}
