package main

import (
	"context"
	"fmt"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/dovetail-sh/dovetail/devcluster/internal/home"
)

const (
	downTimeout = 40 * time.Second
	downPoll    = 50 * time.Millisecond
)

func newDownCommand() *cobra.Command {
	var dir string
	var remove bool
	cmd := &cobra.Command{
		Use:   "down",
		Short: "Stop the cluster of a directory and wait until it has ended",
		Long: `Stop the cluster of a directory and wait until it has ended. Its data stays for the
next devcluster up, unless --delete is given. To stop what does not run is success.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			pid, running, err := home.Holder(dir)
			if err != nil {
				return err
			}
			said := "not running"
			if running {
				if err := down(cmd.Context(), dir, pid); err != nil {
					return err
				}
				said = fmt.Sprintf("stopped pid %d", pid)
			}
			if remove {
				if err := home.Delete(dir); err != nil {
					return err
				}
				said += ", deleted " + dir
			}
			fmt.Fprintln(cmd.OutOrStdout(), said)
			return nil
		},
	}
	addDirFlag(cmd, &dir)
	cmd.Flags().BoolVar(&remove, "delete", false, "remove the cluster's data as well")
	return cmd
}

// down asks the process to end and returns when it has given the directory back.
func down(ctx context.Context, dir string, pid int) error {
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
		return fmt.Errorf("stop pid %d: %w", pid, err)
	}
	ctx, cancel := context.WithTimeout(ctx, downTimeout)
	defer cancel()
	tick := time.NewTicker(downPoll)
	defer tick.Stop()
	for {
		_, running, err := home.Holder(dir)
		if err != nil || !running {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("pid %d did not end within %s: kill -9 %d ends it, and loses nothing", pid, downTimeout, pid)
		}
	}
}
