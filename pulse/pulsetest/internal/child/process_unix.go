//go:build unix && !linux

package child

import (
	"os/exec"
	"syscall"
)

// ownGroup keeps the terminal's Ctrl-C away from the server, which has to outlive its clients' shutdown.
func ownGroup(cmd *exec.Cmd, _ syscall.Signal) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
}
