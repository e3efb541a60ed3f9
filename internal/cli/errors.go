package cli

import "github.com/spf13/cobra"

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

func wrongUse(cmd *cobra.Command, err error) error {
	name := ""
	if cmd.HasParent() {
		name = cmd.Name() + " "
	}
	return &usageError{err, name}
}
