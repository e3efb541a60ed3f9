package e2e

import (
	"os/exec"
	"syscall"
)

// withParent ends a child with the thread that started it, so that no dovetail is left
// behind by a test that is killed.
func withParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }

// inRoot lets a program see a directory as its whole file system, as a user without rights.
func inRoot(cmd *exec.Cmd, root string, user uint32) {
	cmd.SysProcAttr = withParent()
	cmd.SysProcAttr.Chroot, cmd.SysProcAttr.Credential = root, &syscall.Credential{Uid: user, Gid: user}
}
