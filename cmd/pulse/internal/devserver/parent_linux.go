package devserver

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// groupAttr gives the command a group of its own and a first warning when pulse dev is killed.
func groupAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}

// adoptOrphans makes us the parent of what the command leaves behind, so that its ends can be seen: where
// nobody else reaps orphans, as in many containers, a group would never look empty.
func adoptOrphans() { _ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }

// endWithGoRun has the kernel send us SIGTERM when our parent dies, if that is `go run`: it hands no signal
// on, so ending it (as make does on SIGTERM) would leave us behind. Started by anybody else, a shell in
// particular, pulse dev may outlive its parent.
func endWithGoRun() {
	parent := os.Getppid()
	name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", parent))
	if err != nil || string(bytes.TrimSpace(name)) != "go" {
		return
	}
	// The setting is one of the thread; Run's caller stays on it.
	runtime.LockOSThread()
	_ = unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(syscall.SIGTERM), 0, 0, 0)
	if os.Getppid() != parent { // died in between
		_ = syscall.Kill(os.Getpid(), syscall.SIGTERM)
	}
}
