package main

import (
	"context"
	"errors"
	"os"
	"time"
)

const parentPoll = 250 * time.Millisecond

// errParentEnded is the cause of a context's end by withParent.
var errParentEnded = errors.New("the process that started devcluster has ended")

// withParent returns a context that ends when the process pid is no longer our parent,
// which is so from the moment that it ends, in whatever way. The kernel's own signal for
// this (PR_SET_PDEATHSIG) is of no use: it is sent when the parent's thread ends.
func withParent(ctx context.Context, pid int) context.Context {
	if pid == whoeverStarted {
		pid = os.Getppid()
	}
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		defer cancel(errParentEnded)
		tick := time.NewTicker(parentPoll)
		defer tick.Stop()
		for os.Getppid() == pid {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return // the context has a cause already
			}
		}
	}()
	return ctx
}
