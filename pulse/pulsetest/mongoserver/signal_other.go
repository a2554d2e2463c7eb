//go:build !unix

package mongoserver

import (
	"errors"
	"os"
	"os/exec"
)

const canBuild = false

var errLocked = errors.New("locked by another process")

// lockFile only creates the file: without locks a leftover cannot be told from a directory in use, so
// every file counts as held once it exists.
func lockFile(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if errors.Is(err, os.ErrExist) {
		return nil, errLocked
	}
	if err != nil {
		return nil, err
	}
	return func() {}, f.Close()
}

func ownGroup(*exec.Cmd) {}

func terminate(p *os.Process) { _ = p.Kill() }

func killGroup(p *os.Process) { _ = p.Kill() }

func alive(int) bool { return true }
