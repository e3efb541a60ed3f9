// Package cli is the command line: one file a command. Commands parse, call the library
// that does the work, and print; they decide nothing.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version is what a build without version information says.
const version = "0.1.0-dev"

// Main runs the command line and returns the exit status: 0, or 1 after one line that
// says what is wrong, 2 if it was called wrongly, or what a statusError says.
func Main(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	controller := newController() //nolint:contextcheck // cobra hands each command its context
	root := newRoot(controller)   //nolint:contextcheck // likewise
	root.SetOut(stdout)
	root.SetErr(stderr)
	args, err := asCalled(controller, args)
	if err == nil {
		root.SetArgs(args)
		err = root.ExecuteContext(ctx)
	}
	var usage *usageError
	var status *statusError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &status):
		if status.error != nil {
			fmt.Fprintf(stderr, "dovetail: %s\n", status.error)
		}
		return status.status
	case errors.As(err, &usage):
		fmt.Fprintf(stderr, "dovetail: %s (see dovetail %s--help)\n", usage, usage.command)
		return 2
	default:
		fmt.Fprintf(stderr, "dovetail: %s\n", err)
		return 1
	}
}

// usageError is a mistake in how a command was called.
type usageError struct {
	error
	command string
}

// statusError ends the program with a status of its own; without an error, silently.
type statusError struct {
	error
	status int
}

func newRoot(controller *cobra.Command) *cobra.Command {
	root := &cobra.Command{
		Use:   "dovetail",
		Short: "A just-in-time node autoscaler for Kubernetes that speaks Karpenter's API",
		Long: `Dovetail watches for pods that no node can take, launches the nodes that fit them at
the lowest price, and removes nodes that are not needed. It speaks the Karpenter API:
NodePools, NodeClaims and their labels mean here what they mean there.`,
		SilenceUsage: true, SilenceErrors: true,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return wrongUse(cmd, err) })
	root.AddCommand(newAWSSim(), controller, newCRDs(), newDemo(), newDoctor(), newExplain(), newReplay(), newSimulate(), newSnapshot(), newUntaint(), newVersion())
	for _, c := range append(root.Commands(), root) {
		args := c.Args
		c.Args = func(cmd *cobra.Command, given []string) error {
			if err := args(cmd, given); err != nil {
				return wrongUse(cmd, err)
			}
			return nil
		}
	}
	return root
}

func wrongUse(cmd *cobra.Command, err error) error {
	name := ""
	if cmd.HasParent() {
		name = cmd.Name() + " "
	}
	return &usageError{err, name}
}

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "dovetail %s (%s)\n", version, commit())
			return err
		},
	}
}

// commit returns the revision that the binary was built from, shortened.
func commit() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return s.Value[:min(7, len(s.Value))]
		}
	}
	return "unknown"
}
