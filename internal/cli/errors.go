package cli

import "github.com/spf13/cobra"

const (
	// statusNoSubject is the exit status of a question about what does not exist.
	statusNoSubject = 4
	// statusUnreachable is the exit status when no controller can be asked.
	statusUnreachable = 5
)

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

// Unwrap returns the error.
func (e *statusError) Unwrap() error { return e.error }

func wrongUse(cmd *cobra.Command, err error) error {
	name := ""
	if cmd.HasParent() {
		name = cmd.Name() + " "
	}
	return &usageError{err, name}
}
