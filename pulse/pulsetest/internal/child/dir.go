package child

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

// Dir is what belongs to one server on the disk: its log, its configuration, its lock and, unless the caller
// has a place of their own for it, its data.
type Dir struct {
	Data string // the directory for the data

	path        string
	unlock      func()
	releaseData func() // of a storage path that is the caller's; nil otherwise
}

// NewDir makes a temporary directory whose name starts with prefix, and removes those of the same prefix that
// killed processes have left. storage is the caller's own place for the data, which stays, or empty; only one
// server at a time can use it (a file beside it, with .lock at the end of its name, guards that).
func NewDir(prefix, storage string) (*Dir, error) {
	sweep(prefix)
	d := &Dir{}
	for {
		path, err := os.MkdirTemp("", prefix+strconv.Itoa(os.Getpid())+"-")
		if err != nil {
			return nil, fmt.Errorf("make a temporary directory: %w", err)
		}
		unlock, err := Lock(filepath.Join(path, "lock"))
		if errors.Is(err, ErrLocked) || errors.Is(err, os.ErrNotExist) {
			// The sweep of another process saw the directory before it was locked and takes it for a
			// leftover: leave it to that one.
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("lock a temporary directory: %w", err)
		}
		if _, err := os.Stat(filepath.Join(path, "lock")); err != nil {
			unlock() // swept between the two steps
			continue
		}
		d.path, d.unlock = path, unlock
		break
	}
	d.Data = filepath.Join(d.path, "data")
	if storage != "" {
		abs, err := filepath.Abs(storage)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("storage path %q: %w", storage, err), d.Remove())
		}
		d.Data = abs
	}
	if err := os.MkdirAll(d.Data, 0o700); err != nil {
		return nil, errors.Join(fmt.Errorf("make the storage directory: %w", err), d.Remove())
	}
	if storage != "" {
		release, err := Lock(d.Data + ".lock")
		if errors.Is(err, ErrLocked) {
			return nil, errors.Join(fmt.Errorf("the storage %s is in use by another server: stop that one, or choose another place", d.Data), d.Remove())
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("lock the storage: %w", err), d.Remove())
		}
		d.releaseData = release
	}
	return d, nil
}

// LogPath is the file for what the server writes.
func (d *Dir) LogPath() string { return filepath.Join(d.path, "server.log") }

// ConfigPath is the place for the server's configuration; nothing is there yet.
func (d *Dir) ConfigPath() string { return filepath.Join(d.path, "server.conf") }

// Remove removes all but a storage of the caller's own.
func (d *Dir) Remove() error {
	err := os.RemoveAll(d.path)
	d.unlock()
	if d.releaseData != nil {
		d.releaseData()
	}
	return err
}

// sweep removes what servers of killed processes left behind: directories whose lock nobody holds.
// It is tidying alone, so errors do not matter.
func sweep(prefix string) {
	paths, _ := filepath.Glob(filepath.Join(os.TempDir(), prefix+"*"))
	for _, path := range paths {
		lock := filepath.Join(path, "lock")
		if _, err := os.Stat(lock); err != nil {
			continue // just being made
		}
		if unlock, err := Lock(lock); err == nil {
			_ = os.RemoveAll(path)
			unlock()
		}
	}
}
