//go:build unix

package fleet

import (
	"fmt"
	"syscall"
	"time"
)

// Freeze stops the process where it is, until Thaw.
func (p *Process) Freeze() error { return p.signal(syscall.SIGSTOP) }

// Thaw lets a frozen process go on.
func (p *Process) Thaw() error { return p.signal(syscall.SIGCONT) }

func (p *Process) signal(sig syscall.Signal) error {
	if err := p.cmd.Process.Signal(sig); err != nil {
		return fmt.Errorf("process %s: %v: %w", p.Name, sig, err)
	}
	return nil
}

// PeakMemory returns the most memory that the process had in use, in bytes, once it is gone.
func (p *Process) PeakMemory() int64 {
	usage, ok := p.cmd.ProcessState.SysUsage().(*syscall.Rusage)
	if !ok {
		return 0
	}
	return int64(usage.Maxrss) * rssUnit
}

// CPU returns the processor time that this process has taken so far.
func CPU() time.Duration {
	var usage syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &usage) != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
