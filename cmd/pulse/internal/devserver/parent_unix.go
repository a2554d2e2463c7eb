//go:build unix && !linux

package devserver

import "syscall"

func groupAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

func adoptOrphans() {}

func endWithGoRun() {}
