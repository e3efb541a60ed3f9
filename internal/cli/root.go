// Package cli is the command line: one file a command. Commands parse, call the library
// that does the work, and print; they decide nothing.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
)

// Main runs the command line and returns the exit status: 0, or 1 after one line that
// says what is wrong, 2 if it was called wrongly, or what a statusError says.
func Main(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	return MainAs(ctx, "dovetail", args, stdout, stderr)
}

// MainAs is Main for a program that was called by the name or path given (asNamed).
func MainAs(ctx context.Context, program string, args []string, stdout, stderr io.Writer) int {
	name, args := asNamed(program, args)
	controller := newController() //nolint:contextcheck // cobra hands each command its context
	root := newRoot(controller)   //nolint:contextcheck // likewise
	root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: name}
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
		fmt.Fprintf(stderr, "dovetail: %s (see %s %s--help)\n", usage, name, usage.command)
		return 2
	default:
		fmt.Fprintf(stderr, "dovetail: %s\n", err)
		return 1
	}
}

// Command returns all commands as cobra knows them, for those who describe them.
func Command() *cobra.Command { return newRoot(newController()) }

func newRoot(controller *cobra.Command) *cobra.Command {
	root := &cobra.Command{
		Use:   "dovetail",
		Short: "A just-in-time node autoscaler for Kubernetes that speaks Karpenter's API",
		Long: `Dovetail watches for pods that no node can take, launches the nodes that fit them at
the lowest price, and removes nodes that are not needed. It speaks the Karpenter API:
NodePools, NodeClaims and their labels mean here what they mean there.`,
		SilenceUsage: true, SilenceErrors: true,
		Args: cobra.NoArgs, Version: version,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetVersionTemplate(versionText())
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return wrongUse(cmd, err) })
	root.AddCommand(
		newAWSSim(),
		controller,
		newConvert(),
		newCRDs(),
		newDemo(),
		newDoctor(),
		newExplain(),
		newMigrate(),
		newPause(),
		newProviderTest(),
		newReplay(),
		newResume(),
		newSavings(),
		newSimulate(),
		newSnapshot(),
		newUninstall(),
		newUntaint(),
		newVersion(),
	)
	root.AddCommand(newViewCommands()...)
	for _, c := range append(root.Commands(), root) {
		args := c.Args
		c.Args = func(cmd *cobra.Command, given []string) error {
			if err := args(cmd, given); err != nil {
				return wrongUse(cmd, err)
			}
			if err := cmd.ValidateFlagGroups(); err != nil {
				return wrongUse(cmd, err)
			}
			return nil
		}
	}
	return root
}
