//go:build !linux

package e2e

import "syscall"

func withParent() *syscall.SysProcAttr { return nil }
