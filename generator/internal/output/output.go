// Package output brings generated files onto the disk, or compares them with
// what is there.
package output

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
)

// Status says what became of a file.
type Status string

// The states of a generated file. In check mode nothing is written, and all but
// Unchanged mean that the file is stale.
const (
	// Unchanged: the file already has the content.
	Unchanged Status = "unchanged"
	// Created: there was no file.
	Created Status = "created"
	// Updated: the file had other content.
	Updated Status = "updated"
	// Removed: the package has no listener any more.
	Removed Status = "removed"
)

// File is a generated file as it should be.
type File struct {
	Path string
	// Content is nil when there should be no file.
	Content []byte
	// Old is what was found, nil for no file.
	Old []byte
}

// Status says what has to be done with the file.
func (f File) Status() Status {
	switch {
	case f.Content == nil && f.Old == nil:
		return Unchanged
	case f.Content == nil:
		return Removed
	case f.Old == nil:
		return Created
	case bytes.Equal(f.Content, f.Old):
		return Unchanged
	}
	return Updated
}

// position is where a listener stands in the source, as generated code has it. In
// a string literal its quotes would be escaped.
var position = regexp.MustCompile(`\.At\("[^"\n]*"\)`)

// UpToDate reports whether the file does what it should: it may differ from the
// content in the positions that messages name, which change whenever lines are
// moved, and in line ends, which git may convert.
func (f File) UpToDate() bool {
	same := func(b []byte) []byte {
		return position.ReplaceAll(bytes.ReplaceAll(b, []byte("\r\n"), []byte("\n")), nil)
	}
	return f.Status() == Unchanged || f.Status() == Updated && bytes.Equal(same(f.Content), same(f.Old))
}

// Apply makes the files on disk what they should be. A reader sees an old file or
// a new one and never a part: contents are written beside them and renamed. That
// begins when all are written, so that a full disk or a folder that is read-only
// leaves everything as it was. A file that has the content already is not touched,
// so that nothing that looks at modification times builds again.
func Apply(files []File) (err error) {
	staged := make(map[string]string) // temporary files by path
	defer func() {
		for _, tmp := range staged {
			err = errors.Join(err, os.Remove(tmp))
		}
	}()
	for _, f := range files {
		if s := f.Status(); s == Created || s == Updated {
			tmp, err := f.stage()
			if err != nil {
				return fmt.Errorf("writing %s: %w", f.Path, err)
			}
			staged[f.Path] = tmp
		}
	}
	for _, f := range files {
		if tmp, ok := staged[f.Path]; ok {
			if err := os.Rename(tmp, f.Path); err != nil {
				return fmt.Errorf("writing %s: %w", f.Path, err)
			}
			delete(staged, f.Path)
		}
	}
	// Last, so that what a file replaces under another name is there until then.
	for _, f := range files {
		if f.Status() != Removed {
			continue
		}
		if err := os.Remove(f.Path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("removing a generated file that is no longer needed: %w", err)
		}
	}
	return nil
}

// stage writes the content beside the file.
func (f File) stage() (string, error) {
	mode := fs.FileMode(0o644)
	if info, err := os.Stat(f.Path); err == nil {
		mode = info.Mode().Perm()
	}
	// The name begins with a dot, so that the go command passes over what a crash
	// leaves behind.
	tmp, err := os.CreateTemp(filepath.Dir(f.Path), ".echoes_gen-*")
	if err != nil {
		return "", err
	}
	_, err = tmp.Write(f.Content)
	err = errors.Join(err, tmp.Chmod(mode), tmp.Close())
	if err != nil {
		return "", errors.Join(err, os.Remove(tmp.Name()))
	}
	return tmp.Name(), nil
}
