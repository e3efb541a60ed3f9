// devcluster is a real Kubernetes control plane on loopback, in one process: etcd,
// kube-apiserver, kube-controller-manager and kube-scheduler as released, and KWOK in place
// of the kubelets. The README beside this file tells how to use it.
//
// The commands are here; what they start is in internal/plane and internal/kubelets, and
// the directory that they share is internal/home.
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	etcdversion "go.etcd.io/etcd/api/v3/version"
	"k8s.io/component-base/version"
	kwok "sigs.k8s.io/kwok/pkg/consts"
)

func main() { os.Exit(run()) }

// run returns the exit status.
func run() int {
	cmd := newCommand()
	err := cmd.Execute()
	var coded *exitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &coded):
		return coded.status
	case errors.Is(err, syscall.ENOSPC):
		err = fmt.Errorf("%w: free some space, or pass --dir on another disk", err)
	}
	fmt.Fprintln(os.Stderr, "devcluster:", err)
	return 1
}

// exitError ends the program with a status and without a message.
type exitError struct{ status int }

func (e *exitError) Error() string { return fmt.Sprintf("exit status %d", e.status) }

func newCommand() *cobra.Command {
	// Kubernetes' packages leave flags of theirs here, which cobra would make ours.
	pflag.CommandLine = pflag.NewFlagSet("devcluster", pflag.ContinueOnError)
	cmd := &cobra.Command{
		Use:   "devcluster",
		Short: "A real Kubernetes control plane on loopback, in one process",
		Long: `devcluster runs a real Kubernetes control plane on loopback, in one process, with
all its data in one directory: etcd, kube-apiserver, kube-controller-manager and
kube-scheduler, and KWOK in place of the kubelets. Several can run at once.

  devcluster up &                                   # until Ctrl-C, or devcluster down
  export KUBECONFIG=$(devcluster status -q)
  kubectl get namespaces`,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	cmd.DisableSuggestions = true
	cmd.CompletionOptions.DisableDefaultCmd = true
	cmd.AddCommand(newUpCommand(), newDownCommand(), newStatusCommand(), newVersionCommand())
	return cmd
}

func newVersionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the versions of what runs",
		Args:  cobra.NoArgs,
		Run:   func(cmd *cobra.Command, _ []string) { fmt.Fprintln(cmd.OutOrStdout(), versions()) },
	}
}

// versions names what is linked into this binary.
func versions() string {
	return fmt.Sprintf("Kubernetes %s, etcd v%s, KWOK v%s", version.Get().GitVersion, etcdversion.Version, kwok.Version)
}

// addDirFlag adds --dir, whose default is a directory that is only the user's.
func addDirFlag(cmd *cobra.Command, dir *string) {
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = "." // no home: the user must be somewhere
	}
	cmd.Flags().StringVar(dir, "dir", filepath.Join(cache, "devcluster"), "data directory, one per cluster")
}
