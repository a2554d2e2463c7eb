//go:build !unix

package child

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
)

// CanLock says whether this system has the file locks that AwaitLock needs.
const CanLock = false

// ErrLocked is what Lock returns when another process has the lock.
var ErrLocked = errors.New("locked by another process")

// Lock creates the file and unlock removes it. A leftover of a killed process cannot be told from a
// lock that is held.
func Lock(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if errors.Is(err, os.ErrExist) {
		return nil, ErrLocked
	}
	if err != nil {
		return nil, err
	}
	return func() { _ = os.Remove(path) }, f.Close()
}

func ownGroup(*exec.Cmd, syscall.Signal) {}

func terminate(p *os.Process) { _ = p.Kill() }

// KillGroup ends the process at once.
func KillGroup(p *os.Process) { _ = p.Kill() }

// Alive cannot be told on this system.
func Alive(int) bool { return true }
