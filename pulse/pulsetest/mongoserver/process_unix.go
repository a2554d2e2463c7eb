//go:build unix && !linux

package mongoserver

import (
	"os/exec"
	"syscall"
)

// ownGroup keeps the terminal's Ctrl-C away from the server, which has to outlive its clients' shutdown.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
}
