package e2e

import "syscall"

// withParent ends a child with the thread that started it, so that no dovetail is left
// behind by a test that is killed.
func withParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
