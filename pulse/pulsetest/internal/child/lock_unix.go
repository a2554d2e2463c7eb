//go:build unix

package child

import (
	"errors"
	"os"
	"syscall"
)

// CanLock says whether this system has the file locks that AwaitLock needs.
const CanLock = true

// ErrLocked is what Lock returns when another process has the lock.
var ErrLocked = errors.New("locked by another process")

// Lock takes the lock of the file without waiting, creating the file if its directory exists. The lock
// ends with unlock or with the process, however that ends; children do not inherit it.
func Lock(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if err != nil {
		_ = f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, ErrLocked
		}
		return nil, err
	}
	return func() { _ = f.Close() }, nil
}

func terminate(p *os.Process) { _ = p.Signal(syscall.SIGTERM) }

// KillGroup ends the process and all it started, at once.
func KillGroup(p *os.Process) { _ = syscall.Kill(-p.Pid, syscall.SIGKILL) }

// Alive says whether a process with this number exists.
func Alive(pid int) bool { return !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }
