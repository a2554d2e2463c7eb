//go:build unix

package terminal

import (
	"os"

	"golang.org/x/sys/unix"
)

// windowWidth asks for the size of the window: what is no terminal has none.
func windowWidth(f *os.File) (int, bool) {
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0, false
	}
	return int(size.Col), true
}
