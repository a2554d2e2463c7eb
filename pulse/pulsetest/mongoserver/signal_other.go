//go:build !unix

package mongoserver

import (
	"errors"
	"os"
	"os/exec"
)

const canBuild = false

var errLocked = errors.New("locked by another process")

// lockFile creates the file and unlock removes it. A leftover of a killed process cannot be told from a
// lock that is held.
func lockFile(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if errors.Is(err, os.ErrExist) {
		return nil, errLocked
	}
	if err != nil {
		return nil, err
	}
	return func() { _ = os.Remove(path) }, f.Close()
}

func ownGroup(*exec.Cmd) {}

func terminate(p *os.Process) { _ = p.Kill() }

func killGroup(p *os.Process) { _ = p.Kill() }

func alive(int) bool { return true }
