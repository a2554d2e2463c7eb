package mongoserver

import (
	"os/exec"
	"syscall"
)

// ownGroup keeps the terminal's Ctrl-C away from the server, which has to outlive its clients' shutdown,
// and has the kernel end it when its owner dies without stopping it. The signal is SIGTERM: a container
// runtime's client hands it on to the container, and every server obeys it.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}
