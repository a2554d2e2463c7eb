//go:build !unix && !windows

package terminal

import "os"

// windowWidth: no terminals are known here.
func windowWidth(*os.File) (int, bool) { return 0, false }
