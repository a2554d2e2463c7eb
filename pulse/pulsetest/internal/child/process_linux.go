package child

import (
	"os/exec"
	"syscall"
)

// ownGroup keeps the terminal's Ctrl-C away from the server, which has to outlive its clients' shutdown,
// and has the kernel send it the signal when its owner dies without stopping it.
func ownGroup(cmd *exec.Cmd, deathSignal syscall.Signal) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: deathSignal}
}
