//go:build !unix

package fleet

import (
	"errors"
	"fmt"
	"os/exec"
	"time"
)

func ownGroup(*exec.Cmd) {}

var errNoSignals = fmt.Errorf("a process can be frozen on Unix only: %w", errors.ErrUnsupported)

// Freeze stops the process where it is; it cannot here.
func (p *Process) Freeze() error { return errNoSignals }

// Thaw lets a frozen process go on; it cannot here.
func (p *Process) Thaw() error { return errNoSignals }

// PeakMemory is not known here: 0.
func (p *Process) PeakMemory() int64 { return 0 }

// CPU is not known here: 0.
func CPU() time.Duration { return 0 }
