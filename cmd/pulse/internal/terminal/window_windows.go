package terminal

import (
	"os"

	"golang.org/x/sys/windows"
)

// windowWidth asks for the console's buffer. Standard input is a console without one, but with a mode.
func windowWidth(f *os.File) (int, bool) {
	var info windows.ConsoleScreenBufferInfo
	if windows.GetConsoleScreenBufferInfo(windows.Handle(f.Fd()), &info) == nil {
		return int(info.Window.Right-info.Window.Left) + 1, true
	}
	var mode uint32
	return 0, windows.GetConsoleMode(windows.Handle(f.Fd()), &mode) == nil
}
